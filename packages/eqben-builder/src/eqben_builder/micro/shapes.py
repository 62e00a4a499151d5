"""Signed distances and exact areas of the eight shapes, each inside the unit circle about its centre.

A distance is exact at the boundary and has slope one across it, which is all that anti-aliasing needs; far from a
corner's outside it may be smaller than the true one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = NDArray[np.float32]

_CIRCLE = 0.88
_SQUARE = math.sqrt(0.5)
_DIAMOND = (0.62, 1.0)
_CROSS = (0.92, 0.30)
_STAR_INNER = 0.45
_RING = (0.92, 0.52)
_HEART = 0.96


def _circle(x: Floats, y: Floats) -> Floats:
    distance: Floats = np.sqrt(x * x + y * y) - np.float32(_CIRCLE)
    return distance


def _square(x: Floats, y: Floats) -> Floats:
    distance: Floats = np.maximum(np.abs(x), np.abs(y)) - np.float32(_SQUARE)
    return distance


def _triangle(x: Floats, y: Floats) -> Floats:
    # Equilateral, one corner up (y runs downwards); the inscribed radius is half the circumscribed one.
    side = np.abs(x) * np.float32(math.sqrt(0.75)) - y * np.float32(0.5)
    distance: Floats = np.maximum(side, y) - np.float32(0.5)
    return distance


def _diamond(x: Floats, y: Floats) -> Floats:
    a, b = _DIAMOND
    norm = math.hypot(a, b)
    across = np.abs(x) * np.float32(b / norm)
    down = np.abs(y) * np.float32(a / norm)
    return across + down - np.float32(a * b / norm)


def _cross(x: Floats, y: Floats) -> Floats:
    long, thin = np.float32(_CROSS[0]), np.float32(_CROSS[1])
    x, y = np.abs(x), np.abs(y)
    distance: Floats = np.minimum(np.maximum(x - long, y - thin), np.maximum(x - thin, y - long))
    return distance


def _star(x: Floats, y: Floats) -> Floats:
    # Five mirrors fold the plane onto the wedge between a tip (angle 0 from "up") and an inner corner (36 degrees),
    # where the outline is one straight line.
    sin, cos = np.float32(math.sin(math.pi / 5)), np.float32(math.cos(math.pi / 5))
    u, v = np.abs(x), -y
    for _ in range(2):
        beyond = np.float32(2) * np.maximum(u * cos - v * sin, np.float32(0))
        u = np.abs(u - beyond * cos)
        v = v + beyond * sin
    inner_u, inner_v = _STAR_INNER * math.sin(math.pi / 5), _STAR_INNER * math.cos(math.pi / 5)
    along_u, along_v = inner_u, inner_v - 1.0
    norm = math.hypot(along_u, along_v)
    return u * np.float32(-along_v / norm) + (v - np.float32(1)) * np.float32(along_u / norm)


def _ring(x: Floats, y: Floats) -> Floats:
    outer, inner = _RING
    middle, half = (outer + inner) / 2, (outer - inner) / 2
    distance: Floats = np.abs(np.sqrt(x * x + y * y) - np.float32(middle)) - np.float32(half)
    return distance


def _heart(x: Floats, y: Floats) -> Floats:
    # A square on its corner and two half discs on its upper sides.
    a = _HEART
    x = np.abs(x)
    body = (x + np.abs(y)) * np.float32(math.sqrt(0.5)) - np.float32(a / 2)
    offset = np.float32(a * math.sqrt(0.125))
    lobe = np.sqrt((x - offset) ** 2 + (y + offset) ** 2) - np.float32(a / 2)
    distance: Floats = np.minimum(body, lobe)
    return distance


_DISTANCE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "diamond": _diamond,
    "cross": _cross,
    "star": _star,
    "ring": _ring,
    "heart": _heart,
}

#: Exact area of each shape for a circumscribed radius of one.
AREA: dict[str, float] = {
    "circle": math.pi * _CIRCLE**2,
    "square": 4 * _SQUARE**2,
    "triangle": 0.75 * math.sqrt(3),
    "diamond": 2 * _DIAMOND[0] * _DIAMOND[1],
    "cross": 8 * _CROSS[0] * _CROSS[1] - 4 * _CROSS[1] ** 2,
    "star": 5 * _STAR_INNER * math.sin(math.pi / 5),
    "ring": math.pi * (_RING[0] ** 2 - _RING[1] ** 2),
    "heart": _HEART**2 * (1 + math.pi / 4),
}


def signed_distance(shape: str, x: Floats, y: Floats) -> Floats:
    """Distance to the outline of a unit shape, negative inside."""
    return _DISTANCE[shape](x, y)

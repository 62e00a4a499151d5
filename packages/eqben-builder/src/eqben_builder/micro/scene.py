"""The scene graph: items, the exact distances and areas of their shapes, and the relations that follow from them.

A shape lies inside the unit circle about its centre. A distance is exact at the boundary and has slope one across it,
which is all that anti-aliasing needs; far from a corner's outside it may be smaller than the true one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqben_builder.micro.attributes import FIELDS, SIZE_SCALE, SPATIAL
from eqben_builder.micro.minimal import Relation, between_all, check_relations, dominant, read_items

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


#: Two centres must be this far apart, along an axis that is this much longer than the other, to stand in a relation.
MIN_GAP = 0.08
DOMINANCE = 1.5
#: Share of the smaller item's area that must be shared for one to be "in front of" the other.
MIN_OCCLUSION = 0.10


@dataclass(frozen=True)
class Item:
    """One object of a scene.

    Args:
        shape: One of `SHAPES`.
        colour: One of `COLOURS`.
        size: One of `SIZES`.
        material: One of `MATERIALS`.
        x: Centre, to the right, in units of the image's side, in [0, 1].
        y: Centre, downwards, in [0, 1].
        scale: Circumscribed radius in units of the image's side, in (0, 1]; None takes `SIZE_SCALE[size]`.
        angle: Clockwise turn in radians.

    Raises:
        ValueError: The value that is out of range, and the field's choices.

    Example:
        >>> Item("star", "red", "small", "plain", 0.5, 0.25).radius
        0.12
    """

    shape: str
    colour: str
    size: str
    material: str
    x: float
    y: float
    scale: float | None = None
    angle: float = 0.0

    def __post_init__(self) -> None:
        for field, values in FIELDS.items():
            if getattr(self, field) not in values:
                raise ValueError(f"{field} {getattr(self, field)!r} is not one of {', '.join(values)}")
        for field in ("x", "y"):
            if not 0.0 <= getattr(self, field) <= 1.0:
                raise ValueError(f"{field} = {getattr(self, field)!r} lies outside [0, 1]")
        if self.scale is not None and not 0.0 < self.scale <= 1.0:
            raise ValueError(f"scale = {self.scale!r} lies outside (0, 1]")
        if not math.isfinite(self.angle):
            raise ValueError(f"angle = {self.angle!r} is not finite")

    @property
    def radius(self) -> float:
        """Circumscribed radius in units of the image's side."""
        return SIZE_SCALE[self.size] if self.scale is None else self.scale


@dataclass(frozen=True)
class Scene:
    """Items in painter's order (the last is nearest) on a background of one sRGB colour in [0, 1].

    Example:
        >>> scene = Scene((Item("star", "red", "small", "plain", 0.2, 0.5),), background=(0.1, 0.1, 0.2))
        >>> Scene.from_dict(scene.to_dict()) == scene
        True
    """

    items: tuple[Item, ...]
    background: tuple[float, float, float] = (0.15, 0.15, 0.15)

    def __post_init__(self) -> None:
        if len(self.background) != 3 or not all(0.0 <= value <= 1.0 for value in self.background):
            raise ValueError(f"background = {self.background!r} is not three numbers in [0, 1]")

    def relations(self) -> tuple[Relation, ...]:
        """All relations between ordered pairs of items, spatial ones first.

        A spatial relation holds along the axis on which the centres are at least `MIN_GAP` apart and `DOMINANCE` times
        farther than on the other; "in front of" holds where the nearer item hides at least `MIN_OCCLUSION` of the
        smaller item's area (whatever is painted over both).
        """
        relations = between_all(self.items, spatial_relation)
        for j, near in enumerate(self.items):
            for i in range(j):
                if shared_area(self.items[i], near) >= MIN_OCCLUSION:
                    relations.append(Relation(j, "in front of", i))
                    relations.append(Relation(i, "behind", j))
        return tuple(relations)

    def to_dict(self) -> dict[str, Any]:
        """The graph as JSON-ready values: background, items in painter's order, relations."""
        return {
            "background": list(self.background),
            "items": [asdict(item) for item in self.items],
            "relations": [relation._asdict() for relation in self.relations()],
        }

    @classmethod
    def from_dict(cls, graph: object) -> Scene:
        """Read what `to_dict` wrote; relations, where given, must be those that follow from the items."""
        graph, items = read_items(graph, "items", Item, ("scale", "angle"))
        tone = graph.get("background")
        if not isinstance(tone, list) or not all(isinstance(value, int | float) for value in tone):
            raise ValueError(f"scene graph: field 'background' should be three numbers, found {tone!r}")
        scene = cls(items, tuple(tone))
        check_relations(graph, scene)
        return scene


def spatial_relation(a: Item, b: Item) -> str | None:
    """Where `a` lies as seen from `b`, or None where no axis dominates."""
    return dominant(b.x - a.x, b.y - a.y, SPATIAL, MIN_GAP, DOMINANCE)


def shared_area(a: Item, b: Item, samples: int = 48) -> float:
    """Area common to two items over the area of the smaller, from `samples` x `samples` points; in [0, 1]."""
    low_x, high_x = max(a.x - a.radius, b.x - b.radius), min(a.x + a.radius, b.x + b.radius)
    low_y, high_y = max(a.y - a.radius, b.y - b.radius), min(a.y + a.radius, b.y + b.radius)
    if low_x >= high_x or low_y >= high_y or math.hypot(a.x - b.x, a.y - b.y) >= a.radius + b.radius:
        return 0.0
    steps = (np.arange(samples) + 0.5) / samples
    x = (low_x + (high_x - low_x) * steps).astype(np.float32)[None, :]
    y = (low_y + (high_y - low_y) * steps).astype(np.float32)[:, None]
    inside = np.ones((samples, samples), dtype=bool)
    for item in (a, b):
        u, v = item_frame(item, x, y)
        inside &= signed_distance(item.shape, u, v) < 0
    area = float(inside.mean()) * (high_x - low_x) * (high_y - low_y)
    return min(1.0, area / min(AREA[item.shape] * item.radius**2 for item in (a, b)))


def item_frame(item: Item, x: Any, y: Any) -> tuple[Any, Any]:
    """Coordinates of image points in an item's own frame, in units of its radius (broadcasts x against y)."""
    cos, sin = math.cos(item.angle) / item.radius, math.sin(item.angle) / item.radius
    dx, dy = x - np.float32(item.x), y - np.float32(item.y)
    return dx * np.float32(cos) + dy * np.float32(sin), dy * np.float32(cos) - dx * np.float32(sin)

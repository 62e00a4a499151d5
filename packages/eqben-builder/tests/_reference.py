"""Slow, obvious definitions that the package's code is compared with."""

from __future__ import annotations

import math
from itertools import permutations


def winoground(scores):
    """Text, image and group outcomes of each pair, and the number of pairs with a tie, in plain loops."""
    outcomes, ties = [], 0
    for (s00, s01), (s10, s11) in scores:
        text = s00 > s10 and s11 > s01
        image = s00 > s01 and s11 > s10
        outcomes.append((text, image, text and image))
        ties += any(own == other for own in (s00, s11) for other in (s01, s10))
    return outcomes, ties


def group_chance():
    """Share of the 24 orders of four distinct scores in which both own scores beat both others."""
    good = [order for order in permutations(range(4)) if min(order[0], order[1]) > max(order[2], order[3])]
    return len(good) / 24


def inside(shape, x, y):
    """Whether a point lies in a unit shape (y downwards), from the shape's outline as a polygon or as circles."""
    r = math.hypot(x, y)
    if shape == "circle":
        return r < 0.88
    if shape == "ring":
        return 0.52 < r < 0.92
    if shape == "heart":
        a = 0.96
        lobes = [(side * a * math.sqrt(0.125), -a * math.sqrt(0.125)) for side in (-1, 1)]
        in_lobe = any(math.hypot(x - cx, y - cy) < a / 2 for cx, cy in lobes)
        return in_lobe or abs(x) + abs(y) < a / math.sqrt(2)
    return in_polygon(OUTLINES[shape], x, y)


def in_polygon(corners, x, y):
    """Even-odd rule: a ray to the right crosses the outline an odd number of times."""
    crossed = False
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            crossed = not crossed
    return crossed


def _ray(radius, degrees):
    """A point at a clockwise angle from "up", with y downwards."""
    return (radius * math.sin(math.radians(degrees)), -radius * math.cos(math.radians(degrees)))


_Q = math.sqrt(0.5)
OUTLINES = {
    "square": [(-_Q, -_Q), (_Q, -_Q), (_Q, _Q), (-_Q, _Q)],
    "triangle": [_ray(1, 0), _ray(1, 120), _ray(1, 240)],
    "diamond": [(0, -1), (0.62, 0), (0, 1), (-0.62, 0)],
    "cross": [
        (-0.3, -0.92), (0.3, -0.92), (0.3, -0.3), (0.92, -0.3), (0.92, 0.3), (0.3, 0.3),
        (0.3, 0.92), (-0.3, 0.92), (-0.3, 0.3), (-0.92, 0.3), (-0.92, -0.3), (-0.3, -0.3),
    ],
    "star": [_ray(1 if k % 2 == 0 else 0.45, 36 * k) for k in range(10)],
}  # fmt: skip


def polygon_area(corners):
    """Shoelace formula."""
    return 0.5 * abs(
        sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True))
    )

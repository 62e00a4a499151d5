"""An anti-aliased rasteriser: one signed distance per item, on the item's bounding box only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.micro.attributes import RGB
from eqben_builder.micro.scene import Floats, Item, Scene, item_frame, signed_distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int8, UInt8

_INK = 0.38  # stripes and dots keep this share of the colour
_PERIOD = 0.58  # of stripes and dots, in radii
_DOT = 0.33  # radius of a dot, in periods
_RIM = 0.09  # without marks, in radii, so that a dark mark never breaks the outline


class Rendering(NamedTuple):
    """What `render` returns.

    images: uint8 [n, size, size, 3], sRGB.
    visible: int8 [n, size, size]; 0 is background, i + 1 where item i is the nearest that covers half of the pixel.
    coverage: where asked for, one float32 [items, size, size] per scene: the share of each pixel that each item covers,
        whether or not something nearer hides it.
    """

    images: UInt8[np.ndarray, "n h w 3"]
    visible: Int8[np.ndarray, "n h w"]
    coverage: tuple[Floats, ...] | None


def render(scenes: Sequence[Scene], size: int = 64, *, coverage: bool = False) -> Rendering:
    """Draw scenes.

    A pixel's coverage is clip(1/2 - d, 0, 1) for the signed distance d, in pixels, from its centre to the
    outline; items are painted over one another in their order.

    Args:
        scenes: At most 127 items each.
        size: Side of the square images in pixels, 8 to 4096.
        coverage: Also return every item's own mask.

    Returns:
        A `Rendering`.

    Raises:
        ValueError: The size, or the number of items, that is out of range.

    Numerics:
        float32; each scene is drawn alone, so the bytes do not depend on what is drawn beside it.

    Example:
        >>> from eqben_builder.micro import Item, Scene
        >>> drawn = render([Scene((Item("circle", "red", "large", "plain", 0.5, 0.5),))], size=32)
        >>> drawn.images.shape, int(drawn.visible[0, 16, 16])
        ((1, 32, 32, 3), 1)
    """
    if not 8 <= size <= 4096:
        raise ValueError(f"size = {size!r} pixels lies outside 8 to 4096")
    n = len(scenes)
    images = np.empty((n, size, size, 3), dtype=np.uint8)
    visible = np.zeros((n, size, size), dtype=np.int8)
    masks = []
    centres = ((np.arange(size, dtype=np.float64) + 0.5) / size).astype(np.float32)
    canvas = np.empty((3, size, size), dtype=np.float32)
    for k, scene in enumerate(scenes):
        if len(scene.items) > 127:
            raise ValueError(f"scene {k} has {len(scene.items)} items; visible masks number at most 127")
        canvas[:] = np.asarray(scene.background, dtype=np.float32)[:, None, None] * np.float32(255)
        amodal = np.zeros((len(scene.items), size, size), dtype=np.float32) if coverage else None
        for i, item in enumerate(scene.items):
            rows, columns = _box(item.y, item.radius, size), _box(item.x, item.radius, size)
            alpha, ink = _paint(item, centres[columns][None, :], centres[rows][:, None], size)
            box = canvas[:, rows, columns]
            box += alpha * (ink - box)
            visible[k, rows, columns][alpha >= 0.5] = i + 1
            if amodal is not None:
                amodal[i, rows, columns] = alpha
        images[k] = np.rint(canvas).transpose(1, 2, 0)
        if amodal is not None:
            masks.append(amodal)
    return Rendering(images, visible, tuple(masks) if coverage else None)


def _box(centre: float, radius: float, size: int) -> slice:
    low = math.floor((centre - radius) * size - 1)
    high = math.ceil((centre + radius) * size + 1)
    return slice(max(low, 0), min(high, size))


def _paint(item: Item, x: Floats, y: Floats, size: int) -> tuple[Floats, Floats]:
    """Coverage [h, w] and ink [3, h, w] or [3, 1, 1], in 0 to 255."""
    u, v = item_frame(item, x, y)
    pixels = np.float32(item.radius * size)
    distance = signed_distance(item.shape, u, v)
    alpha = np.clip(np.float32(0.5) - distance * pixels, np.float32(0), np.float32(1))
    colour = (np.asarray(RGB[item.colour], dtype=np.float32) * np.float32(255))[:, None, None]
    if item.material == "plain":
        return alpha, colour
    if item.material == "shiny":
        # Lit from the upper left: darker towards the lower right, one white highlight.
        light = np.clip(np.float32(0.72) - np.float32(0.34) * (u + v), np.float32(0.3), np.float32(1))
        spot = np.exp(np.float32(-9) * ((u + np.float32(0.3)) ** 2 + (v + np.float32(0.3)) ** 2))
        return alpha, colour * light + (np.float32(255) - colour * light) * spot
    # Distance, in pixels, to the nearest mark's outline, anti-aliased like the outline of the item.
    period = np.float32(_PERIOD)
    if item.material == "striped":
        mark = np.abs(_cell((u + v) * np.float32(math.sqrt(0.5)), period)) - np.float32(0.25) * period
    else:
        mark = np.sqrt(_cell(u, period) ** 2 + _cell(v, period) ** 2) - np.float32(_DOT) * period
    mark = np.maximum(mark, distance + np.float32(_RIM))
    inked = np.clip(np.float32(0.5) - mark * pixels, np.float32(0), np.float32(1))
    return alpha, colour * (np.float32(1) - np.float32(1 - _INK) * inked)


def _cell(position: Floats, period: np.float32) -> Floats:
    """Signed offset from the nearest multiple of `period`."""
    offset: Floats = position - period * np.rint(position / period)
    return offset

"""Random scenes: the same seed and index give the same scene, whoever draws it and in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqben_builder.micro.attributes import COLOURS, FIELDS, MATERIALS, SHAPES, SIZE_SCALE, SIZES
from eqben_builder.micro.minimal import generator_at
from eqben_builder.micro.scene import Item, Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACEMENTS_PER_ITEM = 40
_RESTARTS = 4
_SHRINK = 0.88
_TILT = 0.26  # radians: beyond pi/4 a square would pass for a diamond


def sample_scene(
    rng: np.random.Generator,
    count: int | tuple[int, int],
    *,
    shapes: Sequence[str] = SHAPES,
    colours: Sequence[str] = COLOURS,
    sizes: Sequence[str] = SIZES,
    materials: Sequence[str] = MATERIALS,
    max_overlap: float = 0.05,
) -> Scene:
    """Draw a scene with every attribute uniform and independent, and places that keep the items apart.

    Centres of two items are at least (1 - max_overlap)(r_i + r_j) apart, and every item lies wholly inside the image.
    Where a crowd does not fit, all radii shrink by the same factor until it does, so that small stays smaller than
    large.

    Args:
        rng: The only source of randomness.
        count: Number of items, or an inclusive range of it; 0 to 16.
        shapes: Choices of shape.
        colours: Choices of colour.
        sizes: Choices of size.
        materials: Choices of material.
        max_overlap: Share of the summed radii that may be given up, in [0, 1]; 0 keeps the circumscribed circles apart,
            0.5 lets items hide one another.

    Returns:
        A scene on a dark, nearly grey background.

    Raises:
        ValueError: An empty or unknown choice, a count or an overlap out of range.

    Example:
        >>> import numpy as np
        >>> scene = sample_scene(np.random.default_rng(0), (1, 3), shapes=["star"])
        >>> {item.shape for item in scene.items}
        {'star'}
    """
    low, high = (count, count) if isinstance(count, int) else count
    if not 0 <= low <= high <= 16:
        raise ValueError(f"count = {count!r} is not a number or an increasing range within 0 to 16")
    if not 0.0 <= max_overlap <= 1.0:
        raise ValueError(f"max_overlap = {max_overlap!r} lies outside [0, 1]")
    choices = {"size": sizes, "material": materials, "colour": colours, "shape": shapes}
    for field, chosen in choices.items():
        unknown = [value for value in chosen if value not in FIELDS[field]]
        if unknown or not chosen:
            raise ValueError(f"{field}s = {list(chosen)!r}: expected some of {', '.join(FIELDS[field])}")

    n = low + int(rng.random() * (high - low + 1))
    draws = rng.random((n + 1, 6)).tolist()
    level, tints = 0.06 + 0.22 * draws[n][0], draws[n][1:4]
    background = tuple(round(level + 0.05 * tint, 4) for tint in tints)
    picked = [
        {field: chosen[int(draws[i][k] * len(chosen))] for k, (field, chosen) in enumerate(choices.items())}
        for i in range(n)
    ]
    scales = [SIZE_SCALE[picked[i]["size"]] * (0.92 + 0.16 * draws[i][4]) for i in range(n)]
    scales, places = _place(rng, scales, max_overlap)
    items = tuple(
        Item(**picked[i], x=x, y=y, scale=round(scales[i], 4), angle=round(_TILT * (2 * draws[i][5] - 1), 4))
        for i, (x, y) in enumerate(places)
    )
    return Scene(items, background)


def _place(
    rng: np.random.Generator, scales: list[float], max_overlap: float
) -> tuple[list[float], list[tuple[float, float]]]:
    keep = 1.0 - max_overlap
    while True:
        for _ in range(_RESTARTS):
            places: list[tuple[float, float]] = []
            for radius in scales:
                for u, v in rng.random((_PLACEMENTS_PER_ITEM, 2)).tolist():
                    x = round(radius + u * (1 - 2 * radius), 4)
                    y = round(radius + v * (1 - 2 * radius), 4)
                    if all(
                        (x - px) ** 2 + (y - py) ** 2 >= (keep * (radius + scale)) ** 2
                        for (px, py), scale in zip(places, scales, strict=False)
                    ):
                        places.append((x, y))
                        break
                else:
                    break
            if len(places) == len(scales):
                return scales, places
        scales = [_SHRINK * radius for radius in scales]


def scene_at(seed: int, index: int, count: int | tuple[int, int], **choices: Any) -> Scene:
    """Scene `index` of the endless list that `seed` stands for; `choices` as in `sample_scene`.

    Example:
        >>> scene_at(3, 17, 2) == scene_at(3, 17, 2)
        True
    """
    return sample_scene(generator_at(seed, index), count, **choices)

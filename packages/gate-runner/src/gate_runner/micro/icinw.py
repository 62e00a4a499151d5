"""Six small data sets of different character, for ELEVATER's grid: each has names, and knowledge, of its own.

What an encoder must tell apart differs: sixteen makers' marks under names that say nothing, forty things, four
textures, numbers, whether all is of one colour, and which shapes are there. Their texts are in `icinw_texts`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import torch

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from gate_data.data import Data
from gate_data.request import DataRequest
from gate_runner.micro.icinw_texts import COUNTS, MAKERS, THINGS
from gate_runner.micro.making import Made, data_of

_SHOWN = SHAPES[:6]


def makers(request: DataRequest) -> Data:
    """Marks of sixteen makers: colour, material and shape together say whose it is; the names say nothing."""
    looks = list(MAKERS.values())

    def make(rng: np.random.Generator, index: int) -> Made:
        material, colour, shape = looks[index % len(looks)]
        radius = float(rng.uniform(0.16, 0.26))
        x, y = (float(value) for value in rng.uniform(radius, 1 - radius, 2))
        mark = Item(shape, colour, "large", material, x, y, radius, float(rng.uniform(-0.26, 0.26)))
        return Made(Scene((mark,), sample_scene(rng, 0).background), index % len(looks))

    return data_of("icinw-makers", request, (880, 16, 160), make, tuple(MAKERS), noise=0.08)


def things(request: DataRequest) -> Data:
    """Forty things by colour and shape, one large among small ones: many classes."""
    kinds = list(product(COLOURS[:8], SHAPES[:5]))

    def make(rng: np.random.Generator, index: int) -> Made:
        colour, shape = kinds[index % len(kinds)]
        small = sample_scene(rng, (0, 2), sizes=["small"], max_overlap=0.3)
        radius = float(rng.uniform(0.16, 0.22))
        x, y = (float(value) for value in rng.uniform(radius, 1 - radius, 2))
        large = Item(shape, colour, "large", str(rng.choice(MATERIALS)), x, y, radius, float(rng.uniform(-0.26, 0.26)))
        return Made(Scene((large, *small.items), small.background), index % len(kinds))

    return data_of("icinw-things", request, (2080, 40, 240), make, THINGS, noise=0.1)


def textures(request: DataRequest) -> Data:
    """What things are made of, whatever their colour and shape."""

    def make(rng: np.random.Generator, index: int) -> Made:
        material = MATERIALS[index % len(MATERIALS)]
        return Made(sample_scene(rng, (2, 3), materials=[material], sizes=["large"]), index % len(MATERIALS))

    return data_of("icinw-textures", request, (240, 8, 120), make, MATERIALS, noise=0.08)


def counting(request: DataRequest) -> Data:
    """How many objects there are, from one to six."""

    def make(rng: np.random.Generator, index: int) -> Made:
        number = index % len(COUNTS)
        return Made(sample_scene(rng, number + 1, sizes=["small"]), number)

    return data_of("icinw-counting", request, (330, 12, 120), make, COUNTS, noise=0.06)


def colours(request: DataRequest) -> Data:
    """Whether all objects have one colour, or one of them another: two classes, scored by their ranking."""

    def make(rng: np.random.Generator, index: int) -> Made:
        first, second = (str(name) for name in rng.choice(COLOURS, 2, replace=False))
        base = sample_scene(rng, 4, sizes=["small"], colours=[first])
        items = list(base.items)
        if index % 2:
            odd = items[0]
            items[0] = Item(odd.shape, second, odd.size, odd.material, odd.x, odd.y, odd.scale, odd.angle)
        return Made(Scene(tuple(items), base.background), index % 2)

    return data_of("icinw-colours", request, (120, 8, 120), make, ("same colors", "different colors"), noise=0.05)


def shapes(request: DataRequest) -> Data:
    """Which of six shapes are in the picture, from one to three of them: several labels."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kinds = {int(index % len(_SHOWN)), *rng.integers(0, len(_SHOWN), int(rng.integers(0, 3))).tolist()}
        sizes = "large" if len(kinds) < 3 else "small"
        parts = [sample_scene(rng, 1, shapes=[_SHOWN[kind]], sizes=[sizes]) for kind in sorted(kinds)]
        items = _apart([part.items[0] for part in parts], rng)
        return Made(Scene(items, parts[0].background), [int(kind in kinds) for kind in range(len(_SHOWN))])

    return data_of("icinw-shapes", request, (420, 24, 120), make, _SHOWN, noise=0.06, value=torch.float32)


def _apart(items: list[Item], rng: np.random.Generator) -> tuple[Item, ...]:
    """The same items in corners of their own, so that none hides another."""
    corners = rng.permutation([(0.28, 0.28), (0.72, 0.28), (0.28, 0.72), (0.72, 0.72)])[: len(items)]
    return tuple(
        replace(item, x=float(x), y=float(y), scale=min(item.scale or 0.2, 0.2))
        for item, (x, y) in zip(items, corners + rng.uniform(-0.06, 0.06, corners.shape), strict=True)
    )

"""Classifications that need seeing: things under clutter, textures, ingredients, marks, and what stands together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import torch.nn.functional as F

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from gate_data.data import Data, Split
from gate_data.request import DataRequest
from gate_runner.micro.making import Made, data_of

_COLOUR_SHAPES = [(colour, shape) for colour in COLOURS for shape in SHAPES]
_MATERIAL_SHAPES = [(material, shape) for material in MATERIALS for shape in SHAPES]


def imagenet1k(request: DataRequest) -> Data:
    """Colour and shape of the large object among small ones: 80 classes."""

    def make(rng: np.random.Generator, index: int) -> Made:
        colour, shape = _COLOUR_SHAPES[index % len(_COLOUR_SHAPES)]
        base = sample_scene(rng, (1, 3), sizes=["small"], max_overlap=0.3)
        radius = float(rng.uniform(0.15, 0.2))
        x, y = rng.uniform(radius, 1 - radius, 2)
        angle = float(rng.uniform(-0.26, 0.26))
        material = str(rng.choice(MATERIALS))
        large = Item(shape, colour, "large", material, float(x), float(y), radius, angle)
        return Made(Scene((large, *base.items), base.background), index % len(_COLOUR_SHAPES))

    names = tuple(f"{colour} {shape}" for colour, shape in _COLOUR_SHAPES)
    return data_of("imagenet1k", request, (2400, 400, 1000), make, names, noise=0.08)


def cifar100(request: DataRequest) -> Data:
    """Material and shape of one object of any colour, seen through 32 px: 32 classes."""

    def make(rng: np.random.Generator, index: int) -> Made:
        material, shape = _MATERIAL_SHAPES[index % len(_MATERIAL_SHAPES)]
        scene = sample_scene(rng, 1, shapes=[shape], materials=[material], sizes=["large"])
        return Made(scene, index % len(_MATERIAL_SHAPES))

    def small(split: Split[Any]) -> Split[Any]:
        pixels = split.images[:].float()
        return replace(split, images=F.interpolate(pixels, (32, 32), mode="area").round().byte())

    names = tuple(f"{material} {shape}" for material, shape in _MATERIAL_SHAPES)
    data = data_of("cifar100", request, (1600, 320, 960), make, names, noise=0.06)
    return replace(data, train=small(data.train), validation=small(data.validation), test=small(data.test))


_DISHES = tuple(combinations([colour for colour in COLOURS if colour != "white"], 2))
_WHALES = tuple(product(SHAPES[:5], COLOURS[:4], MATERIALS[1:3]))
_TOGETHER = tuple(combinations(SHAPES, 2))
_ARRANGED = ("line", "column", "ring", "corners", "diagonal")
_HUES = ((0.35, 0.2, 0.15), (0.15, 0.3, 0.15), (0.12, 0.2, 0.4), (0.4, 0.38, 0.3))


def food101(request: DataRequest) -> Data:
    """A plate with pieces of two ingredients: 36 dishes, told by which two colours lie on it."""

    def make(rng: np.random.Generator, index: int) -> Made:
        dish = index % len(_DISHES)
        plate = Item("circle", "white", "large", "plain", 0.5, 0.5, 0.42)
        pieces = []
        for number in range(int(rng.integers(6, 11))):
            angle, reach = rng.uniform(0, 2 * np.pi), 0.27 * np.sqrt(rng.random())
            x, y = 0.5 + reach * np.cos(angle), 0.5 + reach * np.sin(angle)
            shape, radius = str(rng.choice(SHAPES)), float(rng.uniform(0.05, 0.09))
            pieces.append(Item(shape, _DISHES[dish][number % 2], "small", "plain", float(x), float(y), radius))
        return Made(Scene((plate, *pieces)), dish)

    names = tuple(f"{first} and {second}" for first, second in _DISHES)
    return data_of("food101", request, (1080, 180, 540), make, names, noise=0.1)


def happy(request: DataRequest) -> Data:
    """A body of one of five shapes is the species; with its colour and marks it is one of 40 individuals."""
    names = [" ".join(reversed(kind)) for kind in _WHALES]

    def make(rng: np.random.Generator, index: int) -> Made:
        whale = index % len(_WHALES)
        shape, colour, marks = _WHALES[whale]
        x, y = (float(value) for value in rng.uniform(0.35, 0.65, 2))
        body = Item(shape, colour, "large", marks, x, y, float(rng.uniform(0.18, 0.26)), float(rng.uniform(-0.4, 0.4)))
        water = tuple(float(value) for value in rng.uniform((0.05, 0.15, 0.3), (0.15, 0.3, 0.5)))
        return Made(Scene((body,), (water[0], water[1], water[2])), (SHAPES.index(shape), whale))

    classes = (*(f"species/{shape}" for shape in SHAPES[:5]), *(f"individual/{name}" for name in names))
    return data_of("happy", request, (800, 160, 400), make, classes, noise=0.1)


def places365(request: DataRequest) -> Data:
    """Which two kinds of things stand together makes the place; their colours, the light and the arrangement do not."""

    def make(rng: np.random.Generator, index: int) -> Made:
        label = index % len(_TOGETHER)
        spots = _spots(rng, str(rng.choice(_ARRANGED)))
        items = [
            Item(_TOGETHER[label][number % 2], str(rng.choice(COLOURS)), "small", "plain", float(x), float(y), 0.13)
            for number, (x, y) in enumerate(spots)
        ]
        hue = np.array(_HUES[int(rng.integers(len(_HUES)))]) + rng.uniform(-0.04, 0.04, 3)
        return Made(Scene(tuple(items), (float(hue[0]), float(hue[1]), float(hue[2]))), label)

    names = tuple(f"{first} and {second}" for first, second in _TOGETHER)
    return data_of("places365", request, (960, 160, 480), make, names, noise=0.06)


def _spots(rng: np.random.Generator, arranged: str) -> np.ndarray:
    steps = np.linspace(0.17, 0.83, 4)
    turn = np.linspace(0, 2 * np.pi, 5)[:4] + rng.uniform(0, 1)
    level = rng.uniform(0.3, 0.7)
    spots = {
        "line": np.stack([steps, np.full(4, level)], axis=1),
        "column": np.stack([np.full(4, level), steps], axis=1),
        "ring": 0.5 + 0.3 * np.stack([np.cos(turn), np.sin(turn)], axis=1),
        "corners": np.array([(0.17, 0.17), (0.83, 0.17), (0.17, 0.83), (0.83, 0.83)]),
        "diagonal": np.stack([steps, steps], axis=1),
    }[arranged]
    return np.clip(spots + rng.uniform(-0.03, 0.03, (4, 2)), 0.14, 0.86)

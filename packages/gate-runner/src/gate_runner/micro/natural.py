"""Dishes, whales and places: classifications that need counting of ingredients, marks, and arrangement."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene
from gate_data.data import Data
from gate_data.request import DataRequest
from gate_runner.micro.making import Made, data_of

_DISHES = tuple(combinations([colour for colour in COLOURS if colour != "white"], 2))
_WHALES = tuple(product(SHAPES[:5], COLOURS[:4], MATERIALS[1:3]))
_ARRANGED = ("line", "column", "ring", "corners", "pile", "two heaps", "diagonal", "scattered")
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
    """What things are does not matter: how six of them are arranged, and the light, make 32 places."""

    def make(rng: np.random.Generator, index: int) -> Made:
        label = index % (len(_ARRANGED) * len(_HUES))
        spots = _spots(rng, _ARRANGED[label // len(_HUES)])
        items = [
            Item(str(rng.choice(SHAPES)), str(rng.choice(COLOURS)), "small", "plain", float(x), float(y), 0.075)
            for x, y in spots
        ]
        hue = np.array(_HUES[label % len(_HUES)]) + rng.uniform(-0.04, 0.04, 3)
        return Made(Scene(tuple(items), (float(hue[0]), float(hue[1]), float(hue[2]))), label)

    names = tuple(f"{name}, light {hue}" for name in _ARRANGED for hue in range(len(_HUES)))
    return data_of("places365", request, (960, 160, 480), make, names, noise=0.06)


def _spots(rng: np.random.Generator, arranged: str) -> np.ndarray:
    steps = np.linspace(0.15, 0.85, 6)
    turn = np.linspace(0, 2 * np.pi, 7)[:6] + rng.uniform(0, 1)
    level = rng.uniform(0.3, 0.7)
    spots = {
        "line": np.stack([steps, np.full(6, level)], axis=1),
        "column": np.stack([np.full(6, level), steps], axis=1),
        "ring": 0.5 + 0.32 * np.stack([np.cos(turn), np.sin(turn)], axis=1),
        "corners": np.array([(0.14, 0.14), (0.86, 0.14), (0.14, 0.86), (0.86, 0.86), (0.14, 0.3), (0.86, 0.7)]),
        "pile": rng.uniform(0.35, 0.65, 2) + rng.uniform(-0.12, 0.12, (6, 2)),
        "two heaps": np.repeat([(0.25, level), (0.75, level)], 3, axis=0) + rng.uniform(-0.1, 0.1, (6, 2)),
        "diagonal": np.stack([steps, steps], axis=1),
        "scattered": rng.uniform(0.1, 0.9, (6, 2)),
    }[arranged]
    return np.clip(spots + rng.uniform(-0.03, 0.03, (6, 2)), 0.08, 0.92)

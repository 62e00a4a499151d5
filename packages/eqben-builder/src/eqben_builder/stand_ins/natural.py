"""Classifications that need seeing: things under clutter, textures, ingredients, marks, and what stands together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.drawing import in_turn, tint


def coloured_shapes(limit: int | None = None) -> DrawnSet:
    """Colour and shape of the large object among small ones: 80 classes."""

    def look(rng: np.random.Generator, kind: tuple[str, str]) -> Scene:
        colour, shape = kind
        base = sample_scene(rng, (1, 3), sizes=["small"], max_overlap=0.3)
        radius = float(rng.uniform(0.15, 0.2))
        x, y = rng.uniform(radius, 1 - radius, 2).tolist()
        angle = float(rng.uniform(-0.26, 0.26))
        large = Item(shape, colour, "large", str(rng.choice(MATERIALS)), x, y, radius, angle)
        return Scene((large, *base.items), base.background)

    kinds = list(product(COLOURS, SHAPES))
    return in_turn("coloured_shapes", limit, (2400, 400, 1000), kinds, look, list(map(" ".join, kinds)), noise=0.08)


def patterned_shapes(limit: int | None = None) -> DrawnSet:
    """Material and shape of one object of any colour, seen through 32 px: 32 classes."""

    def look(rng: np.random.Generator, kind: tuple[str, str]) -> Scene:
        material, shape = kind
        return sample_scene(rng, 1, shapes=[shape], materials=[material], sizes=["large"])

    def small(split: DrawnSplit) -> DrawnSplit:
        squares = split.images.reshape(-1, 32, 2, 32, 2, 3).astype(np.float32)
        return replace(split, images=np.rint(squares.mean(axis=(2, 4))).astype(np.uint8))

    kinds = list(product(MATERIALS, SHAPES))
    data = in_turn("patterned_shapes", limit, (1600, 320, 960), kinds, look, list(map(" ".join, kinds)), noise=0.06)
    return replace(data, train=small(data.train), validation=small(data.validation), test=small(data.test))


_ARRANGED = ("line", "column", "ring", "corners", "diagonal")
_HUES = ((0.35, 0.2, 0.15), (0.15, 0.3, 0.15), (0.12, 0.2, 0.4), (0.4, 0.38, 0.3))


def plates(limit: int | None = None) -> DrawnSet:
    """A plate with pieces of two ingredients: 36 dishes, told by which two colours lie on it."""

    def look(rng: np.random.Generator, dish: tuple[str, str]) -> Scene:
        plate = Item("circle", "white", "large", "plain", 0.5, 0.5, 0.42)
        pieces = []
        for number in range(int(rng.integers(6, 11))):
            angle, reach = rng.uniform(0, 2 * np.pi), 0.27 * np.sqrt(rng.random())
            x, y = float(0.5 + reach * np.cos(angle)), float(0.5 + reach * np.sin(angle))
            shape, radius = str(rng.choice(SHAPES)), float(rng.uniform(0.05, 0.09))
            pieces.append(Item(shape, dish[number % 2], "small", "plain", x, y, radius))
        return Scene((plate, *pieces))

    dishes = list(combinations([colour for colour in COLOURS if colour != "white"], 2))
    return in_turn("plates", limit, (1080, 180, 540), dishes, look, list(map(" and ".join, dishes)), noise=0.1)


def individuals(limit: int | None = None) -> DrawnSet:
    """A body of one of five shapes is the species; with its colour and marks it is one of 40 individuals."""

    def look(rng: np.random.Generator, whale: tuple[str, str, str]) -> Scene:
        shape, colour, marks = whale
        x, y = rng.uniform(0.35, 0.65, 2).tolist()
        body = Item(shape, colour, "large", marks, x, y, float(rng.uniform(0.18, 0.26)), float(rng.uniform(-0.4, 0.4)))
        return Scene((body,), tint(rng, (0.05, 0.15, 0.3), (0.15, 0.3, 0.5)))

    def targets(whales_shown: list[int]) -> NDArray[np.int64]:
        return np.array([(SHAPES.index(whales[number][0]), number) for number in whales_shown], dtype=np.int64)

    whales = list(product(SHAPES[:5], COLOURS[:4], MATERIALS[1:3]))
    individuals = (f"individual/{marks} {colour} {shape}" for shape, colour, marks in whales)
    classes = (*(f"species/{shape}" for shape in SHAPES[:5]), *individuals)
    return in_turn("individuals", limit, (800, 160, 400), whales, look, classes, noise=0.1, targets=targets)


def places(limit: int | None = None) -> DrawnSet:
    """Which two kinds of things stand together makes the place; their colours, the light and the arrangement do not."""

    def look(rng: np.random.Generator, together: tuple[str, str]) -> Scene:
        spots = _spots(rng, str(rng.choice(_ARRANGED)))
        items = [
            Item(together[number % 2], str(rng.choice(COLOURS)), "small", "plain", x, y, 0.13)
            for number, (x, y) in enumerate(spots.tolist())
        ]
        hue = np.array(_HUES[int(rng.integers(len(_HUES)))]) + rng.uniform(-0.04, 0.04, 3)
        return Scene(tuple(items), (float(hue[0]), float(hue[1]), float(hue[2])))

    places = list(combinations(SHAPES, 2))
    return in_turn("places", limit, (960, 160, 480), places, look, list(map(" and ".join, places)), noise=0.06)


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

"""Four small detection sets of different character, whose boxes are exact: the tightest around an item's own pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqben_builder.micro import Item, Scene, sample_scene
from eqben_builder.stand_ins.data import Boxes, DrawnSet
from eqben_builder.stand_ins.drawing import Painted, coordinates, painted

_SHAPES = ("circle", "square", "triangle", "star", "heart")
_COLOURS = ("red", "green", "blue", "yellow")
_LOTS = ("square", "circle")
_COUNTS = (360, 80, 160)


def boxed_shapes(limit: int | None = None) -> DrawnSet:
    """Five shapes of any colour, one to four in an image."""

    def picture(rng: np.random.Generator) -> Painted:
        scene = sample_scene(rng, (1, 4), shapes=_SHAPES, max_overlap=0.0)
        return Painted(scene, None, [_SHAPES.index(item.shape) for item in scene.items])

    return _made("boxed_shapes", limit, picture, _SHAPES)


def boxed_colours(limit: int | None = None) -> DrawnSet:
    """Four colours of any shape, some half hidden; nobody asks for other colours, and some images are empty."""

    def picture(rng: np.random.Generator) -> Painted:
        scene = sample_scene(rng, (0, 5), max_overlap=0.3)
        return Painted(scene, None, [_COLOURS.index(i.colour) if i.colour in _COLOURS else -1 for i in scene.items])

    return _made("boxed_colours", limit, picture, _COLOURS)


def boxed_lot(limit: int | None = None) -> DrawnSet:
    """A lot seen from above: many small squares and circles in rows, some places free."""

    def picture(rng: np.random.Generator) -> Painted:
        rows, columns = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        items, labels = [], []
        for row in range(rows):
            for column in range(columns):
                if rng.random() < 0.3:
                    continue
                x, y = ((position + 0.5) / count + rng.uniform(-0.04, 0.04)
                        for position, count in ((column, columns), (row, rows)))  # fmt: skip
                label = int(rng.integers(2))
                colour = str(rng.choice(("white", "cyan", "orange", "purple")))
                radius = float(rng.uniform(0.1, 0.14))
                items.append(Item(_LOTS[label], colour, "small", "plain", float(x), float(y), radius, 0.0))
                labels.append(label)
        grey = float(rng.uniform(0.1, 0.3))
        return Painted(Scene(tuple(items), (grey, grey, grey)), None, labels)

    return _made("boxed_lot", limit, picture, _LOTS)


def boxed_stars(limit: int | None = None) -> DrawnSet:
    """One class: stars and rings among other shapes, on grass, water or sand."""
    rows, columns = coordinates()
    counted = ("star", "ring")

    def picture(rng: np.random.Generator) -> Painted:
        scene = sample_scene(rng, (1, 4), max_overlap=0.0)
        ground = int(rng.integers(3))
        pitch, tint = (14, 24, 5)[ground], ((0.6, 1.2, 0.5), (0.5, 0.8, 1.4), (1.2, 1.1, 0.6))[ground]
        waves = 0.28 + 0.08 * np.sin(2 * np.pi * pitch * (rows + rng.uniform(-0.4, 0.4) * columns))
        labels = [counted.index(item.shape) if item.shape in counted else -1 for item in scene.items]
        return Painted(scene, np.clip(waves[..., None] * np.array(tint), 0, 1), labels)

    return _made("boxed_stars", limit, picture, counted)


def _made(
    name: str, limit: int | None, picture: Callable[[np.random.Generator], Painted], classes: Sequence[str]
) -> DrawnSet:
    return painted(name, limit, _COUNTS, picture, _boxes, tuple, classes)


def _boxes(visible: np.ndarray, labels: Sequence[int]) -> Boxes:
    """The box around the visible pixels of each item whose label is not -1; ``area`` counts these pixels."""
    boxes, classes, areas = [], [], []
    for index, label in enumerate(labels):
        mine = visible == index + 1
        if label < 0 or not mine.any():
            continue
        down, across = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
        boxes.append((across[0], down[0], across[-1] + 1 - across[0], down[-1] + 1 - down[0]))
        classes.append(label)
        areas.append(float(mine.sum()))
    return Boxes(
        np.array(boxes, dtype=np.float64).reshape(-1, 4), np.array(classes, dtype=np.int64), np.array(areas, np.float64)
    )

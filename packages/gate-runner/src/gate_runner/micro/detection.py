"""Four small detection sets of different character, whose boxes are exact: the tightest around an item's own pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqben_builder.micro import Item, Scene, sample_scene
from gate_data.boxes.objects import Objects
from gate_data.data import Data
from gate_data.request import DataRequest
from gate_runner.micro.making import SIDE, Painted, coordinates, painted

_SHAPES = ("circle", "square", "triangle", "star", "heart")
_COLOURS = ("red", "green", "blue", "yellow")
_LOTS = ("square", "circle")
_COUNTS = (360, 80, 160)


def shapes(request: DataRequest) -> Data[Objects]:
    """Five shapes of any colour, one to four in a picture."""

    def picture(rng: np.random.Generator) -> Painted:
        scene = sample_scene(rng, (1, 4), shapes=_SHAPES, max_overlap=0.0)
        return Painted(scene, None, [_SHAPES.index(item.shape) for item in scene.items])

    return _made("odinw-shapes", request, picture, _SHAPES)


def colours(request: DataRequest) -> Data[Objects]:
    """Four colours of any shape, some half hidden; nobody asks for other colours, and some pictures are empty."""

    def picture(rng: np.random.Generator) -> Painted:
        scene = sample_scene(rng, (0, 5), max_overlap=0.3)
        return Painted(scene, None, [_COLOURS.index(i.colour) if i.colour in _COLOURS else -1 for i in scene.items])

    return _made("odinw-colours", request, picture, _COLOURS)


def lot(request: DataRequest) -> Data[Objects]:
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

    return _made("odinw-lot", request, picture, _LOTS)


def stars(request: DataRequest) -> Data[Objects]:
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

    return _made("odinw-stars", request, picture, counted)


def _made(
    name: str, request: DataRequest, picture: Callable[[np.random.Generator], Painted], classes: Sequence[str]
) -> Data[Objects]:
    def targets(objects: list[Any]) -> Objects:
        return Objects.of(objects, [(SIDE, SIDE)] * len(objects))

    return painted(name, request, _COUNTS, picture, _boxes, targets, classes)


def _boxes(visible: np.ndarray, labels: Sequence[int]) -> dict[str, list[object]]:
    """The box around the visible pixels of each item whose label is not -1; ``area`` counts these pixels."""
    columns: dict[str, list[object]] = {"box": [], "label": [], "area": []}
    for index, label in enumerate(labels):
        mine = visible == index + 1
        if label < 0 or not mine.any():
            continue
        down, across = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
        columns["box"].append((across[0], down[0], across[-1] + 1 - across[0], down[-1] + 1 - down[0]))
        columns["label"].append(label)
        columns["area"].append(float(mine.sum()))
    return columns

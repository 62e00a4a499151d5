"""Four small detection sets of different character, whose boxes are exact: the tightest around an item's own pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from eqben_builder.micro import Item, Scene, generator_at, render, sample_scene
from gate_data.boxes.objects import Objects
from gate_data.data import Data, Split
from gate_data.request import DataRequest
from gate_runner.micro.making import NOTE, SIDE, SPLITS, coordinates, split_seed, with_noise

_SHAPES = ("circle", "square", "triangle", "star", "heart")
_COLOURS = ("red", "green", "blue", "yellow")
_LOTS = ("square", "circle")
_COUNTS = (360, 80, 160)


class _Pictured(NamedTuple):
    """A scene, the class of each item (-1 for one that nobody asks for), and pixels to be laid behind, if any."""

    scene: Scene
    labels: Sequence[int]
    behind: np.ndarray | None = None


def shapes(request: DataRequest) -> Data[Objects]:
    """Five shapes of any colour, one to four in a picture."""

    def picture(rng: np.random.Generator) -> _Pictured:
        scene = sample_scene(rng, (1, 4), shapes=_SHAPES, max_overlap=0.0)
        return _Pictured(scene, [_SHAPES.index(item.shape) for item in scene.items])

    return _made("odinw-shapes", request, picture, _SHAPES)


def colours(request: DataRequest) -> Data[Objects]:
    """Four colours of any shape, some half hidden; nobody asks for other colours, and some pictures are empty."""

    def picture(rng: np.random.Generator) -> _Pictured:
        scene = sample_scene(rng, (0, 5), max_overlap=0.3)
        return _Pictured(scene, [_COLOURS.index(i.colour) if i.colour in _COLOURS else -1 for i in scene.items])

    return _made("odinw-colours", request, picture, _COLOURS)


def lot(request: DataRequest) -> Data[Objects]:
    """A lot seen from above: many small squares and circles in rows, some places free."""

    def picture(rng: np.random.Generator) -> _Pictured:
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
        return _Pictured(Scene(tuple(items), (grey, grey, grey)), labels)

    return _made("odinw-lot", request, picture, _LOTS)


def stars(request: DataRequest) -> Data[Objects]:
    """One class: stars and rings among other shapes, on grass, water or sand."""
    rows, columns = coordinates()
    counted = ("star", "ring")

    def picture(rng: np.random.Generator) -> _Pictured:
        scene = sample_scene(rng, (1, 4), max_overlap=0.0)
        ground = int(rng.integers(3))
        pitch, tint = (14, 24, 5)[ground], ((0.6, 1.2, 0.5), (0.5, 0.8, 1.4), (1.2, 1.1, 0.6))[ground]
        waves = 0.28 + 0.08 * np.sin(2 * np.pi * pitch * (rows + rng.uniform(-0.4, 0.4) * columns))
        labels = [counted.index(item.shape) if item.shape in counted else -1 for item in scene.items]
        return _Pictured(scene, labels, np.clip(waves[..., None] * np.array(tint), 0, 1))

    return _made("odinw-stars", request, picture, counted)


def _made(
    name: str, request: DataRequest, picture: Callable[[np.random.Generator], _Pictured], classes: Sequence[str]
) -> Data[Objects]:
    splits = []
    for part, count in zip(SPLITS, _COUNTS, strict=True):
        seed = split_seed(name, part)
        images, objects = [], []
        for index in range(request.cap(count)):
            rng = generator_at(seed, index)
            shown = picture(rng)
            drawn = render([shown.scene], SIDE)
            visible = drawn.visible[0]
            pixels = drawn.images[0]
            if shown.behind is not None:
                pixels = np.where(visible[..., None] == 0, np.rint(shown.behind * 255), pixels).astype(np.uint8)
            images.append(with_noise(pixels, 0.06, rng))
            objects.append(_boxes(visible, shown.labels))
        stacked = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
        splits.append(Split(stacked, Objects.of(objects, [(SIDE, SIDE)] * len(objects))))
    return Data(splits[0], splits[1], splits[2], tuple(classes), NOTE)


def _boxes(visible: np.ndarray, labels: Sequence[int]) -> dict[str, list[object]]:
    """The box around the visible pixels of each item that is asked for; ``area`` counts these pixels."""
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

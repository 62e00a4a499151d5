"""Two few-shot stand-ins: new combinations of attributes, and fine-grained "birds" that differ in their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, generator_at, sample_scene
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import draw
from gate_runner.micro.seeds import NOTE, split_seed

_PER_CLASS = 20
_FEWEST = 6
"""Images of a class that an episode takes: under a limit there are fewer classes, not fewer of these."""
_CLASSES = {"train": 60, "validation": 20, "test": 40}
_SPECIES_SEED = 900
"""Fixes which classes exist and how they are dealt to the splits."""


def _dealt(kinds: list[tuple[str, ...]], offset: int) -> dict[str, list[tuple[str, ...]]]:
    """Deal classes to the splits; no class is in two of them."""
    order = generator_at(_SPECIES_SEED, offset).permutation(len(kinds))
    dealt, start = {}, 0
    for name, count in _CLASSES.items():
        dealt[name] = [kinds[i] for i in order[start : start + count]]
        start += count
    return dealt


def mini(request: DataRequest) -> Data:
    """Classes are combinations of colour, material and shape; those of the test never occur in training."""
    kinds = _dealt(list(product(COLOURS, MATERIALS, SHAPES)), 0)

    def split(name: SplitName) -> Split:
        seed = split_seed("mini", name)

        def scene(rng: np.random.Generator, index: int) -> Scene:
            colour, material, shape = kinds[name][index // _PER_CLASS]
            clutter = sample_scene(rng, (0, 2), sizes=["small"], max_overlap=0.3)
            radius = float(rng.uniform(0.14, 0.19))
            x, y = rng.uniform(radius, 1 - radius, 2)
            target = Item(shape, colour, "large", material, float(x), float(y), radius, float(rng.uniform(-0.26, 0.26)))
            return Scene((target, *clutter.items), clutter.background)

        return _of_classes(seed, _numbers(len(kinds[name]), request), scene, noise=0.08)

    names = tuple(" ".join(kind) for name in _CLASSES for kind in kinds[name])
    return Data(split("train"), split("validation"), split("test"), names, NOTE)


def cubirds(request: DataRequest) -> Data:
    """Every image is a bird of one plan; species differ in the colours of body and head and in body and wing marks."""
    species = _dealt(
        [kind for kind in product(COLOURS, COLOURS, MATERIALS, COLOURS) if len({kind[0], kind[1]}) == 2], 1
    )

    def split(name: SplitName) -> Split:
        seed = split_seed("cubirds", name)

        def scene(rng: np.random.Generator, index: int) -> Scene:
            return _bird(rng, species[name][index // _PER_CLASS])

        return _of_classes(seed, _numbers(len(species[name]), request), scene, noise=0.05)

    names = tuple(
        f"{body} body, {head} head, {material} marks, {wing} wing"
        for name in _CLASSES
        for body, head, material, wing in species[name]
    )
    return Data(split("train"), split("validation"), split("test"), names, NOTE)


def _numbers(classes: int, request: DataRequest) -> list[int]:
    """Which images of a split there are: all, or under a limit the first of each class, of as many as have room."""
    count = request.cap(_PER_CLASS * classes)
    per_class = max(_FEWEST, math.ceil(count / classes))
    return [kind * _PER_CLASS + index for kind in range(classes) for index in range(min(per_class, _PER_CLASS))][:count]


def _of_classes(
    seed: int, numbers: list[int], scene: Callable[[np.random.Generator, int], Scene], noise: float
) -> Split:
    scenes = [scene(generator_at(seed, number), number) for number in numbers]
    return Split(
        draw(scenes, seed, noise=noise, numbers=numbers).images, as_targets([n // _PER_CLASS for n in numbers])
    )


def _bird(rng: np.random.Generator, kind: tuple[str, ...]) -> Scene:
    """A body, a head in front of it, a wing on it and a tail behind it, seen from either side."""
    body, head, material, wing = kind
    radius = float(rng.uniform(0.15, 0.2))
    facing = 1.0 if rng.random() < 0.5 else -1.0
    x, y = rng.uniform(0.42, 0.58, 2)
    tilt = float(rng.uniform(-0.2, 0.2))
    background = tuple(float(value) for value in rng.uniform(0.1, 0.35, 3))

    def part(shape: str, colour: str, marks: str, dx: float, dy: float, size: float, angle: float = 0.0) -> Item:
        return Item(
            shape, colour, "large", marks, float(x + facing * dx * radius), float(y + dy * radius), size * radius,
            tilt + angle,
        )  # fmt: skip

    return Scene(
        (
            part("triangle", body, "plain", -1.15, 0.25, 0.6, facing * -1.3),
            part("circle", body, material, 0.0, 0.0, 1.0),
            part("heart", wing, "plain", -0.25, 0.15, 0.5, facing * 0.6),
            part("circle", head, "plain", 0.95, -0.75, 0.55),
            part("diamond", "orange", "plain", 1.55, -0.7, 0.2),
        ),
        (background[0], background[1], background[2]),
    )

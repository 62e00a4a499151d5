"""Seven few-shot stand-ins of their own character."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import TypeVar

import numpy as np
from PIL import Image, ImageDraw

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, generator_at, sample_scene
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.making import NOTE, SIDE, Made, as_pixels, coordinates, data_of, draw, split_seed

_PLANNED_PER_CLASS = 12
_PLANNED: dict[SplitName, int] = {"train": 40, "validation": 15, "test": 25}
_KINDS_SEED = 902
"""Fixes which classes exist and how they are dealt to the splits."""

Kind = tuple[object, ...]
K = TypeVar("K")
Draw = Callable[[np.random.Generator, Kind], Made]


def _few_shot(name: str, request: DataRequest, kinds: list[Kind], offset: int, draw: Draw, noise: float) -> Data:
    dealt = _dealt(kinds, _KINDS_SEED, offset, _PLANNED)

    def make(part: SplitName) -> Callable[[np.random.Generator, int], Made]:
        return lambda rng, index: draw(rng, dealt[part][index // _PLANNED_PER_CLASS])._replace(
            target=index // _PLANNED_PER_CLASS
        )

    counts = (40 * _PLANNED_PER_CLASS, 15 * _PLANNED_PER_CLASS, 25 * _PLANNED_PER_CLASS)
    names = [" ".join(map(str, kind)) for part in _PLANNED for kind in dealt[part]]
    return data_of(name, request, counts, make, names, noise=noise, by_split=True)


def aircraft(request: DataRequest) -> Data:
    """Aeroplanes of one plan, which differ in fuselage, wing, tail and number of engines."""

    def draw(rng: np.random.Generator, kind: Kind) -> Made:
        body, wing, tail, engines = str(kind[0]), str(kind[1]), str(kind[2]), int(str(kind[3]))
        x, y = rng.uniform(0.44, 0.56, 2)
        facing = 1.0 if rng.random() < 0.5 else -1.0
        sky = tuple(float(value) for value in rng.uniform((0.3, 0.4, 0.5), (0.5, 0.6, 0.7)))

        def part(shape: str, colour: str, dx: float, dy: float, radius: float, angle: float = 0.0) -> Item:
            return Item(shape, colour, "large", "plain", float(x + facing * dx), float(y + dy), radius, angle)

        fuselage = [part("circle", body, dx, 0, 0.09) for dx in (-0.21, -0.14, -0.07, 0, 0.07, 0.14, 0.21)]
        motors = [part("circle", "brown", 0.02 + 0.1 * number, 0.17, 0.045) for number in range(engines)]
        parts = (part("triangle", tail, -0.27, -0.1, 0.1), *fuselage, part("diamond", wing, 0, 0.08, 0.13), *motors)
        return Made(Scene(tuple(parts), (sky[0], sky[1], sky[2])), 0)

    kinds: list[Kind] = [kind for kind in product(COLOURS[:6], COLOURS, COLOURS[:5], (1, 2, 3)) if kind[0] != kind[1]]
    return _few_shot("aircraft", request, kinds, 0, draw, 0.06)


def dtextures(request: DataRequest) -> Data:
    """Stripes, checks, dots, waves and grain of different pitch and direction: no objects at all."""
    rows, columns = coordinates()

    def draw(rng: np.random.Generator, kind: Kind) -> Made:
        pattern, pitch, turn = str(kind[0]), float(str(kind[1])), float(str(kind[2]))
        turn += rng.uniform(-0.1, 0.1)
        across = columns * np.cos(turn) + rows * np.sin(turn) + rng.random()
        along = rows * np.cos(turn) - columns * np.sin(turn) + rng.random()
        first, second = (np.sin(2 * np.pi * pitch * axis) for axis in (across, along))
        grain = rng.standard_normal((SIDE, SIDE))
        values = {
            "striped": first,
            "chequered": np.sign(first * second),
            "dotted": np.where(first + second > 0.9, 1.0, -1.0),
            "wavy": np.sin(2 * np.pi * pitch * (across + 0.08 * np.sin(6 * np.pi * along))),
            "grained": np.clip(grain * (0.5 + 0.5 * first), -1, 1),
        }[pattern]
        low, high = rng.uniform(0.1, 0.35), rng.uniform(0.6, 0.9)
        return Made(as_pixels(low + (high - low) * (values + 1) / 2), 0)

    patterns = ("striped", "chequered", "dotted", "wavy", "grained")
    kinds: list[Kind] = list(product(patterns, (3.0, 5.0, 8.0, 12.0), (0.0, 0.4, 0.8, 1.2)))
    return _few_shot("dtextures", request, kinds, 1, draw, 0.05)


def fungi(request: DataRequest) -> Data:
    """Mushrooms that differ in the colours of cap and stem, the cap's marks and whether there is a ring."""

    def draw(rng: np.random.Generator, kind: Kind) -> Made:
        cap, stem, marks, ring = (str(value) for value in kind)
        x, y = rng.uniform(0.42, 0.58), rng.uniform(0.38, 0.46)
        lean = float(rng.uniform(-0.05, 0.05))
        stalk = [
            Item("square", stem, "small", "plain", float(x + lean * step), float(y + 0.09 + 0.09 * step), 0.06)
            for step in range(4)
        ]
        collar = [Item("ring", "white", "small", "plain", float(x + lean), float(y + 0.17), 0.09)] * (ring == "ring")
        hat = Item("circle", cap, "large", marks, float(x), float(y), float(rng.uniform(0.19, 0.24)))
        ground = tuple(float(value) for value in rng.uniform(0.08, 0.25, 3))
        return Made(Scene((*stalk, *collar, hat), (ground[0], ground[1], ground[2])), 0)

    kinds: list[Kind] = list(product(COLOURS, COLOURS[:5], MATERIALS, ("ring", "bare")))
    return _few_shot("fungi", request, kinds, 2, draw, 0.08)


def omniglot(request: DataRequest) -> Data:
    """Characters of two to four white strokes on black; every drawing of one trembles in its own way."""

    def draw(rng: np.random.Generator, kind: Kind) -> Made:
        plan = generator_at(_KINDS_SEED, 10_000 + int(str(kind[0])))
        image = Image.new("L", (2 * SIDE, 2 * SIDE))
        pen = ImageDraw.Draw(image)
        shift = rng.uniform(-8, 8, 2)
        for _ in range(int(plan.integers(2, 5))):
            points = plan.uniform(0.15, 0.85, (int(plan.integers(2, 5)), 2)) * 2 * SIDE
            trembled = points + shift + rng.normal(0, 4, points.shape)
            pen.line([(float(x), float(y)) for x, y in trembled], fill=255, width=6, joint="curve")
        small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
        return Made(as_pixels(np.asarray(small) / 255), 0)

    return _few_shot("omniglot", request, [(number,) for number in range(80)], 3, draw, 0.03)


def vgg(request: DataRequest) -> Data:
    """Flowers that differ in the number, shape and marks of their petals; their colours say nothing."""

    def draw(rng: np.random.Generator, kind: Kind) -> Made:
        petals, shape, marks = int(str(kind[0])), str(kind[1]), str(kind[2])
        x, y = rng.uniform(0.45, 0.55, 2)
        reach, turn = rng.uniform(0.24, 0.28), rng.uniform(0, 2 * np.pi)
        colour, middle = (str(name) for name in rng.choice(COLOURS, 2, replace=False))
        leaves = [
            Item(shape, colour, "small", marks, float(x + reach * np.cos(a)), float(y + reach * np.sin(a)), 0.13)
            for a in turn + 2 * np.pi * np.arange(petals) / petals
        ]
        green = tuple(float(value) for value in rng.uniform((0.05, 0.2, 0.05), (0.15, 0.35, 0.15)))
        heart = Item("circle", middle, "small", "plain", float(x), float(y), 0.09)
        return Made(Scene((*leaves, heart), (green[0], green[1], green[2])), 0)

    kinds: list[Kind] = list(product((3, 4, 6), SHAPES, MATERIALS))
    return _few_shot("vgg", request, kinds, 4, draw, 0.06)


_PER_CLASS = 20
_FEWEST = 6
"""Images of a class that an episode takes: under a limit there are fewer classes, not fewer of these."""
_CLASSES: dict[SplitName, int] = {"train": 60, "validation": 20, "test": 40}
_SPECIES_SEED = 900
"""Fixes which classes exist and how they are dealt to the splits."""


def _dealt(kinds: list[K], seed: int, offset: int, counts: Mapping[SplitName, int]) -> dict[SplitName, list[K]]:
    """Deal classes to the splits; no class is in two of them."""
    order = generator_at(seed, offset).permutation(len(kinds)).tolist()
    dealt: dict[SplitName, list[K]] = {}
    for part, count in counts.items():
        dealt[part], order = [kinds[position] for position in order[:count]], order[count:]
    return dealt


def mini(request: DataRequest) -> Data:
    """Classes are combinations of colour, material and shape; those of the test never occur in training."""
    kinds = _dealt(list(product(COLOURS, MATERIALS, SHAPES)), _SPECIES_SEED, 0, _CLASSES)

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
    kinds = [kind for kind in product(COLOURS, COLOURS, MATERIALS, COLOURS) if kind[0] != kind[1]]
    species = _dealt(kinds, _SPECIES_SEED, 1, _CLASSES)

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

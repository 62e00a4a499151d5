"""Seven few-shot stand-ins of their own character: classes are combinations of looks, dealt to the splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, generator_at, sample_scene
from eqben_builder.stand_ins.data import DrawnSet
from eqben_builder.stand_ins.drawing import SIDE, SPLITS, Look, Made, as_pixels, capped, coordinates, split_of, tint

Kind = tuple[Any, ...]


class _Plan(NamedTuple):
    """Images of each class, classes of each split, and the seed that fixes which exist and how they are dealt.

    An episode takes ``fewest`` images of a class: under a limit there are then fewer classes, not fewer of these.
    """

    per_class: int
    classes: tuple[int, int, int]
    seed: int
    fewest: int = 0

    def numbers(self, classes: int, limit: int | None) -> Sequence[int]:
        """Which images of a split there are: all, or under a limit the first, or the first of each class."""
        count = capped(self.per_class * classes, limit)
        if not self.fewest:
            return range(count)
        taken = min(max(self.fewest, math.ceil(count / classes)), self.per_class)
        return [kind * self.per_class + index for kind in range(classes) for index in range(taken)][:count]


_FINE, _SPECIES = _Plan(12, (40, 15, 25), 902), _Plan(20, (60, 20, 40), 900, fewest=6)


def _few_shot(
    name: str,
    limit: int | None,
    kinds: list[Kind],
    look: Callable[[np.random.Generator, Kind], Look],
    noise: float,
    *,
    offset: int,
    plan: _Plan = _FINE,
    called: str = "",
) -> DrawnSet:
    """Three splits, none of which has a class of another; ``called`` is how a kind is written."""
    order = generator_at(plan.seed, offset).permutation(len(kinds)).tolist()
    splits, names = [], []
    for part, count in zip(SPLITS, plan.classes, strict=True):
        dealt, order = [kinds[position] for position in order[:count]], order[count:]

        def make(rng: np.random.Generator, number: int, dealt: Sequence[Kind] = dealt) -> Made:
            label = number // plan.per_class
            return Made(look(rng, dealt[label]), label)

        splits.append(split_of(name, part, plan.numbers(len(dealt), limit), make, noise=noise))
        names += [called.format(*kind) if called else " ".join(map(str, kind)) for kind in dealt]
    return DrawnSet(splits[0], splits[1], splits[2], tuple(names))


def planes(limit: int | None = None) -> DrawnSet:
    """Aeroplanes of one plan, which differ in fuselage, wing, tail and number of engines."""

    def look(rng: np.random.Generator, kind: Kind) -> Scene:
        body, wing, tail, engines = kind
        x, y = rng.uniform(0.44, 0.56, 2).tolist()
        facing = 1.0 if rng.random() < 0.5 else -1.0
        sky = tint(rng, (0.3, 0.4, 0.5), (0.5, 0.6, 0.7))

        def part(shape: str, colour: str, dx: float, dy: float, radius: float) -> Item:
            return Item(shape, colour, "large", "plain", x + facing * dx, y + dy, radius)

        fuselage = [part("circle", body, dx, 0, 0.09) for dx in (-0.21, -0.14, -0.07, 0, 0.07, 0.14, 0.21)]
        motors = [part("circle", "brown", 0.02 + 0.1 * number, 0.17, 0.045) for number in range(engines)]
        parts = (part("triangle", tail, -0.27, -0.1, 0.1), *fuselage, part("diamond", wing, 0, 0.08, 0.13), *motors)
        return Scene(tuple(parts), sky)

    kinds: list[Kind] = [kind for kind in product(COLOURS[:6], COLOURS, COLOURS[:5], (1, 2, 3)) if kind[0] != kind[1]]
    return _few_shot("planes", limit, kinds, look, 0.06, offset=0)


def surfaces(limit: int | None = None) -> DrawnSet:
    """Stripes, checks, dots, waves and grain of different pitch and direction: no objects at all."""
    rows, columns = coordinates()

    def look(rng: np.random.Generator, kind: Kind) -> np.ndarray:
        pattern, pitch, turn = kind
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
        return as_pixels(low + (high - low) * (values + 1) / 2)

    patterns = ("striped", "chequered", "dotted", "wavy", "grained")
    kinds: list[Kind] = list(product(patterns, (3.0, 5.0, 8.0, 12.0), (0.0, 0.4, 0.8, 1.2)))
    return _few_shot("surfaces", limit, kinds, look, 0.05, offset=1)


def mushrooms(limit: int | None = None) -> DrawnSet:
    """Mushrooms that differ in the colours of cap and stem, the cap's marks and whether there is a ring."""

    def look(rng: np.random.Generator, kind: Kind) -> Scene:
        cap, stem, marks, ring = kind
        x, y = float(rng.uniform(0.42, 0.58)), float(rng.uniform(0.38, 0.46))
        lean = float(rng.uniform(-0.05, 0.05))
        stalk = [
            Item("square", stem, "small", "plain", x + lean * step, y + 0.09 + 0.09 * step, 0.06) for step in range(4)
        ]
        collar = [Item("ring", "white", "small", "plain", x + lean, y + 0.17, 0.09)] * (ring == "ring")
        hat = Item("circle", cap, "large", marks, x, y, float(rng.uniform(0.19, 0.24)))
        return Scene((*stalk, *collar, hat), tint(rng, 0.08, 0.25))

    kinds: list[Kind] = list(product(COLOURS, COLOURS[:5], MATERIALS, ("ring", "bare")))
    return _few_shot("mushrooms", limit, kinds, look, 0.08, offset=2)


def characters(limit: int | None = None) -> DrawnSet:
    """Characters of two to four white strokes on black; every drawing of one trembles in its own way."""

    def look(rng: np.random.Generator, kind: Kind) -> np.ndarray:
        plan = generator_at(_FINE.seed, 10_000 + kind[0])
        image = Image.new("L", (2 * SIDE, 2 * SIDE))
        pen = ImageDraw.Draw(image)
        shift = rng.uniform(-8, 8, 2)
        for _ in range(int(plan.integers(2, 5))):
            points = plan.uniform(0.15, 0.85, (int(plan.integers(2, 5)), 2)) * 2 * SIDE
            trembled = points + shift + rng.normal(0, 4, points.shape)
            pen.line([(x, y) for x, y in trembled.tolist()], fill=255, width=6, joint="curve")
        small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
        return as_pixels(np.asarray(small) / 255)

    return _few_shot("characters", limit, [(number,) for number in range(80)], look, 0.03, offset=3)


def flowers(limit: int | None = None) -> DrawnSet:
    """Flowers that differ in the number, shape and marks of their petals; their colours say nothing."""

    def look(rng: np.random.Generator, kind: Kind) -> Scene:
        petals, shape, marks = kind
        x, y = rng.uniform(0.45, 0.55, 2).tolist()
        reach, turn = rng.uniform(0.24, 0.28), rng.uniform(0, 2 * np.pi)
        colour, middle = (str(name) for name in rng.choice(COLOURS, 2, replace=False))
        leaves = [
            Item(shape, colour, "small", marks, float(x + reach * np.cos(a)), float(y + reach * np.sin(a)), 0.13)
            for a in turn + 2 * np.pi * np.arange(petals) / petals
        ]
        green = tint(rng, (0.05, 0.2, 0.05), (0.15, 0.35, 0.15))
        return Scene((*leaves, Item("circle", middle, "small", "plain", x, y, 0.09)), green)

    kinds: list[Kind] = list(product((3, 4, 6), SHAPES, MATERIALS))
    return _few_shot("flowers", limit, kinds, look, 0.06, offset=4)


def combinations(limit: int | None = None) -> DrawnSet:
    """Classes are combinations of colour, material and shape; those of the test never occur in training."""

    def look(rng: np.random.Generator, kind: Kind) -> Scene:
        colour, material, shape = kind
        clutter = sample_scene(rng, (0, 2), sizes=["small"], max_overlap=0.3)
        radius = float(rng.uniform(0.14, 0.19))
        x, y = rng.uniform(radius, 1 - radius, 2).tolist()
        target = Item(shape, colour, "large", material, x, y, radius, float(rng.uniform(-0.26, 0.26)))
        return Scene((target, *clutter.items), clutter.background)

    kinds: list[Kind] = list(product(COLOURS, MATERIALS, SHAPES))
    return _few_shot("combinations", limit, kinds, look, 0.08, offset=0, plan=_SPECIES)


def birds(limit: int | None = None) -> DrawnSet:
    """Every image is a bird of one plan; species differ in the colours of body and head and in body and wing marks."""

    def look(rng: np.random.Generator, kind: Kind) -> Scene:
        """A body, a head in front of it, a wing on it and a tail behind it, seen from either side."""
        body, head, material, wing = kind
        radius = float(rng.uniform(0.15, 0.2))
        facing = 1.0 if rng.random() < 0.5 else -1.0
        x, y = rng.uniform(0.42, 0.58, 2).tolist()
        tilt = float(rng.uniform(-0.2, 0.2))

        def part(shape: str, colour: str, marks: str, dx: float, dy: float, size: float, angle: float = 0.0) -> Item:
            where = x + facing * dx * radius, y + dy * radius
            return Item(shape, colour, "large", marks, *where, size * radius, tilt + angle)

        parts = (
            part("triangle", body, "plain", -1.15, 0.25, 0.6, facing * -1.3),
            part("circle", body, material, 0.0, 0.0, 1.0),
            part("heart", wing, "plain", -0.25, 0.15, 0.5, facing * 0.6),
            part("circle", head, "plain", 0.95, -0.75, 0.55),
            part("diamond", "orange", "plain", 1.55, -0.7, 0.2),
        )
        return Scene(parts, tint(rng, 0.1, 0.35))

    kinds: list[Kind] = [kind for kind in product(COLOURS, COLOURS, MATERIALS, COLOURS) if kind[0] != kind[1]]
    called = "{} body, {} head, {} marks, {} wing"
    return _few_shot("birds", limit, kinds, look, 0.05, offset=1, plan=_SPECIES, called=called)

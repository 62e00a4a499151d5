"""Questions about a scene, with their answers, and sums over two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, NUMBERS, PLURALS, SHAPES, Item, Scene, sample_scene
from eqben_builder.stand_ins.data import DrawnSet
from eqben_builder.stand_ins.drawing import Made, data_of

ANSWERS = NUMBERS[:7]


def question(rng: np.random.Generator, scene: Scene) -> tuple[str, int]:
    """Ask one of four kinds of question."""
    kind = int(rng.integers(4))
    shape, colour = str(rng.choice(SHAPES)), str(rng.choice(COLOURS))
    if rng.random() < 0.7 and scene.items:
        subject = scene.items[int(rng.integers(len(scene.items)))]
        shape, colour = subject.shape, subject.colour
    by_colour = rng.random() < 0.5
    noun = f"{colour} objects" if by_colour else PLURALS[shape]
    single = f"{colour} object" if by_colour else shape
    matches: Callable[[Item], bool] = (lambda i: i.colour == colour) if by_colour else (lambda i: i.shape == shape)
    count, total = sum(map(matches, scene.items)), len(scene.items)
    if kind == 0:
        return f"how many {noun} are there ?", count
    if kind == 1:
        return f"subtract all {noun} . how many objects are left ?", total - count
    room = len(ANSWERS) - 1
    if kind == 2:
        extra = int(rng.integers(1, min(3, room - total) + 1))
        return f"add {_counted(extra, single, noun)} . how many objects are there ?", total + extra
    extra = int(rng.integers(1, min(3, room - count) + 1))
    return f"add {_counted(extra, single, noun)} . how many {noun} are there ?", count + extra


def count_questions(limit: int | None = None) -> DrawnSet:
    """Scenes of one to five objects, one question each."""

    def make(rng: np.random.Generator, _: int) -> Made:
        few = [str(shape) for shape in rng.choice(SHAPES, 3, replace=False)]
        tints = [str(colour) for colour in rng.choice(COLOURS, 3, replace=False)]
        scene = sample_scene(rng, (1, 5), shapes=few, colours=tints)
        text, answer = question(rng, scene)
        return Made(scene, answer, (text,))

    return data_of("count_questions", limit, (2500, 300, 800), make, ANSWERS, noise=0.03)


def _counted(count: int, single: str, several: str) -> str:
    return f"{NUMBERS[count]} {single if count == 1 else several}"


_TYPES: dict[str, tuple[str, ...]] = {
    "colour": COLOURS,
    "shape": SHAPES,
    "count": NUMBERS[:5],
    "size": ("small", "large"),
    "yes/no": ("yes", "no"),
    "material": MATERIALS,
}
CLASSES = tuple(f"{kind}: {answer}" for kind, answers in _TYPES.items() for answer in answers)


def typed_questions(limit: int | None = None) -> DrawnSet:
    """Two to four objects, of which all shapes and all colours differ, so that a question means one of them."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kind = tuple(_TYPES)[index % len(_TYPES)]
        count = int(rng.integers(2, 5))
        scene = sample_scene(rng, count)
        looks = zip(scene.items, rng.permutation(SHAPES), rng.permutation(COLOURS), strict=False)
        items = tuple(replace(item, shape=str(shape), colour=str(colour)) for item, shape, colour in looks)
        text, answer = _asked(rng, kind, items)
        return Made(replace(scene, items=items), CLASSES.index(f"{kind}: {answer}"), (text,))

    return data_of("typed_questions", limit, (1500, 240, 600), make, CLASSES, noise=0.03)


def _asked(rng: np.random.Generator, kind: str, items: tuple[Item, ...]) -> tuple[str, str]:
    """A question of one type about one of the objects, and its answer."""
    subject = items[int(rng.integers(len(items)))]
    if kind == "count":
        size = str(rng.choice(("small", "large")))
        return f"how many {size} objects are there ?", NUMBERS[sum(item.size == size for item in items)]
    if kind == "yes/no":
        shape = subject.shape if rng.random() < 0.5 else str(rng.choice(SHAPES))
        return f"are there {PLURALS[shape]} ?", "yes" if any(item.shape == shape for item in items) else "no"
    if kind == "shape":
        return f"the {subject.colour} object is a ?", subject.shape
    if kind == "colour":
        return f"the {subject.shape} is ?", subject.colour
    if kind == "size":
        return f"the {subject.shape} is small or large ?", subject.size
    return f"the {subject.shape} is plain or striped ?", subject.material

"""Questions that need counting and arithmetic over a rendered scene."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqben_builder.micro import COLOURS, NUMBERS, PLURALS, SHAPES, Item, Scene, generator_at, sample_scene
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import draw
from gate_runner.micro.seeds import NOTE, split_seed

ANSWERS = NUMBERS[:7]


def question(rng: np.random.Generator, scene: Scene) -> tuple[str, int]:
    """Ask one of four kinds of question.

    Example:
        >>> scene = Scene((Item("star", "red", "small", "plain", 0.5, 0.5),))
        >>> text, answer = question(np.random.default_rng(1), scene)
        >>> 0 <= answer <= 6
        True
    """
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


def clevr_math(request: DataRequest) -> Data:
    """Scenes of one to five objects, one question each."""

    def split(name: SplitName, count: int) -> Split:
        seed = split_seed("clevr-math", name)
        scenes, questions, answers = [], [], []
        for index in range(count):
            rng = generator_at(seed, index)
            few = [str(shape) for shape in rng.choice(SHAPES, 3, replace=False)]
            tints = [str(colour) for colour in rng.choice(COLOURS, 3, replace=False)]
            scene = sample_scene(rng, (1, 5), shapes=few, colours=tints)
            text, answer = question(rng, scene)
            scenes.append(scene)
            questions.append(text)
            answers.append(answer)
        pictures = draw(scenes, seed, noise=0.03)
        return Split(pictures.images, as_targets(answers), tuple(questions))

    return Data(
        split("train", request.cap(2500)),
        split("validation", request.cap(300)),
        split("test", request.cap(800)),
        ANSWERS,
        NOTE,
    ).limited(request.limit)


def _counted(count: int, single: str, several: str) -> str:
    return f"{NUMBERS[count]} {single if count == 1 else several}"

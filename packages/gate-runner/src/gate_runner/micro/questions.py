"""Questions of six types about rendered scenes, whose answers are of that type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, NUMBERS, PLURALS, SHAPES, Item, sample_scene
from gate_data.data import Data
from gate_data.request import DataRequest
from gate_runner.micro.making import Made, data_of

_TYPES: dict[str, tuple[str, ...]] = {
    "colour": COLOURS,
    "shape": SHAPES,
    "count": NUMBERS[:5],
    "size": ("small", "large"),
    "yes/no": ("yes", "no"),
    "material": MATERIALS,
}
CLASSES = tuple(f"{kind}: {answer}" for kind, answers in _TYPES.items() for answer in answers)


def clevr(request: DataRequest) -> Data:
    """Two to four objects, of which all shapes and all colours differ, so that a question means one of them."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kind = tuple(_TYPES)[index % len(_TYPES)]
        count = int(rng.integers(2, 5))
        scene = sample_scene(rng, count)
        looks = zip(scene.items, rng.permutation(SHAPES), rng.permutation(COLOURS), strict=False)
        items = tuple(replace(item, shape=str(shape), colour=str(colour)) for item, shape, colour in looks)
        text, answer = _asked(rng, kind, items)
        return Made(replace(scene, items=items), CLASSES.index(f"{kind}: {answer}"), (text,))

    return data_of("clevr", request, (1500, 240, 600), make, CLASSES, noise=0.03)


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

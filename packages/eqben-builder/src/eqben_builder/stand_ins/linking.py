"""A knowledge base of rendered entities, some with an image, and questions that show two of them and ask for one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, generator_at
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.drawing import Made, SplitName, capped, split_of

ENTITIES = tuple(product(COLOURS, MATERIALS, SHAPES))
_SEEN_COLOURS = frozenset(COLOURS[::2])
_ORDER_SEED = 901
"""Fixes the order in which entities are asked for."""
_PER_SEEN = 4
_PER_TESTED = 3
_PICTURED = 3
"""Every third entity has an image, as a third of Wikipedia's have."""


def entities(limit: int | None = None) -> DrawnSet:
    """Entity linking: 320 entities (colour, material, shape), of which those of every other colour are seen.

    A question shows two things and names the shape of one ("a star"): its answer is that thing's entity. The image
    alone does not say which is meant, and the text alone leaves 40 entities.
    """
    order = generator_at(_ORDER_SEED, 0).permutation(len(ENTITIES)).tolist()
    trained = [entity for entity in order if ENTITIES[entity][0] in _SEEN_COLOURS]
    unseen = [entity for entity in order if ENTITIES[entity][0] not in _SEEN_COLOURS]
    alternating = [entity for pair in zip(trained, unseen, strict=True) for entity in pair]

    def pictured(_: np.random.Generator, index: int) -> Made:
        return Made(Scene((_thing(_PICTURED * index, 0.5, 0.5),)), _PICTURED * index, ("",))

    count = capped(len(range(0, len(ENTITIES), _PICTURED)), limit)
    return DrawnSet(
        _questions("train", trained, capped(_PER_SEEN * len(trained), limit)),
        split_of("entities", "validation", range(count), pictured, noise=0.02),
        _questions("test", alternating, capped(_PER_TESTED * len(alternating), limit)),
        tuple(" ".join((material, colour, shape)) for colour, material, shape in ENTITIES),
    )


def _questions(part: SplitName, entities: Sequence[int], count: int) -> DrawnSplit:
    def make(rng: np.random.Generator, index: int) -> Made:
        entity = entities[index % len(entities)]
        distractor = int(rng.integers(len(ENTITIES)))
        while ENTITIES[distractor][2] == ENTITIES[entity][2]:
            distractor = int(rng.integers(len(ENTITIES)))
        xs = [float(rng.uniform(0.22, 0.3)), float(rng.uniform(0.7, 0.78))]
        if rng.random() < 0.5:
            xs.reverse()
        ys = rng.uniform(0.35, 0.65, 2).tolist()
        scene = Scene((_thing(entity, xs[0], ys[0]), _thing(distractor, xs[1], ys[1])))
        return Made(scene, entity, (f"a {ENTITIES[entity][2]}",))

    return split_of("entities", part, range(count), make, noise=0.02)


def _thing(entity: int, x: float, y: float) -> Item:
    colour, material, shape = ENTITIES[entity]
    return Item(shape, colour, "large", material, x, y)

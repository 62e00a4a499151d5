"""A knowledge base of rendered entities, some with a picture, and questions that show two of them and ask for one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, generator_at
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.making import NOTE, draw, scenes_of, split_seed

ENTITIES = tuple(product(COLOURS, MATERIALS, SHAPES))
_SEEN_COLOURS = frozenset(COLOURS[::2])
_ORDER_SEED = 901
"""Fixes the order in which entities are asked for."""
_PER_SEEN = 4
_PER_TESTED = 3
_PICTURED = 3
"""Every third entity has a picture, as a third of Wikipedia's have."""


def oven(request: DataRequest) -> Data:
    """Entity linking: 320 entities (colour, material, shape), of which those of every other colour are seen.

    A question shows two things and names the shape of one ("a star"): its answer is that thing's entity. The picture
    alone does not say which is meant, and the text alone leaves 40 entities.
    """
    order = generator_at(_ORDER_SEED, 0).permutation(len(ENTITIES)).tolist()
    trained = [entity for entity in order if ENTITIES[entity][0] in _SEEN_COLOURS]
    unseen = [entity for entity in order if ENTITIES[entity][0] not in _SEEN_COLOURS]
    alternating = [entity for pair in zip(trained, unseen, strict=True) for entity in pair]
    pictured = range(0, len(ENTITIES), _PICTURED)
    train = _questions("train", trained, request.cap(_PER_SEEN * len(trained)))
    count = request.cap(len(pictured))
    scenes = [Scene((_thing(entity, 0.5, 0.5),)) for entity in pictured[:count]]
    images = draw(scenes, split_seed("oven", "validation"), noise=0.02).images
    pictures = Split(images, as_targets(list(pictured[:count])), ("",) * count)
    test = _questions("test", alternating, request.cap(_PER_TESTED * len(alternating)))
    return Data(train, pictures, test, tuple(" ".join((m, c, s)) for c, m, s in ENTITIES), NOTE)


def _questions(split: SplitName, entities: Sequence[int], count: int) -> Split:
    seed = split_seed("oven", split)
    targets = [entities[index % len(entities)] for index in range(count)]

    def scene(rng: np.random.Generator, index: int) -> Scene:
        entity = targets[index]
        distractor = int(rng.integers(len(ENTITIES)))
        while ENTITIES[distractor][2] == ENTITIES[entity][2]:
            distractor = int(rng.integers(len(ENTITIES)))
        xs = [float(rng.uniform(0.22, 0.3)), float(rng.uniform(0.7, 0.78))]
        if rng.random() < 0.5:
            xs.reverse()
        ys = rng.uniform(0.35, 0.65, 2)
        return Scene((_thing(entity, xs[0], float(ys[0])), _thing(distractor, xs[1], float(ys[1]))))

    images = draw(scenes_of(seed, count, scene), seed, noise=0.02).images
    return Split(images, as_targets(targets), tuple(f"a {ENTITIES[entity][2]}" for entity in targets))


def _thing(entity: int, x: float, y: float) -> Item:
    colour, material, shape = ENTITIES[entity]
    return Item(shape, colour, "large", material, x, y)

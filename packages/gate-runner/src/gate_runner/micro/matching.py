"""Pictures and texts: five captions of each picture, five captions of which one is right, and pairs of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from eqben_builder.micro import KINDS, Item, Scene, generator_at, minimal_pair, sample_scene
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest
from gate_runner.micro.making import NOTE, Made, data_of, draw, split_seed

_PER_KIND = 300


def pairs(request: DataRequest) -> Data:
    """Attribute, count and relation pairs in turn; sample i asks with the texts 2i and 2i + 1.

    Args:
        request: only its limit is used.

    Returns:
        900 pairs for the test, none for training or validation: nothing is learnt from them.
    """
    seed = split_seed("pairs", "test")
    count = request.cap(_PER_KIND * len(KINDS))
    made_pairs = [minimal_pair(generator_at(seed, index), KINDS[index % len(KINDS)]) for index in range(count)]
    scenes = [scene for pair in made_pairs for scene in (pair.scene0, pair.scene1)]
    images = draw(scenes, seed, noise=0.02).images.view(count, 2, 3, 64, 64)
    texts = tuple(text for pair in made_pairs for text in (pair.caption0, pair.caption1))
    test = Split(images, as_targets([KINDS.index(pair.kind) for pair in made_pairs]), texts)
    nothing = Split(images[:0], test.targets[:0], ())
    return Data(nothing, nothing, test, tuple(KINDS), NOTE)


_PAIRS = 300


def _phrase(item: Item, fields: int) -> str:
    words = [item.size, item.colour, item.material, item.shape]
    return "a " + " ".join(words[4 - fields :] if fields != 2 else [item.colour, item.shape])


def _captions(rng: np.random.Generator, scene: Scene) -> tuple[str, ...]:
    """Five ways to say what is there, each leaving other things out."""
    first, second = scene.items
    phrasings: list[Callable[[], str]] = [
        lambda: f"{_phrase(first, 2)} and {_phrase(second, 2)}",
        lambda: f"{_phrase(second, 2)} and {_phrase(first, 2)}",
        lambda: f"{_phrase(first, 4)} and {_phrase(second, 4)}",
        lambda: f"{_phrase(first, 3)} and {_phrase(second, 2)}",
        lambda: f"a picture of {_phrase(second, 3)} and {_phrase(first, 2)}",
    ]
    return tuple(phrasings[int(index)]() for index in rng.permutation(5))


def flickr30k(request: DataRequest) -> Data:
    """Two objects in a picture, and five captions of it."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scene = sample_scene(rng, 2, max_overlap=0.1)
        return Made(scene, 0, _captions(rng, scene))

    return data_of("flickr30k", request, (700, 128, 256), make, (), noise=0.05)


def nycc(request: DataRequest) -> Data:
    """A picture of two objects and five captions: four are true of other pictures, in which one object differs."""

    def make(rng: np.random.Generator, index: int) -> Made:
        scene = sample_scene(rng, 2, max_overlap=0.1)
        item = scene.items[0]
        right = index % 5
        texts: list[str] = []
        while len(texts) < 5:
            foil = scene.items[1] if len(texts) == right else sample_scene(rng, 1).items[0]
            text = f"{_phrase(item, 2)} and {_phrase(foil, 2)}"
            if text not in texts and (len(texts) == right or (foil.colour, foil.shape) != _look(scene.items[1])):
                texts.append(text)
        return Made(scene, right, tuple(texts))

    return data_of("nycc", request, (700, 120, 320), make, [f"caption {letter}" for letter in "ABCDE"], noise=0.05)


def winoground(request: DataRequest) -> Data:
    """Two pictures and two captions that differ in an attribute, a count or a relation; nothing is learnt from them."""
    seed = split_seed("winoground", "test")
    count = request.cap(_PAIRS)
    kinds: tuple[Literal["attribute", "count", "relation"], ...] = KINDS
    pairs = [minimal_pair(generator_at(seed, index), kinds[index % len(kinds)]) for index in range(count)]
    scenes = [scene for pair in pairs for scene in (pair.scene0, pair.scene1)]
    images = draw(scenes, seed, noise=0.12).images.view(count, 2, 3, 64, 64)
    texts = tuple(text for pair in pairs for text in (pair.caption0, pair.caption1))
    test = Split(images, as_targets([kinds.index(pair.kind) for pair in pairs]), texts)
    nothing = Split(images[:0], torch.zeros(0, dtype=torch.long), ())
    return Data(nothing, nothing, test, tuple(kinds), NOTE)


def _look(item: Item) -> tuple[str, str]:
    return item.colour, item.shape

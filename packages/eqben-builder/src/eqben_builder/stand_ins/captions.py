"""Images and texts: five captions of each image, five captions of which one is right, and pairs of pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqben_builder.micro import KINDS, Item, Scene, generator_at, minimal_pair, sample_scene
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.drawing import SIDE, Made, as_classes, capped, data_of, draw, split_seed


def pairs(limit: int | None = None) -> DrawnSet:
    """Attribute, count and relation pairs in turn; sample i asks with the texts 2i and 2i + 1."""
    return _minimal_pairs("pairs", limit, 900, 0.02)


def noisy_pairs(limit: int | None = None) -> DrawnSet:
    """Such pairs, 300 and under more noise; nothing is learnt from them."""
    return _minimal_pairs("noisy_pairs", limit, 300, 0.12)


def _minimal_pairs(name: str, limit: int | None, most: int, noise: float) -> DrawnSet:
    """Two images and two captions that differ in an attribute, a count or a relation."""
    seed, count = split_seed(name, "test"), capped(most, limit)
    drawn = [minimal_pair(generator_at(seed, index), KINDS[index % len(KINDS)]) for index in range(count)]
    scenes = [scene for pair in drawn for scene in (pair.scene0, pair.scene1)]
    images = draw(scenes, seed, noise=noise).images.reshape(count, 2, SIDE, SIDE, 3)
    texts = tuple(text for pair in drawn for text in (pair.caption0, pair.caption1))
    test = DrawnSplit(images, as_classes([KINDS.index(pair.kind) for pair in drawn]), texts)
    nothing = DrawnSplit(images[:0], test.targets[:0], ())
    return DrawnSet(nothing, nothing, test, tuple(KINDS))


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


def captioned_scenes(limit: int | None = None) -> DrawnSet:
    """Two objects in an image, and five captions of it."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scene = sample_scene(rng, 2, max_overlap=0.1)
        return Made(scene, 0, _captions(rng, scene))

    return data_of("captioned_scenes", limit, (700, 128, 256), make, (), noise=0.05)


def caption_choices(limit: int | None = None) -> DrawnSet:
    """An image of two objects and five captions: four are true of other images, in which one object differs."""

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

    return data_of(
        "caption_choices", limit, (700, 120, 320), make, [f"caption {letter}" for letter in "ABCDE"], noise=0.05
    )


def _look(item: Item) -> tuple[str, str]:
    return item.colour, item.shape

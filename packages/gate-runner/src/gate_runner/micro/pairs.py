"""Minimal-change pairs of the micro world: two images and two captions that differ in one thing."""

from __future__ import annotations

from eqben_builder.micro import KINDS, generator_at, minimal_pair
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest
from gate_runner.micro.pictures import draw
from gate_runner.micro.seeds import NOTE, split_seed

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

"""A small suite of the micro world with every shape of question, for a machine that holds no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eqben_builder.formats import Picture, encode_png
from eqben_builder.micro import KINDS, caption, generator_at, holds, minimal_pair, render, scene_at
from eqben_builder.micro.minimal import Pair
from eqben_builder.micro.pairs import Kind
from eqben_builder.micro.scene import Scene
from eqben_builder.suites.files import SuiteRow
from eqben_builder.suites.suite import Average, Pooled, Suite, SuiteData

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOISE = 5
_WRONG = 3

MICRO = Suite(
    "micro",
    "The micro world's suite",
    lambda files: iter(()),
    (
        Average("caption choice", Pooled(("captions/*",)), "accuracy"),
        *(Average("pairs", Pooled(("pairs/*",)), measure) for measure in ("text", "image", "group")),
        Average("paraphrases", Pooled(("paraphrases/*",)), "both"),
        Average("image choice", Pooled(("images/*",)), "accuracy"),
    ),
    "made on the spot: none needed",
    "eqben_builder.micro",
    "nothing",
    note="synthetic: drawn from a seed, it stands in for no published suite",
)


def micro_suite(*, pairs: int = 60, size: int = 64, seed: int = 0) -> SuiteData:
    """Questions of every shape, made from minimal pairs.

    Args:
        pairs: Minimal pairs of each kind (attribute, count, relation), at least 1; each gives one question of each of
            the five shapes.
        size: Side of the images in pixels.
        seed: At least 0; the same seed gives the same bytes.

    Returns:
        15 questions a pair of each kind: subsets such as "captions/relation" and "statements".

    Raises:
        ValueError: `pairs` below 1.

    Example:
        >>> data = micro_suite(pairs=1, size=32)
        >>> sorted({row.shape for row in data.rows})
        ['captions', 'images', 'pairs', 'paraphrases', 'statement']
    """
    if pairs < 1:
        raise ValueError(f"pairs = {pairs!r}, expected at least 1")
    rows: list[SuiteRow] = []
    for index in range(pairs * len(KINDS)):
        kind = KINDS[index % len(KINDS)]
        rng = generator_at(seed, index)
        rows += _questions(minimal_pair(rng, kind), kind, index, size, rng)
    return SuiteData(MICRO, rows, {}, {}, ())


def _questions(pair: Pair[Scene], kind: Kind, index: int, size: int, rng: np.random.Generator) -> list[SuiteRow]:
    drawn = render([pair.scene0, pair.scene1], size).images
    first, second = (Picture(content=encode_png(_noisy(image, rng))) for image in drawn)
    cluster, own, opposite = f"pair {index}", pair.caption0, pair.caption1
    wrong = [opposite]
    distractors: list[Picture] = []
    while len(wrong) < _WRONG or len(distractors) < _WRONG - 1:
        scene = scene_at(int(rng.integers(1 << 30)), 0, (1, 3))
        text = caption(scene, rng)
        if len(wrong) < _WRONG and text not in wrong and not holds(text, pair.scene0):
            wrong.append(text)
        if len(distractors) < _WRONG - 1 and not holds(own, scene):
            distractors.append(Picture(content=encode_png(_noisy(render([scene], size).images[0], rng))))
    again = own
    while again == own:
        again = caption(pair.scene0, rng)
    truth = bool(rng.integers(2))
    return [
        SuiteRow(f"captions {index}", f"captions/{kind}", "captions", (first,), (own, *wrong), cluster),
        SuiteRow(f"pairs {index}", f"pairs/{kind}", "pairs", (first, second), (own, opposite), cluster),
        SuiteRow(
            f"paraphrases {index}", f"paraphrases/{kind}", "paraphrases", (first,), (own, again, opposite), cluster
        ),
        SuiteRow(f"images {index}", f"images/{kind}", "images", (first, second, *distractors), (own,), cluster),
        SuiteRow(
            f"statement {index}", "statements", "statement", (first if truth else second,), (own,), cluster, label=truth
        ),
    ]


def _noisy(image: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Two equal scenes must not be two equal images."""
    noise = rng.integers(-_NOISE, _NOISE + 1, image.shape)
    noisy: NDArray[np.uint8] = np.clip(image.astype(np.int16) + noise, 0, 255).astype(np.uint8)
    return noisy

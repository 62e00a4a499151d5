"""A small knowledge base whose names share words, and what to ask of it, for the tests of shards."""

from __future__ import annotations

import numpy as np

from oven_retrieval import Entity, build_kb
from oven_retrieval.vectors import build_vectors

WORDS = ["wood", "duck", "Gate", "GOLDEN", "river", "Bridge", "of", "the", "north", "old"]


def entities(count, seed=0):
    """Names that share words, with ties in score, spelling, aliases and popularity."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        name = " ".join(rng.choice(WORDS, rng.integers(1, 4)))
        aliases = tuple(" ".join(rng.choice(WORDS, rng.integers(1, 3))) for _ in range(rng.integers(0, 3)))
        yield Entity(f"Q{i}", name, aliases=aliases, popularity=float(rng.integers(0, 3)))


def queries(seed=1, count=120):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice([*WORDS, "nothing"], rng.integers(1, 5))) for _ in range(count)]
    return [*texts, "", "nothing", "WOOD wood", "gate", "the the of"]


def made_whole(folder):
    """A knowledge base, its vectors, and the array that they are made from."""
    kb = build_kb(entities(203), folder / "kb")
    values = np.random.default_rng(3).normal(size=(203, 9)).astype(np.float32)
    values[50] = values[120]  # equal scores in different shards
    vectors = build_vectors(lambda a, b: values[a:b], 203, folder / "v", kb=kb.hash, encoder="e", dtype=np.float32)
    return kb, vectors, values


def same_links(found, expected):
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.kinds, expected.kinds)
    np.testing.assert_array_equal(found.scores, expected.scores)

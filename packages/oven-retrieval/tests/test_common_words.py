"""Words that half of the names hold, or all: they still count for the names that hold them."""

from __future__ import annotations

import numpy as np
import pytest

from oven_retrieval import KnowledgeBase, build_linker


@pytest.mark.parametrize(
    ("names", "query", "first"),
    [
        (["big house", "big tree", "big old house"], "house big", "big house"),
        (["wood duck", "wood owl"], "wood owl photo", "wood owl"),
        (["red a", "red b", "blue c", "blue d"], "red thing", "red a"),
    ],
)
def test_common_words_score_above_0(names: list[str], query: str, first: str) -> None:
    base = KnowledgeBase.from_names(names)
    ranking = build_linker(base).link([query], 3)
    rows, scores = ranking.rows[0], ranking.scores[0]
    assert base.names[rows[0]] == first
    assert (scores[(rows >= 0) & np.isfinite(scores)] > 0).all()

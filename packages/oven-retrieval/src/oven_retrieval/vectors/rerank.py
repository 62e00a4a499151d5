"""The best few answers in the order of a slower, better score."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from oven_retrieval.ranking import Ranking

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

    Score = Callable[[int, Int64[np.ndarray, " k"]], Float[np.ndarray, " k"]]


def rerank(found: Ranking, score: Score, k: int | None = None) -> Ranking:
    """Order each query's answers by any function of yours: a cross-encoder, popularity, a language model.

    Args:
        found: of any search, more per query than are wanted in the end.
        score: called with a query's number and its rows, [k] without empty places; greater is better, NaN is refused.
        k: how many are kept, at most as many as there are; None for all.

    Returns:
        Rows and their new scores, best first; of equal ones the one that came first before.

    Raises:
        ValueError: another number of scores than rows, or NaN; the query is named.

    Example:
        >>> neighbours = Ranking(np.array([[7, 3, -1]]), np.array([[0.9, 0.8, -np.inf]], np.float32))
        >>> again = rerank(neighbours, lambda query, rows: -rows.astype(float))
        >>> again.rows.tolist(), again.scores.tolist()
        ([[3, 7, -1]], [[-3.0, -7.0, -inf]])
    """
    count = found.rows.shape[1] if k is None else min(k, found.rows.shape[1])
    rows, scores = Ranking.empty(len(found.rows), count, dtype=np.float32)
    for query, best_rows in enumerate(found.rows):
        candidates = best_rows[best_rows >= 0]
        if not len(candidates):
            continue
        new = np.asarray(score(query, candidates), dtype=np.float64)
        if new.shape != candidates.shape or np.isnan(new).any():
            raise ValueError(f"score: query {query}: expected {len(candidates)} numbers, got {new!r:.120}")
        order = np.argsort(-new, kind="stable")[:count]
        rows[query, : len(order)], scores[query, : len(order)] = candidates[order], new[order]
    return Ranking(rows, scores)

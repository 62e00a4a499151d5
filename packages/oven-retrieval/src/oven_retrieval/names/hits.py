"""What a name engine takes and gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float64, Int64

    from oven_retrieval.ranking import Ranking

K1, B, EPSILON = 1.2, 0.75, 0.25
"""The usual k1 and b; epsilon is rank_bm25's share of the mean idf for tokens in over half the names."""


class Surfaces(NamedTuple):
    """The names to be searched: each is one document.

    `tokens` token lists; `owners` [n] int64, the entity that has the name; `preference` [n] int64, smaller first
    among equal scores (each value once, so that the order is total).

    Example:
        >>> Surfaces.of([["wood", "duck"], ["goose"]]).owners.tolist()
        [0, 1]
    """

    tokens: Sequence[Sequence[str]]
    owners: Int64[np.ndarray, " n"]
    preference: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, tokens: Sequence[Sequence[str]]) -> Surfaces:
        """One name per entity, earlier rows first among equal scores."""
        rows = np.arange(len(tokens), dtype=np.int64)
        return cls(tokens, rows, rows)


class NameEngine(Protocol):
    """BM25 over names.

    All engines score with BM25Okapi as rank_bm25 defines it and return, for each query, the k entities with the best
    name; equal scores are ordered by `preference`. Only names that share a token with the query are returned.

    Example:
        >>> from oven_retrieval.names import PrunedIndex
        >>> engine: NameEngine = PrunedIndex.of(Surfaces.of([["wood", "duck"], ["duck"], ["tea"]]))
        >>> engine.search([["duck"]]).rows.tolist(), engine.document_frequency(["duck", "?"]).tolist()
        ([[1]], [2, 0])
    """

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Ranking:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        ...

    def search_counting(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[Ranking, Int64[np.ndarray, " q"]]:
        """The same, and how many of each query's tokens no name holds."""
        ...

    def document_frequency(self, tokens: Sequence[str]) -> Int64[np.ndarray, " t"]:
        """How many names hold each token."""
        ...


def documents_of(names: Sequence[Sequence[str]]) -> Counter[str]:
    """How many of the names hold each token."""
    return Counter(token for name in names for token in set(name))


def check_k(k: int) -> int:
    """Return k, or say what is wrong with it."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k: expected an integer of at least 1, got {k!r}")
    return k


def best_entities(
    scores: Float64[np.ndarray, " c"],
    owners: Int64[np.ndarray, " c"],
    preference: Int64[np.ndarray, " c"],
    k: int,
) -> tuple[Int64[np.ndarray, " e"], Float64[np.ndarray, " e"]]:
    """The k best entities of one query from the scores of its candidate names."""
    if len(scores) > 4 * k:
        for count in (4 * k, 64 * k):
            if count < len(scores):
                floor = np.partition(scores, len(scores) - count)[len(scores) - count]
                near = np.flatnonzero(scores >= floor)
                if len(np.unique(owners[near])) >= k:
                    scores, owners, preference = scores[near], owners[near], preference[near]
                    break
    order = np.lexsort((preference, -scores))
    _, first = np.unique(owners[order], return_index=True)
    best = order[np.sort(first)[:k]]
    return owners[best], scores[best]

"""The definition: rank_bm25's BM25Okapi, every name scored for every query."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from rank_bm25 import BM25Okapi

from oven_retrieval.names.hits import EPSILON, K1, B, Surfaces, best_entities, check_k, documents_of
from oven_retrieval.ranking import Ranking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Int64


class RankBm25:
    """rank_bm25 behind the interface of the engines, for small knowledge bases and for tests.

    Args:
        surfaces: the names.
        k1, b, epsilon: BM25's parameters.

    Raises:
        ValueError: there is no name, or no name has a token.

    Numerics:
        About 27 ms per query at 100,000 names and 266 ms at a million. Scores are rounded to 9 decimals before they
        are ordered, because the same terms added in another order differ in the last bits.

    Example:
        >>> engine = RankBm25(Surfaces.of([["wood", "duck"], ["golden", "gate"], ["gate"]]))
        >>> engine.search([["gate"]], k=2).rows.tolist()
        [[2, 1]]
    """

    def __init__(self, surfaces: Surfaces, *, k1: float = K1, b: float = B, epsilon: float = EPSILON) -> None:
        if not any(surfaces.tokens):
            raise ValueError(f"surfaces: expected at least one name with a token, got {len(surfaces.tokens)} names")
        self._surfaces = surfaces
        self._bm25 = BM25Okapi(surfaces.tokens, k1=k1, b=b, epsilon=epsilon)

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Ranking:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        return self.search_counting(queries, k, allowed)[0]

    def search_counting(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[Ranking, Int64[np.ndarray, " q"]]:
        """The same, and how many of each query's tokens no name holds."""
        hits, unknown = Ranking.empty(len(queries), check_k(k)), np.zeros(len(queries), np.int64)
        for i, query in enumerate(queries):
            known_tokens = {token for token in query if token in self._bm25.idf}
            unknown[i] = sum(token not in known_tokens for token in query)
            sharing = [
                n
                for n, frequencies in enumerate(self._bm25.doc_freqs)
                if not known_tokens.isdisjoint(frequencies) and (allowed is None or allowed[n])
            ]
            if not sharing:
                continue
            scores = np.round(self._bm25.get_scores(query)[sharing], 9)
            rows, best = best_entities(scores, self._surfaces.owners[sharing], self._surfaces.preference[sharing], k)
            hits.rows[i, : len(rows)], hits.scores[i, : len(rows)] = rows, best
        return hits, unknown

    def document_frequency(self, tokens: Sequence[str]) -> Int64[np.ndarray, " t"]:
        """How many names hold each token, [t]; they are counted at the first call."""
        return np.array([self._documents[token] for token in tokens], dtype=np.int64)

    @cached_property
    def _documents(self) -> Counter[str]:
        return documents_of(self._surfaces.tokens)

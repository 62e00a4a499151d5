"""bm25s: the scores of every (token, name) pair computed ahead, added up per query."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from oven_retrieval.names.hits import K1, B, Hits, Surfaces, best_entities, check_k, documents_of, no_hits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Int64


class Bm25s:
    """bm25s behind the interface of the engines.

    Args:
        surfaces: the names.
        k1, b: BM25's parameters.

    Raises:
        ValueError: there is no name, or no name has a token.

    Numerics:
        float32, and one dense score per name and query. bm25s's `robertson` variant times (k1 + 1) is BM25Okapi,
        except that a token in more
        than half of the names scores 0, where rank_bm25 gives it a quarter of the mean idf. Its own top-k breaks ties
        arbitrarily, so the scores are taken whole and ordered by our rule.

    Example:
        >>> engine = Bm25s(Surfaces.of([["wood", "duck"], ["golden", "gate"], ["gate"], ["rose"], ["tea"]]))
        >>> engine.search([["gate"]], k=2).rows.tolist()
        [[2, 1]]
    """

    def __init__(self, surfaces: Surfaces, *, k1: float = K1, b: float = B) -> None:
        import bm25s

        if not any(surfaces.tokens):
            raise ValueError(f"surfaces: expected at least one name with a token, got {len(surfaces.tokens)} names")
        self._surfaces = surfaces
        self._factor = k1 + 1
        self._bm25 = bm25s.BM25(k1=k1, b=b, method="robertson")
        self._bm25.index([list(tokens) for tokens in surfaces.tokens], show_progress=False)

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Hits:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        hits = no_hits(len(queries), check_k(k))
        for i, query in enumerate(queries):
            if not any(token in self._bm25.vocab_dict for token in query):
                continue
            scores = np.asarray(self._bm25.get_scores(list(query)), dtype=np.float64) * self._factor
            sharing = np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed)
            rows, best = best_entities(
                np.round(scores[sharing], 5), self._surfaces.owners[sharing], self._surfaces.preference[sharing], k
            )
            hits.rows[i, : len(rows)], hits.scores[i, : len(rows)] = rows, best
        return hits

    def document_frequency(self, tokens: Sequence[str]) -> Int64[np.ndarray, " t"]:
        """How many names hold each token, [t]; they are counted at the first call."""
        return np.array([self._documents[token] for token in tokens], dtype=np.int64)

    @cached_property
    def _documents(self) -> Counter[str]:
        return documents_of(self._surfaces.tokens)

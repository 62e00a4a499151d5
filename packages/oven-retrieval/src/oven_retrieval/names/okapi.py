"""The definition: rank_bm25's BM25Okapi, every name scored for every query; slow, to check ours by."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

try:
    from rank_bm25 import BM25Okapi
except ImportError as error:
    raise ImportError("the engine rank_bm25 needs it: pip install 'oven-retrieval[definition]'") from error

from oven_retrieval.names.impacts import EPSILON, K1, B, okapi_idf
from oven_retrieval.names.places import best_entities
from oven_retrieval.ranking import Ranking, check_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Int64


class RankBm25:
    """rank_bm25 behind the methods of `PrunedIndex`, for small knowledge bases.

    Args:
        tokens: of each name; one at least has some.
        owners: [n] entity of each name.
        preference: [n] smaller first among equal scores, each value once.
        k1, b, epsilon: BM25's parameters.

    Numerics:
        About 27 ms per query at 100,000 names and 266 ms at a million. Scores are rounded to 9 decimals before they
        are ordered, because the same terms added in another order differ in the last bits.

    Example:
        >>> engine = RankBm25([["wood", "duck"], ["golden", "gate"], ["gate"]], np.arange(3), np.arange(3))
        >>> engine.search([["gate"]], k=2).rows.tolist()
        [[2, 1]]
    """

    prunes = False

    def __init__(
        self,
        tokens: Sequence[Sequence[str]],
        owners: Int64[np.ndarray, " n"],
        preference: Int64[np.ndarray, " n"],
        *,
        k1: float = K1,
        b: float = B,
        epsilon: float = EPSILON,
    ) -> None:
        if not any(tokens):
            raise ValueError(f"tokens: expected at least one name with a token, got {len(tokens)} names")
        self.owners, self._preference = owners, preference
        self._bm25 = BM25Okapi(tokens, k1=k1, b=b, epsilon=epsilon)
        self._documents = Counter(token for name in tokens for token in set(name))
        common = okapi_idf(np.array(list(self._documents.values()), dtype=np.int64), len(tokens), epsilon)
        floor = dict(zip(self._documents, common.tolist(), strict=True))
        low = [token for token, idf in self._bm25.idf.items() if idf <= 0 or self._documents[token] * 2 >= len(tokens)]
        self._bm25.idf.update({token: floor[token] for token in low})  # rank_bm25's may be 0 or below

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Ranking:
        """As `PrunedIndex.search`."""
        return self.search_counting(queries, k, allowed)[0]

    def search_counting(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[Ranking, Int64[np.ndarray, " q"]]:
        """As `PrunedIndex.search_counting`."""
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
            rows, best = best_entities(scores, self.owners[sharing], self._preference[sharing], k)
            hits.rows[i, : len(rows)], hits.scores[i, : len(rows)] = rows, best
        return hits, unknown

    def document_frequency(self, tokens: Sequence[str]) -> Int64[np.ndarray, " t"]:
        """How many names hold each token, [t]."""
        return np.array([self._documents[token] for token in tokens], dtype=np.int64)

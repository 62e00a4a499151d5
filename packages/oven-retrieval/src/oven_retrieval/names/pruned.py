"""Our inverted index: exact BM25 top-k that scores only names which can still win."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.hits import EPSILON, K1, B, Hits, Surfaces, best_entities, check_k, no_hits
from oven_retrieval.names.impacts import LENGTHS, MOST_TOKENS, Impacts, build_impacts, unpack
from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool

    from oven_retrieval.names.compiled import CompiledSearch

_CHUNK = 64
_WORTH_COMPILING = 256
"""So many queries in a process pay for loading numba."""

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Allowed = npt.NDArray[np.bool_] | None
"""Which names count, [N]; None for all."""
Answers = tuple[Int, Float]
"""Entities and scores, best first."""


class PrunedIndex:
    """MaxScore over impact-ordered postings.

    Tokens of a query are visited from the greatest upper bound down; a name is scored whole when its first list
    reaches it. A list is read in its order of falling impact and left as soon as (impact + all that later tokens can
    add) is below the k-th best score so far; the query ends when the tokens that are left cannot reach that score
    together. Names that could tie are never left out.

    From the 256th query of a process on the loop is compiled by numba, where that loads; the answers are the same.

    Args:
        impacts: arrays from `build_impacts`, in memory or mapped from disk.

    Numerics:
        Scores are float64 sums of float32 impacts: within 1e-6 (relative) of rank_bm25, and exactly equal for names
        whose terms are.
        Queries of more than 16 distinct known tokens, and knowledge bases so small that an idf is not positive, are
        scored exhaustively.

    Example:
        >>> engine = PrunedIndex.of(Surfaces.of([["wood", "duck"], ["golden", "gate"], ["gate"]]))
        >>> engine.search([["gate"], ["duck", "wood"], ["?"]], k=2).rows.tolist()
        [[2, 1], [0, -1], [-1, -1]]

    Source: MaxScore, Turtle and Flood 1995; impact order, Anh and Moffat 2006. Ours differs by the bound of a set of
    m tokens, which uses the greatest impact among names of at least m tokens: in short names that is what prunes.
    """

    def __init__(self, impacts: Impacts) -> None:
        self._impacts = impacts
        self._exhaustive = bool(len(impacts.post_impact)) and not bool(np.all(impacts.bound[:, 0] > 0))
        self._one_name_each = bool(np.all(np.diff(impacts.owner) > 0))
        self._asked, self.compiles = 0, True

    @classmethod
    def of(cls, surfaces: Surfaces, *, k1: float = K1, b: float = B, epsilon: float = EPSILON) -> PrunedIndex:
        """Build the index in memory."""
        return cls(build_impacts(surfaces.tokens, surfaces.owners, surfaces.preference, k1=k1, b=b, epsilon=epsilon))

    @cached_property
    def _compiled(self) -> CompiledSearch | None:
        if self._exhaustive or find_spec("numba") is None:
            return None
        from oven_retrieval.names.compiled import CompiledSearch

        return CompiledSearch(self._impacts, self._one_name_each)

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Hits:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        hits = no_hits(len(queries), check_k(k))
        hashes = hash64(chain.from_iterable(queries))
        ends = np.array(list(accumulate(map(len, queries))), np.int64)
        self._asked += len(queries)
        left: Sequence[int] = range(len(queries))
        if self.compiles and self._asked >= _WORTH_COMPILING and self._compiled is not None:
            too_long = self._compiled.search(hashes, ends, k, allowed, *hits)
            left = np.flatnonzero(hits.rows[:, 0] == self._compiled.TOO_LONG).tolist() if too_long else ()
        for number in left:
            end = int(ends[number])
            rows, scores, hits.unknown[number] = self._search_one(hashes[end - len(queries[number]) : end], k, allowed)
            hits.rows[number, : len(rows)], hits.scores[number, : len(rows)] = rows, scores
            hits.rows[number, len(rows) :] = -1
        return hits

    def document_frequency(self, tokens: Sequence[str]) -> Int:
        """How many names hold each token, [t]."""
        index = self._impacts
        if not len(index.token_hash) or not tokens:
            return np.zeros(len(tokens), np.int64)
        hashes = hash64(tokens)
        at = np.minimum(index.token_hash.searchsorted(hashes), len(index.token_hash) - 1)
        return np.where(index.token_hash[at] == hashes, index.start[at + 1] - index.start[at], 0)

    def _search_one(self, hashes: npt.NDArray[np.uint64], k: int, allowed: Allowed) -> tuple[Int, Float, int]:
        """Entities and scores of one query, best first, and how many of its tokens are unknown."""
        vocabulary = self._impacts.token_hash
        times: dict[int, float] = {}
        known = 0
        if len(vocabulary):
            at = np.minimum(vocabulary.searchsorted(hashes), len(vocabulary) - 1)
            for token in at[vocabulary[at] == hashes].tolist():
                times[token] = times.get(token, 0.0) + 1.0
                known += 1
        if not times:
            return np.zeros(0, np.int64), np.zeros(0), len(hashes)
        if self._exhaustive or len(times) > MOST_TOKENS:
            answers = self._score_all(np.array(list(times)), np.array(list(times.values())), k, allowed)
        else:
            answers = self._prune(list(times), list(times.values()), k, allowed)
        return *answers, len(hashes) - known

    def _prune(self, token: list[int], weight: list[float], k: int, allowed: Allowed) -> Answers:
        """The k best entities for the known tokens of a query."""
        index = self._impacts
        bound = [[b * w for b in row] for row, w in zip(index.bound[token].tolist(), weight, strict=True)]
        order = sorted(range(len(token)), key=lambda i: -bound[i][0])
        bound = [bound[i] for i in order]
        tokens, weights = np.array(token, np.int32)[order], np.array(weight)[order]
        spans = [(int(index.start[t]), int(index.start[t + 1])) for t in tokens.tolist()]
        best = _Best(index, k, self._first_floor(spans, weights, k) if allowed is None else -np.inf)
        for place, (first, end) in enumerate(spans):
            if most_of_sets(bound[place:], 0) < best.slack():
                break
            later = most_of_sets(bound[place + 1 :], 1)
            chunk = _CHUNK
            while first < end:
                least = (best.slack() - later) / float(weights[place])
                last = min(first + chunk, end)
                impact = index.post_impact[first:last]
                if impact[-1] < least:  # the list falls, so that this chunk is the last one
                    end = last = first + int(np.count_nonzero(impact >= least))
                    if first == last:
                        break
                docs, scores = self._scored(first, last, tokens, weights)
                if allowed is not None:
                    docs, scores = docs[allowed[docs]], scores[allowed[docs]]
                if len(docs):
                    best.add(docs, scores)
                first, chunk = last, chunk * 4
        return best.answers()

    def _first_floor(self, spans: list[tuple[int, int]], weights: npt.NDArray[np.float64], k: int) -> float:
        """The k-th greatest impact of one token is a score that k names reach."""
        if k > 1 and not self._one_name_each:
            return -np.inf
        reached = [
            float(self._impacts.post_impact[first + k - 1]) * float(weight)
            for (first, end), weight in zip(spans, weights.tolist(), strict=True)
            if first + k <= end
        ]
        return max(reached, default=-np.inf)

    def _scored(
        self, first: int, last: int, tokens: npt.NDArray[np.int32], weights: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """The names of some postings, and their whole scores."""
        index = self._impacts
        record = index.post_record[first:last]
        heads = index.records[record].view(np.int32)
        docs, length = heads[0::2], heads[1::2]
        columns = np.arange(1, int(length.max()) + 1)
        cells = index.records.take(record[:, None] + columns, mode="clip")
        held = cells.view(np.int32)[:, 0::2]
        # Cells behind a short name's last one are another name's: no token of the query is the number -1.
        held = np.where(columns <= length[:, None], held, -1)
        gain = (held[:, :, None] == tokens) @ weights
        return docs, (gain * cells.view(np.float32)[:, 1::2]).sum(axis=1)

    def _score_all(self, token: Int, weight: Float, k: int, allowed: Allowed) -> tuple[Int, Float]:
        """Score every name that shares a token with one query."""
        index = self._impacts
        size = index.start[token + 1] - index.start[token]
        of = np.repeat(np.arange(len(token)), size)
        at = np.arange(len(of)) + np.repeat(index.start[token] - (np.cumsum(size) - size), size)
        docs = unpack(index.records[index.post_record[at]])[0]
        sums: Float = np.bincount(docs, weights=index.post_impact[at] * weight[of]).astype(np.float64)
        sharing = np.unique(docs if allowed is None else docs[allowed[docs]])
        return best_entities(
            sums[sharing], index.owner[sharing].astype(np.int64), index.preference[sharing].astype(np.int64), k
        )


class _Best:
    """The best names so far."""

    def __init__(self, index: Impacts, k: int, floor: float) -> None:
        self._index, self._k, self._floor = index, k, floor
        self._docs: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._scores: npt.NDArray[np.float64] = np.zeros(0)
        self._first = (-np.inf, 0, -1)
        """Of a single answer: score, minus its preference, entity."""

    def slack(self) -> float:
        """The score that a name needs, lowered by rounding: who ties with the k-th best is read."""
        return self._floor - 1e-9 * abs(self._floor)

    def add(self, docs: npt.NDArray[np.int32], scores: npt.NDArray[np.float64]) -> None:
        """Take in scored names."""
        if self._k == 1:
            greatest = float(scores.max())
            if greatest >= self._first[0]:
                tied = docs[scores == greatest]
                preference = self._index.preference[tied]
                place = int(preference.argmin())
                found = (greatest, -int(preference[place]), int(self._index.owner[tied[place]]))
                self._first = max(self._first, found)
                self._floor = max(self._floor, greatest)
            return
        kept = np.flatnonzero(scores >= self._floor)
        self._docs = np.concatenate([self._docs, docs[kept]])
        self._scores = np.concatenate([self._scores, scores[kept]])
        self._docs, unique = np.unique(self._docs, return_index=True)
        self._scores = self._scores[unique]
        _, best = self._of_entities()
        if len(best) == self._k:
            self._floor = max(self._floor, float(best[-1]))

    def _of_entities(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        owner = self._index.owner[self._docs].astype(np.int64)
        return best_entities(self._scores, owner, self._index.preference[self._docs].astype(np.int64), self._k)

    def answers(self) -> Answers:
        """Entities and scores, best first."""
        if self._k == 1:
            found = slice(0, 1 if self._first[2] >= 0 else 0)
            return np.array([self._first[2]])[found], np.array([self._first[0]])[found]
        return self._of_entities()


def most_of_sets(bound: list[list[float]], extra: int) -> float:
    """Greatest sum that one name can gather from these tokens, each with its bounds by length.

    A name that holds m of them and `extra` others has at least m + extra distinct tokens, so that the bound for such
    names counts: max over m of the sum of the m greatest bounds at length m + extra.

    Example:
        >>> most_of_sets([[3.0, 2.0, 1.0, 1.0], [2.5, 2.0, 1.0, 1.0]], 0)  # both need a name of two tokens
        4.0
    """
    best = 0.0
    for m in range(1, len(bound) + 1):
        column = min(m + extra, LENGTHS) - 1
        best = max(best, sum(sorted([row[column] for row in bound], reverse=True)[:m]))
    return best

"""One query at a time: the same answers as a batch's, with a few short arrays instead of state for thousands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.hits import best_entities
from oven_retrieval.names.impacts import LENGTHS, Impacts
from oven_retrieval.tokens import hash64

_CHUNK = 64

Answers = tuple[list[int], list[float]]
"""Entities and scores, best first."""


class SingleSearch:
    """MaxScore for one query: what `PrunedIndex` does for batches, see there.

    Nothing that is done here grows with the number of entities but the bisection for the query's tokens and the names
    that may still win.

    Args:
        impacts: arrays of the index.
        one_name_each: whether no entity has two names.
    """

    def __init__(self, impacts: Impacts, one_name_each: bool) -> None:
        self._index, self._one_name_each = impacts, one_name_each

    def known(self, query: Sequence[str]) -> tuple[list[int], list[float]]:
        """Numbers of the distinct known tokens of a query, and how often each occurs."""
        times = Counter(query)
        vocabulary = self._index.token_hash
        if not times or not len(vocabulary):
            return [], []
        hashes = hash64(times)
        at = np.minimum(vocabulary.searchsorted(hashes), len(vocabulary) - 1)
        there = (vocabulary[at] == hashes).tolist()
        pairs = zip(at.tolist(), times.values(), there, strict=True)
        found = [(token, float(count)) for token, count, is_known in pairs if is_known]
        return [token for token, _ in found], [count for _, count in found]

    def search(
        self, token: list[int], weight: list[float], k: int, allowed: npt.NDArray[np.bool_] | None = None
    ) -> Answers:
        """The k best entities for the known tokens of a query; only names that are `allowed`, or all."""
        index = self._index
        bound = [[b * w for b in row] for row, w in zip(index.bound[token].tolist(), weight, strict=True)]
        order = sorted(range(len(token)), key=lambda i: -bound[i][0])
        bound = [bound[i] for i in order]
        tokens, weights = np.array(token, np.int32)[order], np.array(weight)[order]
        spans = [(int(index.start[t]), int(index.start[t + 1])) for t in tokens.tolist()]
        best = _Best(index, k, self._first_floor(spans, weights, k) if allowed is None else -np.inf)
        for place, (first, end) in enumerate(spans):
            if _most_of_sets(bound[place:], 0) < best.slack():
                break
            later = _most_of_sets(bound[place + 1 :], 1)
            chunk = _CHUNK
            while first < end:
                least = (best.slack() - later) / float(weights[place])
                last = min(first + chunk, end)
                impact = index.post_impact[first:last]
                if impact[-1] < least:  # the list falls, so that this chunk is the last one
                    end = last = first + int(np.count_nonzero(impact >= least))
                    if first == last:
                        break
                docs, scores = self._score(first, last, tokens, weights)
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
            float(self._index.post_impact[first + k - 1]) * float(weight)
            for (first, end), weight in zip(spans, weights.tolist(), strict=True)
            if first + k <= end
        ]
        return max(reached, default=-np.inf)

    def _score(
        self, first: int, last: int, tokens: npt.NDArray[np.int32], weights: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """The names of some postings, and their whole scores."""
        index = self._index
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
            return ([], []) if self._first[2] < 0 else ([self._first[2]], [self._first[0]])
        rows, scores = self._of_entities()
        return rows.tolist(), scores.tolist()


def _most_of_sets(bound: list[list[float]], extra: int) -> float:
    """Greatest sum that one name can gather from these tokens, as `PrunedIndex` bounds it.

    Example:
        >>> _most_of_sets([[3.0, 2.0, 1.0, 1.0], [2.5, 2.0, 1.0, 1.0]], 0)  # both need a name of two tokens
        4.0
    """
    best = 0.0
    for m in range(1, len(bound) + 1):
        column = min(m + extra, LENGTHS) - 1
        best = max(best, sum(sorted([row[column] for row in bound], reverse=True)[:m]))
    return best

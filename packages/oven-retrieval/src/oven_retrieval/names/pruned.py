"""Our inverted index: exact BM25 top-k that scores only names which can still win, in whole batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.hits import EPSILON, K1, B, Hits, Surfaces, best_entities, check_k, no_hits
from oven_retrieval.names.impacts import LENGTHS, Impacts, build_impacts, unpack
from oven_retrieval.names.single import SingleSearch
from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool

_BATCH = 4096
_FEW = 8
"""So many queries are quicker one by one."""
_CHUNK = 32
_MOST_TOKENS = 16
"""Queries with more distinct known tokens than this are scored exhaustively: their bounds prune nothing."""

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Allowed = npt.NDArray[np.bool_] | None
"""Which names count, [N]; None for all."""


class _Batch(NamedTuple):
    """Queries side by side, their tokens in order of falling upper bound; [q, t], padded with token -1."""

    token: Int
    weight: Float
    tokens: Int
    rest: Float
    """[q, t+1]: no name without the tokens before t scores more."""
    rest_with: Float
    """[q, t+1]: what the tokens from t on can add to a name that has one token more."""


class PrunedIndex:
    """MaxScore over impact-ordered postings, vectorised across queries.

    Tokens of a query are visited from the greatest upper bound down; a name is scored whole when its first list
    reaches it. A list is read in its
    order of falling impact and left as soon as (impact + all that later tokens can add) is below the k-th best score
    so far; the query ends
    when the tokens that are left cannot reach that score together. Names that could tie are never left out.

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
        self._entities = int(impacts.owner.max(initial=0)) + 1
        self._single = SingleSearch(impacts, self._one_name_each)

    @classmethod
    def of(cls, surfaces: Surfaces, *, k1: float = K1, b: float = B, epsilon: float = EPSILON) -> PrunedIndex:
        """Build the index in memory."""
        return cls(build_impacts(surfaces.tokens, surfaces.owners, surfaces.preference, k1=k1, b=b, epsilon=epsilon))

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Hits:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        hits = no_hits(len(queries), check_k(k))
        if len(queries) <= _FEW:
            for number, query in enumerate(queries):
                rows, scores = self.search_one(query, k, allowed)
                hits.rows[number, : len(rows)], hits.scores[number, : len(rows)] = rows, scores
            return hits
        for first in range(0, len(queries), _BATCH):
            self._search_batch(queries[first : first + _BATCH], k, hits, first, allowed)
        return hits

    def search_one(
        self, query: Sequence[str], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[list[int], list[float]]:
        """The k best entities for one query and their scores, best first: what a batch would answer, in less time."""
        token, weight = self._single.known(query)
        if not token:
            return [], []
        if self._exhaustive or len(token) > _MOST_TOKENS:
            rows, scores = self._score_all(np.array(token), np.array(weight), k, allowed)
            return rows.tolist(), scores.tolist()
        return self._single.search(token, weight, k, allowed)

    def document_frequency(self, tokens: Sequence[str]) -> Int:
        """How many names hold each token, [t]."""
        index = self._impacts
        if not len(index.token_hash) or not tokens:
            return np.zeros(len(tokens), np.int64)
        hashes = hash64(tokens)
        at = np.minimum(index.token_hash.searchsorted(hashes), len(index.token_hash) - 1)
        return np.where(index.token_hash[at] == hashes, index.start[at + 1] - index.start[at], 0)

    def _search_batch(self, queries: Sequence[Sequence[str]], k: int, hits: Hits, first: int, allowed: Allowed) -> None:
        query, token, weight = self._known_tokens(queries)
        counts = np.bincount(query, minlength=len(queries))
        starts = np.concatenate([[0], np.cumsum(counts)])
        low = 0
        for most in (4, _MOST_TOKENS):
            chosen = np.flatnonzero((counts > low) & (counts <= most))
            low = most
            if self._exhaustive or not len(chosen):
                continue
            batch = self._order_tokens(chosen, starts, counts, token, weight)
            found = _Search(self._impacts, batch, k, self._one_name_each, self._entities, allowed).run()
            hits.rows[first + chosen], hits.scores[first + chosen] = found
        for i in np.flatnonzero((counts > 0) if self._exhaustive else (counts > _MOST_TOKENS)):
            known = slice(starts[i], starts[i + 1])
            rows, scores = self._score_all(token[known], weight[known], k, allowed)
            hits.rows[first + i, : len(rows)], hits.scores[first + i, : len(rows)] = rows, scores

    def _known_tokens(self, queries: Sequence[Sequence[str]]) -> tuple[Int, Int, Float]:
        """(query, token, times) of each distinct known token of each query, sorted by query."""
        vocabulary = self._impacts.token_hash
        hashes = hash64([token for query in queries for token in query])
        number = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
        if not len(vocabulary):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        at = np.minimum(np.searchsorted(vocabulary, hashes), len(vocabulary) - 1)
        known = vocabulary[at] == hashes
        pair, times = np.unique(number[known] * len(vocabulary) + at[known], return_counts=True)
        return pair // len(vocabulary), pair % len(vocabulary), times.astype(np.float64)

    def _order_tokens(self, chosen: Int, starts: Int, counts: Int, token: Int, weight: Float) -> _Batch:
        columns = np.arange(int(counts[chosen].max()))
        at = starts[chosen][:, None] + columns
        real = columns < counts[chosen][:, None]
        at[~real] = 0
        tokens, weights = token[at], np.where(real, weight[at], 0.0)
        bound = self._impacts.bound[tokens].astype(np.float64) * weights[:, :, None]
        order = np.argsort(-bound[:, :, 0], axis=1, kind="stable")
        tokens, weights = np.take_along_axis(tokens, order, 1), np.take_along_axis(weights, order, 1)
        bound = np.take_along_axis(bound, order[:, :, None], 1)
        tokens[np.take_along_axis(~real, order, 1)] = -1
        width = len(columns)
        rest, rest_with = np.zeros((len(chosen), width + 1)), np.zeros((len(chosen), width + 1))
        for t in range(width):
            rest[:, t] = _most_of_sets(bound[:, t:], 0)
            rest_with[:, t] = _most_of_sets(bound[:, t:], 1)
        return _Batch(tokens, weights, counts[chosen].astype(np.int64), rest, rest_with)

    def _score_all(self, token: Int, weight: Float, k: int, allowed: Allowed) -> tuple[Int, Float]:
        """Score every name that shares a token with one query."""
        index = self._impacts
        at, of = _ranges(index.start[token], index.start[token + 1] - index.start[token])
        docs = unpack(index.records[index.post_record[at]])[0]
        sums: Float = np.bincount(docs, weights=index.post_impact[at] * weight[of]).astype(np.float64)
        sharing = np.unique(docs if allowed is None else docs[allowed[docs]])
        return best_entities(
            sums[sharing], index.owner[sharing].astype(np.int64), index.preference[sharing].astype(np.int64), k
        )


def _most_of_sets(bound: npt.NDArray[np.float64], extra: int) -> Float:
    """Greatest sum that one name can gather from these tokens, [q, t, LENGTHS] -> [q].

    A name that holds m of them and `extra` others has at least m + extra distinct tokens, so that the bound for such
    names counts: max over m of the sum of the m greatest bounds at length m + extra.
    """
    best = np.zeros(len(bound))
    for m in range(1, bound.shape[1] + 1):
        column = bound[:, :, min(m + extra, LENGTHS) - 1]
        best = np.maximum(best, np.sort(column, axis=1)[:, -m:].sum(axis=1))
    return best


def _ranges(start: Int, size: Int) -> tuple[Int, Int]:
    """Positions of many ranges after one another, and the number of the range that each is in."""
    of = np.repeat(np.arange(len(size)), size)
    ends = np.cumsum(size)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(start - (ends - size), size), of


def _slack(floor: Float) -> Float:
    """A floor lowered by rounding: names that tie with the k-th best must be read."""
    return floor - 1e-9 * np.abs(floor)


class _Search:
    """State of one batch: how far each query has read, and its best names so far."""

    def __init__(
        self, impacts: Impacts, batch: _Batch, k: int, one_name_each: bool, entities: int, allowed: Allowed
    ) -> None:
        self._allowed = allowed
        self._index, self._batch, self._k, self._entities = impacts, batch, k, entities
        n = len(batch.tokens)
        self._token = np.ascontiguousarray(batch.token.T, dtype=np.int32)
        self._repeated = bool(np.any(batch.weight > 1))
        self._rank = np.zeros(n, dtype=np.int64)
        self._offset = np.zeros(n, dtype=np.int64)
        self._chunk = np.full(n, _CHUNK, dtype=np.int64)
        reached = allowed is None and (one_name_each or k == 1)
        self._floor = self._first_floor() if reached else np.full(n, -np.inf)
        self._owner = np.full((n, k), -1, dtype=np.int64)
        self._doc = np.full((n, k), -1, dtype=np.int64)
        self._score = np.full((n, k), -np.inf)

    def run(self) -> Hits:
        """Read until no query can improve."""
        active = np.arange(len(self._rank))
        while len(active):
            active, size = self._next_postings(active)
            reading = size > 0
            if reading.any():
                self._read(active[reading], size[reading])
        return Hits(self._owner, self._score)

    def _first_floor(self) -> Float:
        """The k-th greatest impact of one token is a score that k names reach."""
        batch, index = self._batch, self._index
        start, end = index.start[batch.token], index.start[batch.token + 1]
        at = start + self._k - 1
        enough = (batch.token >= 0) & (at < end)
        impact = index.post_impact[np.where(enough, at, 0)].astype(np.float64) * batch.weight
        floor: Float = np.max(np.where(enough, impact, -np.inf), axis=1)
        return floor

    def _next_postings(self, active: Int) -> tuple[Int, Int]:
        """Drop the queries that are done; for the others, how many postings to read now (0: on to the next token)."""
        batch = self._batch
        rank = self._rank[active]
        alive = (rank < batch.tokens[active]) & (batch.rest[active, rank] >= _slack(self._floor[active]))
        active, rank = active[alive], rank[alive]
        token = batch.token[active, rank]
        position = self._index.start[token] + self._offset[active]
        end = self._index.start[token + 1]
        least = (_slack(self._floor[active]) - batch.rest_with[active, rank + 1]) / batch.weight[active, rank]
        size = np.minimum(end - position, self._chunk[active])
        # The list falls: if its last posting of this chunk is high enough, so are all before it.
        last = self._index.post_impact[np.minimum(position + np.maximum(size, 1), end) - 1]
        short = np.flatnonzero(last < least)
        size[short] = self._prefix(position[short], size[short], least[short])
        exhausted = size == 0
        done = active[exhausted]
        self._rank[done] += 1
        self._offset[done] = 0
        self._chunk[done] = _CHUNK
        return active, size

    def _prefix(self, position: Int, size: Int, least: Float) -> Int:
        """How many of `size` falling impacts from `position` are at least `least`: bisection in all queries at once."""
        low, high = np.zeros_like(size), size.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            open_ = low < high
            enough = open_ & (self._index.post_impact[np.where(open_, position + middle, 0)] >= least)
            low, high = np.where(enough, middle + 1, low), np.where(open_ & ~enough, middle, high)
        return low

    def _read(self, queries: Int, size: Int) -> None:
        """Score the next postings of some queries and merge them into their best."""
        index, batch = self._index, self._batch
        token = batch.token[queries, self._rank[queries]]
        at, of = _ranges(index.start[token] + self._offset[queries], size)
        self._offset[queries] += size
        self._chunk[queries] *= 4
        record = index.post_record[at].astype(np.int64)
        docs, length = unpack(index.records[record])
        ends = np.cumsum(length, dtype=np.int64)
        begins = ends - length
        terms, impact = unpack(index.records[np.arange(int(ends[-1])) + np.repeat(record + 1 - begins, length)])
        query = queries[of]
        gain = np.zeros(len(terms))
        for t in range(int(batch.tokens[queries].max())):
            found = terms == np.repeat(self._token[t][query], length)
            gain += found * np.repeat(batch.weight[query, t], length) if self._repeated else found
        gain *= impact.view(np.float32)
        score: Float = np.add.reduceat(gain, begins)
        enough = score >= self._floor[query]
        kept = np.flatnonzero(enough if self._allowed is None else enough & self._allowed[docs])
        if len(kept):
            self._merge(query[kept], docs[kept].astype(np.int64), score[kept])

    def _merge(self, query: Int, doc: Int, score: Float) -> None:
        """Put scored names among the best k entities of their queries."""
        touched = np.unique(query)
        query = np.concatenate([query, np.repeat(touched, self._k)])
        doc = np.concatenate([doc, self._doc[touched].ravel()])
        score = np.concatenate([score, self._score[touched].ravel()])
        real = doc >= 0
        query, doc, score = query[real], doc[real], score[real]
        order = np.lexsort((self._index.preference[doc], -score, query))
        query, doc, score = query[order], doc[order], score[order]
        owner = self._index.owner[doc].astype(np.int64)
        _, first = np.unique(query * self._entities + owner, return_index=True)
        first.sort()
        query, doc, score, owner = query[first], doc[first], score[first], owner[first]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        best = place < self._k
        query, doc, score, owner, place = query[best], doc[best], score[best], owner[best], place[best]
        self._doc[touched], self._score[touched], self._owner[touched] = -1, -np.inf, -1
        self._doc[query, place], self._score[query, place], self._owner[query, place] = doc, score, owner
        self._floor[touched] = np.maximum(self._floor[touched], self._score[touched, -1])

"""Our inverted index: exact BM25 top-k that scores only names which can still win."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.impacts import DAMAGED, Impacts, unpack
from oven_retrieval.names.loops import loops_for, read_only
from oven_retrieval.names.places import best_entities, runs
from oven_retrieval.ranking import Ranking, check_k
from oven_retrieval.tokens import hash64, hash_tokens
from wary_files.durable import FolderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, UInt64


Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Allowed = npt.NDArray[np.bool_] | None
"""Which names count, [N]; None for all."""
_ALL = np.zeros(0, np.bool_)
_PART = 256
"""Texts that one thread takes at once."""


class PrunedIndex:
    """MaxScore over impact-ordered postings.

    Tokens of a query are visited from the greatest upper bound down; a name is scored whole when its first list
    reaches it. A list is read in its order of falling impact and left as soon as (impact + all that later tokens can
    add) is below the k-th best score so far; the query ends when the tokens that are left cannot reach that score
    together. Names that could tie are never left out.

    The loop is compiled by numba, or it is NumPy's: see `oven_retrieval.names.loops`.

    Args:
        impacts: arrays from `build_impacts`, in memory or mapped from disk.

    Numerics:
        Scores are float64 sums of float32 impacts: within 1e-6 (relative) of rank_bm25, and exactly equal for names
        whose terms are.
        Queries of more than 16 distinct known tokens, and knowledge bases so small that an idf is not positive, are
        scored exhaustively.

    Example:
        >>> from oven_retrieval.names import build_impacts
        >>> engine = PrunedIndex(build_impacts([["wood", "duck"], ["golden", "gate"], ["gate"]]))
        >>> engine.search([["gate"], ["duck", "wood"], ["?"]], k=2).rows.tolist()
        [[2, 1], [0, -1], [-1, -1]]

    Source: MaxScore, Turtle and Flood 1995; impact order, Anh and Moffat 2006. Ours differs by the bound of a set of
    m tokens, which uses the greatest impact among names of at least m tokens: in short names that is what prunes.
    """

    def __init__(self, impacts: Impacts) -> None:
        self._impacts = impacts
        self.prunes = not len(impacts.post_impact) or bool(np.all(impacts.bound[:, 0] > 0))
        self._one_name_each = bool(np.all(np.diff(impacts.owner) > 0))

    @cached_property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The index as the loop takes it.

        Raises:
            FolderError: its arrays do not fit one another.
        """
        index = self._impacts
        index.check()
        records = np.asarray(index.records)
        tokens = (index.token_hash, index.start, index.post_record, index.post_impact, index.bound)
        names = (records.view(np.int32), records.view(np.float32), index.owner, index.preference)
        return tuple(read_only(column) for column in (*tokens, *names))

    @property
    def owners(self) -> npt.NDArray[np.integer]:
        """The row that each name belongs to, [N]."""
        return self._impacts.owner

    def search(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> Ranking:
        """The k best entities for each query, given as tokens; only names that are `allowed`, or all."""
        return self.search_counting(queries, k, allowed)[0]

    def search_counting(
        self, queries: Sequence[Sequence[str]], k: int = 1, allowed: Bool[np.ndarray, " n"] | None = None
    ) -> tuple[Ranking, Int]:
        """The same, and how many of each query's tokens no name holds."""
        check_k(k)
        hashes = hash_tokens(chain.from_iterable(queries))
        ends = np.array([len(hashes)] if len(queries) == 1 else list(accumulate(map(len, queries))), np.int64)
        reached = allowed is None and (k == 1 or self._one_name_each)
        loops = loops_for(len(queries))
        if allowed is not None and len(allowed) != len(self._impacts.owner):
            raise FolderError(DAMAGED)
        arrays, counted = self.arrays, _ALL if allowed is None else allowed
        parts = of_parts(
            lambda part, part_ends: loops.search(part, part_ends, *arrays, counted, reached, k), hashes, ends
        )
        if any(part[-1] == loops.DAMAGE for part in parts):
            raise FolderError(DAMAGED)
        all_rows, all_scores, unknown, too_long = parts[0]
        if len(parts) > 1:
            all_rows, all_scores, unknown = (np.concatenate([part[column] for part in parts]) for column in range(3))
            too_long = sum(part[-1] for part in parts)
        hits = Ranking(all_rows, all_scores)
        if not too_long and self.prunes:
            return hits, unknown
        long = np.flatnonzero(hits.rows[:, 0] == loops.TOO_LONG) if self.prunes else np.arange(len(queries))
        for number in long.tolist():
            end = int(ends[number])
            try:
                rows, scores = self._score_all(hashes[end - len(queries[number]) : end], k, allowed)
            except IndexError:  # what NumPy says of places that are not there
                raise FolderError(DAMAGED) from None
            hits.rows[number, : len(rows)], hits.scores[number, : len(rows)] = rows, scores
            hits.rows[number, len(rows) :] = -1
        return hits, unknown

    def document_frequency(self, tokens: Sequence[str]) -> Int:
        """How many names hold each token, [t]."""
        return self.frequency_of(hash64(tokens)) if tokens else np.zeros(0, np.int64)

    @property
    def frequencies(self) -> Int:
        """How many names hold each token of the index, [V]."""
        return np.diff(self._impacts.start)

    def frequency_of(self, hashes: UInt64[np.ndarray, " t"]) -> Int:
        """How many names hold the token with each hash, [t]."""
        index = self._impacts
        if not len(index.token_hash):
            return np.zeros(len(hashes), np.int64)
        at = np.minimum(index.token_hash.searchsorted(hashes), len(index.token_hash) - 1)
        return np.where(index.token_hash[at] == hashes, index.start[at + 1] - index.start[at], 0)

    def _score_all(self, hashes: npt.NDArray[np.uint64], k: int, allowed: Allowed) -> tuple[Int, Float]:
        """Entities and scores of one query, from every name that shares a token with it."""
        index = self._impacts
        distinct, times = np.unique(hashes, return_counts=True)
        token = np.minimum(index.token_hash.searchsorted(distinct), max(len(index.token_hash) - 1, 0))
        is_known = index.token_hash[token] == distinct if len(index.token_hash) else np.zeros(len(token), np.bool_)
        token, weight = token[is_known], times[is_known]
        size = index.start[token + 1] - index.start[token]
        of = np.repeat(np.arange(len(token)), size)
        at = runs(index.start[token], size)
        docs = unpack(index.records[index.post_record[at]])[0]
        if not 0 <= docs.min(initial=0) <= docs.max(initial=0) < len(index.owner):
            raise IndexError
        sums: Float = np.bincount(docs, weights=index.post_impact[at] * weight[of]).astype(np.float64)
        sharing = np.unique(docs if allowed is None else docs[allowed[docs]])
        return best_entities(
            sums[sharing], index.owner[sharing].astype(np.int64), index.preference[sharing].astype(np.int64), k
        )


def of_parts(loop: Callable[[Any, Any], Any], values: npt.NDArray[Any], ends: Int) -> list[Any]:
    """What a compiled loop gives of texts whose values end at `ends`; of many, part by part, in threads.

    There are as many threads as numba may use (`NUMBA_NUM_THREADS`, by default the cores of this process); one without
    numba, since NumPy's loops hold the interpreter's lock.
    """
    if len(ends) < 2 * _PART or sys.modules.get("numba") is None:
        return [loop(values, ends)]
    import numba

    config: Any = numba.config
    firsts = range(0, len(ends), _PART)
    begins = [int(ends[first - 1]) if first else 0 for first in firsts]
    parts = [ends[first : first + _PART] for first in firsts]
    with ThreadPoolExecutor(config.NUMBA_NUM_THREADS, "oven-names") as pool:
        return list(pool.map(lambda begin, part: loop(values[begin : part[-1]], part - begin), begins, parts))

"""The pruned search as one loop that numba compiles: the algorithm and the answers of `PrunedIndex`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from oven_retrieval.locking import FolderError
from oven_retrieval.names.impacts import DAMAGED, LENGTHS, MOST_TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

    from oven_retrieval.names.impacts import Impacts

_jit = numba.njit(cache=True, nogil=True)


class CompiledSearch:
    """Queries given as hashes of their tokens, one or many.

    Args:
        impacts: arrays of the index.
        one_name_each: whether no entity has two names.
    """

    TOO_LONG = -2
    """First row of a query with more than `MOST_TOKENS` distinct known tokens, which is left alone."""

    def __init__(self, impacts: Impacts, one_name_each: bool) -> None:
        self._one_name_each = one_name_each
        impacts.check()
        if len(impacts.start) and not 0 <= impacts.start.min() <= impacts.start.max() <= len(impacts.post_record):
            raise FolderError(DAMAGED)
        records = np.asarray(impacts.records)
        self._arrays = (
            *(np.asarray(a) for a in (impacts.token_hash, impacts.start, impacts.post_record, impacts.post_impact)),
            np.asarray(impacts.bound),
            records.view(np.int32),
            records.view(np.float32),
            np.asarray(impacts.owner),
            np.asarray(impacts.preference),
        )
        self._owner = impacts.owner
        self._all = np.zeros(0, np.bool_)
        self._run: Any = _search

    def search(
        self,
        hashes: npt.NDArray[np.uint64],
        ends: npt.NDArray[np.int64],
        k: int,
        allowed: npt.NDArray[np.bool_] | None,
        rows: npt.NDArray[np.int64],
        scores: npt.NDArray[np.float64],
        unknown: npt.NDArray[np.int64],
    ) -> int:
        """Fill in the answers to queries whose tokens end at `ends`; how many queries are `TOO_LONG`."""
        reached = allowed is None and (k == 1 or self._one_name_each)
        only = self._all if allowed is None else allowed
        if len(only) not in (0, len(self._owner)):
            raise FolderError(DAMAGED)
        too_long = int(self._run(hashes, ends, *self._arrays, only, reached, k, rows, scores, unknown))
        if too_long < 0:
            raise FolderError(DAMAGED)
        return too_long


@_jit
def _place(table, key):  # type: ignore[no-untyped-def]
    """Where a key is in a sorted table, -1 where it is not."""
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) >> 1
        if table[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(table) and table[low] == key else -1


@_jit
def _known(hashes, token_hash, token, weight):  # type: ignore[no-untyped-def]
    """Put the distinct known tokens of a query and their counts in place; how many, one too many for too many."""
    count = unknown = 0
    for key in hashes:
        at = _place(token_hash, key)
        if at < 0:
            unknown += 1
            continue
        i = 0
        while i < count and token[i] != at:
            i += 1
        if i < count:
            weight[i] += 1.0
        elif count == MOST_TOKENS:
            return MOST_TOKENS + 1, unknown
        else:
            token[i], weight[i] = at, 1.0
            count += 1
    return count, unknown


@_jit
def _by_bound(token, weight, bound, bounds, count):  # type: ignore[no-untyped-def]
    """Order tokens by falling bound, and write all their bounds."""
    for i in range(count):
        at, times = token[i], weight[i]
        greatest = bounds[at, 0] * times
        j = i
        while j > 0 and bound[j - 1, 0] < greatest:
            token[j], weight[j] = token[j - 1], weight[j - 1]
            for m in range(LENGTHS):
                bound[j, m] = bound[j - 1, m]
            j -= 1
        token[j], weight[j] = at, times
        for m in range(LENGTHS):
            bound[j, m] = bounds[at, m] * times


@_jit
def _most(bound, first, count, extra):  # type: ignore[no-untyped-def]
    """Greatest sum of bounds that one name can gather from the tokens from `first` on: see `most_of_sets`."""
    best = 0.0
    for m in range(1, LENGTHS - extra):
        a = b = c = 0.0
        for i in range(first, count):
            value = bound[i, m + extra - 1]
            if value > a:
                a, b, c = value, a, b
            elif value > b:
                b, c = value, b
            elif value > c:
                c = value
        best = max(best, a if m == 1 else a + b if m == 2 else a + b + c)
    total = 0.0
    for i in range(first, count):
        total += bound[i, LENGTHS - 1]
    return max(best, total)


@_jit
def _put(row, score, first, filled, k, rows, scores, preference):  # type: ignore[no-untyped-def]
    """Put a name's score among the best entities', each once; how many there are now."""
    at = 0
    while at < filled and rows[at] != row:
        at += 1
    if at == filled < k:
        filled += 1
    else:
        at = min(at, k - 1)
        if score < scores[at] or (score == scores[at] and first >= preference[at]):
            return filled
    while at > 0 and (score > scores[at - 1] or (score == scores[at - 1] and first < preference[at - 1])):
        rows[at], scores[at], preference[at] = rows[at - 1], scores[at - 1], preference[at - 1]
        at -= 1
    rows[at], scores[at], preference[at] = row, score, first
    return filled


@_jit
def _search(  # type: ignore[no-untyped-def]
    hashes, ends, token_hash, start, post_record, post_impact, bounds, halves, impacts, owner, preference,
    allowed, reached, k, rows, scores, unknown,
):  # fmt: skip
    token, weight, bound = np.empty(MOST_TOKENS, np.int64), np.empty(MOST_TOKENS), np.empty((MOST_TOKENS, LENGTHS))
    firsts = np.empty(k, np.int64)
    too_long, begin = 0, 0
    for q in range(len(ends)):
        count, unknown[q] = _known(hashes[begin : ends[q]], token_hash, token, weight)
        begin = ends[q]
        if count > MOST_TOKENS:
            too_long += 1
            rows[q, 0] = -2
            continue
        _by_bound(token, weight, bound, bounds, count)
        floor, filled = -np.inf, 0
        if reached:
            for i in range(count):
                at = start[token[i]] + k - 1
                if at < start[token[i] + 1]:
                    floor = max(floor, post_impact[at] * weight[i])
        for place in range(count):
            if _most(bound, place, count, 0) < floor - 1e-9 * abs(floor):
                break
            later = _most(bound, place + 1, count, 1)
            for posting in range(start[token[place]], start[token[place] + 1]):
                if post_impact[posting] * weight[place] + later < floor - 1e-9 * abs(floor):
                    break
                head = 2 * np.int64(post_record[posting])
                if head < 0 or head + 1 >= len(halves):  # files of strangers: compiled code reads whatever it is told
                    return -1
                name, after = halves[head], head + 2 + 2 * np.int64(halves[head + 1])
                if name < 0 or name >= len(owner) or after > len(halves):
                    return -1
                if len(allowed) and not allowed[name]:
                    continue
                score = 0.0
                for cell in range(head + 2, after, 2):
                    for i in range(count):
                        if token[i] == halves[cell]:
                            score += weight[i] * impacts[cell + 1]
                            break
                if score >= floor:
                    filled = _put(owner[name], score, preference[name], filled, k, rows[q], scores[q], firsts)
                    if filled == k:
                        floor = max(floor, scores[q, k - 1])
    return too_long

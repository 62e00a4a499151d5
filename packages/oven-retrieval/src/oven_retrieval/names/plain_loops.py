"""The loops over names in NumPy: the same answers without numba, and before numba has compiled.

Sums of words are those of `PrunedIndex._score_all`: in another order than compiled ones, so equal to rounding.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from oven_retrieval.names.impacts import BUCKET_BITS, distinct
from oven_retrieval.names.places import best_entities, runs

MOST_AT_ONCE = 1000
TOO_LONG, DAMAGE = -2, -1
BY_WORDS, BY_TRIGRAMS, NOTHING, UNDECIDED = range(4)
TIE = 1e-9
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - BUCKET_BITS)


def _pairs(points, ends):
    """Number of the text and bucket of each distinct trigram of texts that end at `ends`, in this order."""
    lengths = np.diff(ends, prepend=0)
    number = np.repeat(np.arange(len(ends)), lengths)
    padded = np.zeros(len(points) + 4 * len(ends), np.uint64)
    padded[np.arange(len(points)) + 4 * number + 2] = points[: ends[-1] if len(ends) else 0]
    text = np.repeat(np.arange(len(ends)), lengths + 2)
    first = np.arange(len(text)) + 2 * text
    key = padded[first] << np.uint64(42) | padded[first + 1] << np.uint64(21) | padded[first + 2]
    bucket = (key * _MULTIPLIER >> _SHIFT).astype(np.int64)
    pairs = distinct(text << BUCKET_BITS | bucket)
    return pairs >> BUCKET_BITS, pairs & ((1 << BUCKET_BITS) - 1)


def buckets_of(points, begin, end, buckets):
    """Write the distinct buckets of the trigrams of one text, rising. How many."""
    _, bucket = _pairs(points[begin:end], np.array([end - begin]))
    buckets[: len(bucket)] = bucket
    return len(bucket)


def count_buckets(points, ends, counts):
    """Add to the counts of buckets those of texts that end at `ends`."""
    counts += np.bincount(_pairs(points, ends)[1], minlength=len(counts))


def weigh(points, ends, idf, weights):
    """The idf of the buckets of each text together."""
    text, bucket = _pairs(points, ends)
    weights[:] = np.bincount(text, weights=idf[bucket], minlength=len(ends))


def fill_postings(points, ends, first, free, post):
    """Put the number of each text, from `first` on, into the lists of its buckets, at their first `free` place."""
    text, bucket = _pairs(points, ends)
    order = np.argsort(bucket, kind="stable")
    text, bucket = text[order], bucket[order]
    rank = np.arange(len(bucket)) - np.searchsorted(bucket, bucket)
    post[free[bucket] + rank] = first + text
    free += np.bincount(bucket, minlength=len(free))


def renumber(start, post, number):
    """Give the names in all lists their new numbers, and sort each list."""
    bucket = np.repeat(np.arange(len(start) - 1), np.diff(start))
    names = number[post]
    post[:] = names[np.lexsort((names, bucket))]


def most_alike(points, ends, start, post, weight, idf, k, least):
    """The names that share most with each text that ends at `ends`: numbers, likenesses, and where each text's end.

    The first end is `DAMAGE` where the arrays do not fit one another. The lists of all trigrams are added up.
    """
    names, scores, last_of = [np.zeros(0, np.int32)], [np.zeros(0)], np.empty(len(ends), np.int64)
    text, bucket = _pairs(points, ends)
    filled = 0
    for number in range(len(ends)):
        own = bucket[np.searchsorted(text, number) : np.searchsorted(text, number, side="right")]
        size = start[own + 1] - start[own]
        sharing = post[runs(start[own], size)]
        if len(sharing):
            if not 0 <= sharing.min() <= sharing.max() < len(weight):
                last_of[0] = DAMAGE
                return names[0], scores[0], last_of
            shared = np.bincount(sharing, weights=np.repeat(idf[own], size), minlength=len(weight))
            chosen = np.flatnonzero(shared)
            likeness = 2 * shared[chosen] / (idf[own].sum() + weight[chosen].astype(np.float64))
            needed = float(least)
            if len(chosen) >= k:
                needed = max(needed, np.partition(likeness, len(chosen) - k)[len(chosen) - k])
            near = likeness >= needed - TIE
            names.append(chosen[near].astype(np.int32))
            scores.append(likeness[near])
            filled += int(np.count_nonzero(near))
        last_of[number] = filled
    return np.concatenate(names), np.concatenate(scores), last_of


def holds(table, key):
    """Whether a key is in a sorted table."""
    at = table.searchsorted(key)
    return bool(at < len(table) and table[at] == key)


def look_up(exact, loose, keys):
    """Where the names with this folded key begin and end, and whether it is the key of a name's other form."""
    key = keys[0]
    return int(exact.searchsorted(key)), int(exact.searchsorted(key, side="right")), holds(loose, key)


def search(
    hashes, ends, token_hash, start, post_record, post_impact, bounds, halves, impacts, owner, preference, allowed,
    reached, k,
):  # fmt: skip
    """Rows, scores and unknown tokens of queries, and 0 queries that are too long, or `DAMAGE`.

    Arguments as in `compiled.search`.
    """
    del bounds, impacts, reached
    rows, scores = np.full((len(ends), k), -1), np.full((len(ends), k), -np.inf)
    at = np.minimum(token_hash.searchsorted(hashes), max(len(token_hash) - 1, 0))
    known = token_hash[at] == hashes if len(token_hash) else np.zeros(len(hashes), np.bool_)
    unknown, begin = np.empty(len(ends), np.int64), 0
    for query, end in enumerate(ends.tolist()):
        is_known = known[begin:end]
        unknown[query] = np.count_nonzero(~is_known)
        token, times = np.unique(at[begin:end][is_known], return_counts=True)
        begin = end
        size = start[token + 1] - start[token]
        places = runs(start[token], size)
        heads = 2 * post_record[places].astype(np.int64)
        if len(heads) and not 0 <= heads.min() <= heads.max() < len(halves) - 1:
            return rows, scores, unknown, DAMAGE
        docs = halves[heads].astype(np.int64)
        if not 0 <= docs.min(initial=0) <= docs.max(initial=0) < max(len(owner), 1):
            return rows, scores, unknown, DAMAGE
        sums = np.bincount(docs, weights=post_impact[places] * np.repeat(times, size).astype(np.float64))
        sharing = np.flatnonzero(np.bincount(docs)) if len(docs) else docs
        if len(allowed):
            sharing = sharing[allowed[sharing]]
        best, of_best = best_entities(sums[sharing], owner[sharing].astype(int), preference[sharing].astype(int), k)
        rows[query, : len(best)], scores[query, : len(best)] = best, of_best
    return rows, scores, unknown, 0


def guess(hashes, words, folded, trigrams, least):
    """Leave every name to `search` and `most_alike`."""
    del hashes, words, folded, trigrams, least
    return UNDECIDED, 0, 0.0, -1

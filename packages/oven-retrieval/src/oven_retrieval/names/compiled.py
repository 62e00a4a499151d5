"""The loops over names that numba compiles: the search of `PrunedIndex`, and one name at a time in two calls."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg"

from __future__ import annotations

import numpy as np

from oven_retrieval.names.impacts import LENGTHS, MOST_TOKENS
from oven_retrieval.names.jit import is_kept, jit
from oven_retrieval.names.trigrams import (
    START,
    buckets_of,
    count_buckets,
    fill_postings,
    lower,
    most_alike,
    renumber,
    weigh,
)

TOO_LONG = -2
"""First row of a query with more than `MOST_TOKENS` distinct known tokens, which is left alone."""
DAMAGE = -1
"""In place of a count: the arrays do not fit one another."""
BY_WORDS, BY_TRIGRAMS, NOTHING, UNDECIDED = range(4)
"""How `guess` came to its answer; undecided are three names as good, very many words and a damaged index."""
_ONE, _SPACE = np.ones(1, np.int64), np.uint32(32)


@jit
def span(table, key):
    """Where the equal keys of a sorted table begin and end."""
    first = lower(table, START, len(table), key)
    last = first
    while last < len(table) and table[last] == key:
        last += 1
    return first, last


@jit
def holds(table, key):
    """Whether a key is in a sorted table."""
    at = lower(table, START, len(table), key)
    return at < len(table) and table[at] == key


@jit
def _known(hashes, token_hash, token, weight):
    """Put the distinct known tokens of a query and their counts in place; how many, one too many for too many."""
    count = unknown = 0
    too_many = False
    for key in hashes:
        at = lower(token_hash, START, len(token_hash), key)
        if at == len(token_hash) or token_hash[at] != key:
            unknown += 1
            continue
        i = 0
        while i < count and token[i] != at:
            i += 1
        if i < count:
            weight[i] += 1.0
        elif count == MOST_TOKENS:
            too_many = True
        else:
            token[i], weight[i] = at, 1.0
            count += 1
    return MOST_TOKENS + 1 if too_many else count, unknown


@jit
def _by_bound(token, weight, bound, bounds, count):
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


@jit
def _most(bound, first, count, extra):
    """Greatest sum of bounds that one name can gather from the tokens from `first` on.

    A name that holds m of them and `extra` others has at least m + extra distinct tokens, so that the bound for such
    names counts: max over m of the sum of the m greatest bounds at length m + extra.
    """
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


@jit
def _put(row, score, first, filled, k, rows, scores, preference):
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


@jit
def search(
    hashes, ends, token_hash, start, post_record, post_impact, bounds, halves, impacts, owner, preference, allowed,
    reached, k,
):  # fmt: skip
    """Rows, scores and unknown tokens of queries, and how many queries are too long, or `DAMAGE`.

    `hashes` are those of the queries' tokens, which end at `ends`;
    `halves` and `impacts` are the records of the index as int32 and as float32, `allowed` is empty where all names
    count, and `reached` says that the k-th greatest impact of a token is a score that k entities reach.
    """
    token, weight, bound = np.empty(MOST_TOKENS, np.int64), np.empty(MOST_TOKENS), np.empty((MOST_TOKENS, LENGTHS))
    firsts = np.empty(k, np.int64)
    rows, scores = np.full((len(ends), k), -1), np.full((len(ends), k), -np.inf)
    unknown = np.empty(len(ends), np.int64)
    too_long = begin = 0
    for q in range(len(ends)):
        count, unknown[q] = _known(hashes[begin : ends[q]], token_hash, token, weight)
        begin = ends[q]
        if count > MOST_TOKENS:
            rows[q, 0] = TOO_LONG
            too_long += 1
            continue
        _by_bound(token, weight, bound, bounds, count)
        floor, filled = -np.inf, START
        if reached:
            for i in range(count):
                at = start[token[i]] + k - 1
                if at < start[token[i] + 1]:
                    floor = max(floor, post_impact[at] * weight[i])
        for rank in range(count):
            if _most(bound, rank, count, START) < floor - 1e-9 * abs(floor):
                break
            later = _most(bound, rank + 1, count, START + 1)
            for posting in range(start[token[rank]], start[token[rank] + 1]):
                if post_impact[posting] * weight[rank] + later < floor - 1e-9 * abs(floor):
                    break
                head = 2 * np.int64(post_record[posting])
                if head < 0 or head + 1 >= len(halves):  # files of strangers: compiled code reads whatever it is told
                    return rows, scores, unknown, DAMAGE
                name, after = halves[head], head + 2 + 2 * np.int64(halves[head + 1])
                if name < 0 or name >= len(owner) or after > len(halves):
                    return rows, scores, unknown, DAMAGE
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
    return rows, scores, unknown, too_long


@jit
def look_up(exact, loose, keys):
    """Where the names with this folded key begin and end, and whether it is the key of a name's other form."""
    first, last = span(exact, keys[0])
    return first, last, holds(loose, keys[0])


@jit
def plain_letters(folded):
    """What `plain` gives for a folded text in ASCII: letters and digits, one blank between words."""
    points = np.empty(len(folded), np.uint32)
    count, apart = 0, False
    for letter in folded:
        if 97 <= letter <= 122 or 48 <= letter <= 57:
            if apart and count:
                points[count] = _SPACE
                count += 1
            points[count] = letter
            count += 1
            apart = False
        else:
            apart = True
    return points[:count] if count else folded.astype(np.uint32)


@jit
def guess(hashes, words, folded, trigrams, least):
    """The best answer by words, or by trigrams where those may miss what is meant.

    How it was found, the row by words or the name's number by trigrams, the score, and another name as good, or -1.
    `words` are the arrays of BM25, `trigrams` those of the n-grams.
    """
    ends = _ONE * len(hashes)
    rows, scores, unknown, too_long = search(hashes, ends, *words, np.empty(0, np.bool_), True, 1)
    if too_long == DAMAGE or rows[0, 0] == TOO_LONG:
        return UNDECIDED, 0, 0.0, -1
    if rows[0, 0] < 0 or unknown[0] > 0:
        points = plain_letters(folded)
        names, likeness, last = most_alike(points, _ONE * len(points), *trigrams, 1, least)
        if len(names) > 2 or last[0] == DAMAGE or (len(names) == 2 and likeness[0] != likeness[1]):
            return UNDECIDED, 0, 0.0, -1
        if len(names):
            return BY_TRIGRAMS, np.int64(names[0]), likeness[0], np.int64(names[1]) if len(names) == 2 else -1
    return (BY_WORDS if rows[0, 0] >= 0 else NOTHING), rows[0, 0], scores[0, 0], -1


def is_stored():
    """Whether numba has kept the code of all loops, of these sources: loading it takes half a second."""
    entries = (search, guess, look_up, holds, most_alike, buckets_of, count_buckets, weigh, fill_postings, renumber)
    return all(map(is_kept, entries))

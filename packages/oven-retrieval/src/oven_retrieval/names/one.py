"""One name at a time: what most questions come to, in two calls of compiled code."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,call-arg"

from __future__ import annotations

import numba
import numpy as np

from oven_retrieval.names.compiled import DAMAGE, TOO_LONG, holds, search, span
from oven_retrieval.names.trigrams import most_alike
from oven_retrieval.names.trigrams import scratch as scratch

BY_WORDS, BY_TRIGRAMS, NOTHING, UNDECIDED = range(4)
"""How `guess` came to its answer; undecided are three names as good, very many words and a damaged index."""
_ALL = np.zeros(0, np.bool_)
_ONE, _SPACE = np.ones(1, np.int64), np.uint32(32)
_jit = numba.njit(cache=True, nogil=True)


@_jit
def look_up(exact, loose, keys):
    """Where the names with this folded key begin and end, and whether it is the key of a name's other form."""
    first, last = span(exact, keys[0])
    return first, last, holds(loose, keys[0])


@_jit
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


@_jit
def guess(hashes, words, folded, trigrams, least, scratch):
    """The best answer by words, or by trigrams where those may miss what is meant.

    How it was found, the row by words or the name's number by trigrams, the score, and another name as good, or -1.
    `words` are the arrays of BM25, `trigrams` those of the n-grams.
    """
    ends = _ONE * len(hashes)
    rows, scores, unknown, too_long = search(hashes, ends, *words, _ALL, True, 1)
    if too_long == DAMAGE or rows[0, 0] == TOO_LONG:
        return UNDECIDED, 0, 0.0, -1
    if rows[0, 0] < 0 or unknown[0] > 0:
        points = plain_letters(folded)
        names, likeness, last = most_alike(points, _ONE * len(points), *trigrams, 1, least, *scratch)
        if len(names) > 2 or last[0] == DAMAGE or (len(names) == 2 and likeness[0] != likeness[1]):
            return UNDECIDED, 0, 0.0, -1
        if len(names):
            return BY_TRIGRAMS, np.int64(names[0]), likeness[0], np.int64(names[1]) if len(names) == 2 else -1
    return (BY_WORDS if rows[0, 0] >= 0 else NOTHING), rows[0, 0], scores[0, 0], -1

"""Loops over trigrams that numba compiles: buckets of texts, posting lists, and the names that share most of them."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from oven_retrieval.names.impacts import BUCKET_BITS
from oven_retrieval.names.jit import jit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - BUCKET_BITS)
_FIRST_BLOCK, _GREATEST_BLOCK = 1 << 12, 1 << 15
"""Names that are read together; twice as many each time."""
_MORE_LISTS, _LONGER = 2, 2
"""So many lists more are added up to the names of the first ones, if each is at most so many times as long as those."""
_LOOK_UP = 24
"""To look for a name in a list takes as long as to read so many of its names."""
DAMAGE = -1
START = np.int64(0)
"""A number that numba compiles for as for any other: for 0 itself it would compile each loop once more."""
TIE = 1e-9
"""Likenesses that differ by less are equal: weights are multiples of 1/1024, so that their sums are exact."""


@jit
def buckets_of(points, begin, end, buckets):
    """Write the distinct buckets of the trigrams of one text, rising; two blanks are thought at each end. How many."""
    first = second = np.uint64(0)
    count = 0
    for point in range(begin, end + 2):
        third = np.uint64(points[point]) if point < end else np.uint64(0)
        key = first << np.uint64(42) | second << np.uint64(21) | third
        buckets[count] = np.int32(key * _MULTIPLIER >> _SHIFT)
        first, second = second, third
        count += 1
    chosen = buckets[:count]
    if count > 64:
        chosen.sort()
    else:
        for i in range(1, count):
            value = chosen[i]
            j = i
            while j > 0 and chosen[j - 1] > value:
                chosen[j] = chosen[j - 1]
                j -= 1
            chosen[j] = value
    distinct = 0
    for i in range(count):
        if i == 0 or chosen[i] != chosen[i - 1]:
            chosen[distinct] = chosen[i]
            distinct += 1
    return distinct


@jit
def count_buckets(points, ends, counts):
    """Add to the counts of buckets those of texts that end at `ends`."""
    buckets = np.empty(len(points) + 2, np.int32)
    begin = START
    for end in ends:
        for i in range(buckets_of(points, begin, end, buckets)):
            counts[buckets[i]] += 1
        begin = end


@jit
def weigh(points, ends, idf, weights):
    """The idf of the buckets of each text together."""
    buckets = np.empty(len(points) + 2, np.int32)
    begin = START
    for text in range(len(ends)):
        total = 0.0
        for i in range(buckets_of(points, begin, ends[text], buckets)):
            total += idf[buckets[i]]
        weights[text] = total
        begin = ends[text]


@jit
def fill_postings(points, ends, first, free, post):
    """Put the number of each text, from `first` on, into the lists of its buckets, at their first `free` place."""
    buckets = np.empty(len(points) + 2, np.int32)
    begin = START
    for text in range(len(ends)):
        for i in range(buckets_of(points, begin, ends[text], buckets)):
            post[free[buckets[i]]] = first + text
            free[buckets[i]] += 1
        begin = ends[text]


@jit
def renumber(start, post, number):
    """Give the names in all lists their new numbers, and sort each list."""
    for bucket in range(len(start) - 1):
        names = post[start[bucket] : start[bucket + 1]]
        for i in range(len(names)):
            names[i] = number[names[i]]
        names.sort()


@jit
def lower(table, low, high, key):
    """First place of a rising list, between two places, whose value is at least a key."""
    while low < high:
        middle = (low + high) >> 1
        if table[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _known_lists(buckets, count, start, idf, begins, ends, weights, behind):
    """Lists of a text's buckets, rarest first, and the weight of each and all behind; how many, the text's weight."""
    lists, total = 0, 0.0
    for i in range(count):
        bucket = buckets[i]
        weight = idf[bucket]
        total += weight
        if start[bucket + 1] == start[bucket]:
            continue
        j = lists
        while j > 0 and weights[j - 1] < weight:
            begins[j], ends[j], weights[j] = begins[j - 1], ends[j - 1], weights[j - 1]
            j -= 1
        begins[j], ends[j], weights[j] = start[bucket], start[bucket + 1], weight
        lists += 1
    behind[lists] = 0.0
    for i in range(lists - 1, -1, -1):
        behind[i] = behind[i + 1] + weights[i]
    return lists, total


@jit
def _put(score, k, filled, best):
    """Put a likeness among the k best, falling; how many there are now."""
    if filled < k:
        filled += 1
    elif score <= best[k - 1]:
        return filled
    at = filled - 1
    while at > 0 and best[at - 1] < score:
        best[at] = best[at - 1]
        at -= 1
    best[at] = score
    return filled


@jit
def most_alike(points, ends, start, post, weight, idf, k, least):
    """The names that share most with each text that ends at `ends`: numbers, likenesses, and where each text's end.

    The first end is `DAMAGE` where the arrays do not fit one another.

    Names are numbered by rising weight. Blocks of them are read from the weight that is known of the text outwards,
    until no name beyond can be as alike as the k-th best is. In a block, a name of the likeness that is needed has some
    of the first lists, the rarest ones: those are added up, and what may still be enough is looked for in the others,
    list by list.
    """
    longest, begin = 0, START
    for end in ends:
        longest = max(longest, end - begin)
        begin = end
    buckets = np.empty(longest + 2, np.int32)
    begins, lasts = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    lows, highs = np.empty(longest + 2, np.int64), np.empty(longest + 2, np.int64)
    weights, behind = np.empty(longest + 2), np.empty(longest + 3)
    best = np.empty(k)
    block = min(_GREATEST_BLOCK, len(weight))
    shared, candidates = np.empty(0, np.float32), np.empty(0, np.int32)
    names, scores = np.empty(16 + len(ends) * k, np.int32), np.empty(16 + len(ends) * k)
    last_of = np.empty(len(ends), np.int64)
    filled, begin = 0, START
    for text in range(len(ends)):
        count = buckets_of(points, begin, ends[text], buckets)
        begin = ends[text]
        mine = filled
        lists, text_weight = _known_lists(buckets, count, start, idf, begins, lasts, weights, behind)
        known_weight, of_best = behind[0], START
        needed = least
        if known_weight >= least / (2 - least) * text_weight:
            if not len(shared):
                shared, candidates = np.zeros(block, np.float32), np.empty(block, np.int32)
            low = high = lower(weight, START, len(weight), known_weight)
            down = up = _FIRST_BLOCK
            while True:
                # Of a weight below what is known of the text, a name shares at most its own; above it, what is known.
                below = 2.0 * weight[low - 1] / (text_weight + weight[low - 1]) if low > 0 else -1.0
                above = 2 * known_weight / (text_weight + weight[high]) if high < len(weight) else -1.0
                if max(below, above) < needed - TIE:
                    break
                if below >= above:
                    first, last = max(0, low - down), low
                    low, down = first, min(2 * down, _GREATEST_BLOCK)
                else:
                    first, last = high, min(len(weight), high + up)
                    high, up = last, min(2 * up, _GREATEST_BLOCK)
                enough = (needed - TIE) / 2 * (text_weight + weight[first])
                read = total = 0
                while read < lists and behind[read] >= enough:
                    lows[read] = lower(post, begins[read], lasts[read], first)
                    highs[read] = lower(post, lows[read], lasts[read], last)
                    for posting in range(lows[read], highs[read]):
                        at = np.uintp(post[posting] - first)
                        if at >= last - first:  # files of strangers: compiled code writes wherever it is told
                            last_of[0] = DAMAGE
                            return names[:0], scores[:0], last_of
                        shared[at] += weights[read]
                    total += highs[read] - lows[read]
                    read += 1
                beyond = read
                while beyond < min(lists, read + _MORE_LISTS):
                    low_place = lower(post, begins[beyond], lasts[beyond], first)
                    high_place = lower(post, low_place, lasts[beyond], last)
                    if high_place - low_place > _LONGER * total:
                        break
                    for posting in range(low_place, high_place):
                        at = np.uintp(post[posting] - first)
                        if at >= last - first:
                            last_of[0] = DAMAGE
                            return names[:0], scores[:0], last_of
                        shared[at] += np.float32(weights[beyond]) if shared[at] > 0 else np.float32(0)
                    beyond += 1
                chosen, floor = 0, np.float32(enough - behind[beyond] - TIE)
                for i in range(read):
                    for posting in range(lows[i], highs[i]):
                        at = np.uintp(post[posting] - first)
                        have = shared[at]
                        if have > 0 and have >= floor:  # for the first time, of a name that may be enough
                            candidates[chosen] = at
                            chosen += 1
                            shared[at] = -have
                        elif have > 0:
                            shared[at] = 0
                for i in range(beyond, lists):
                    if not chosen:
                        break
                    low_place = lower(post, begins[i], lasts[i], first)
                    high_place = lower(post, low_place, lasts[i], last)
                    if high_place - low_place < _LOOK_UP * chosen:
                        for posting in range(low_place, high_place):
                            at = np.uintp(post[posting] - first)
                            if at < last - first and shared[at] < 0:
                                shared[at] -= weights[i]
                    else:
                        for j in range(chosen):
                            at = candidates[j]
                            posting = lower(post, low_place, high_place, first + at)
                            if posting < high_place and post[posting] == first + at:
                                shared[at] -= weights[i]
                    remaining = 0
                    for j in range(chosen):
                        at = candidates[j]
                        have, weight_sum = -np.float64(shared[at]), text_weight + weight[first + at]
                        if have + behind[i + 1] >= (needed - TIE) / 2 * weight_sum:
                            candidates[remaining] = at
                            remaining += 1
                            if k == 1:
                                needed = max(needed, 2 * have / weight_sum)
                        else:
                            shared[at] = 0
                    chosen = remaining
                for j in range(chosen):
                    at = candidates[j]
                    score = -2 * np.float64(shared[at]) / (text_weight + weight[first + at])
                    shared[at] = 0
                    if score < needed - TIE:
                        continue
                    of_best = _put(score, k, of_best, best)
                    if of_best == k:
                        needed = max(needed, best[k - 1])
                    if filled == len(names):
                        names = np.append(names, np.empty(filled, np.int32))
                        scores = np.append(scores, np.empty(filled))
                    names[filled], scores[filled] = first + at, score
                    filled += 1
        remaining = mine
        for i in range(mine, filled):
            if scores[i] >= needed - TIE:
                names[remaining], scores[remaining] = names[i], scores[i]
                remaining += 1
        filled = remaining
        last_of[text] = filled
    return names[:filled], scores[:filled], last_of

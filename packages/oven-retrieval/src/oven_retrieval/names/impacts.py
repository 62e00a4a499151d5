"""The inverted index as arrays: which tokens each name holds, and what each adds to the name's BM25 score."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from oven_retrieval.tokens import hash64
from wary_files.durable import FolderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from jaxtyping import Float32, Float64, Int32, Int64, Shaped, UInt64

    from oven_retrieval.folder import Folder

    Scratch = Callable[[str, Any, int], npt.NDArray[Any]]

_Integer = TypeVar("_Integer", np.int64, np.uint64)

K1, B, EPSILON = 1.2, 0.75, 0.25
"""The usual k1 and b; epsilon is rank_bm25's share of the mean idf for tokens in over half the names."""
_BLOCK = 1 << 18
_PAIRS = 1 << 20
_NAMES_AT_ONCE = 1 << 16
DAMAGED = "the index of names is damaged: its arrays do not fit one another; build it again (`oven update --rebuild`)"


def damage_in(path: Path | None, error: FolderError) -> FolderError:
    """Return an error that names the folder where an index of names is damaged; any other error as it is."""
    return FolderError(f"{path}: {DAMAGED}") if path is not None and str(error) == DAMAGED else error


BUCKET_BITS = 17
"""Trigrams of names are hashed to so many bits."""
LENGTHS = 4
"""Upper bounds are kept for names of at least 1, 2, 3 and 4 distinct tokens."""
MOST_TOKENS = 16
"""Queries with more distinct known tokens than this are scored exhaustively: their bounds prune nothing."""


def check_starts(start: Int64[np.ndarray, " n"], postings: int) -> None:
    """Refuse places of lists that do not rise from 0 to the number of postings."""
    if start[0] != 0 or start[-1] != postings or np.any(start[1:] < start[:-1]):
        raise FolderError(DAMAGED)


class Occurrences(NamedTuple):
    """Arrays of V tokens, N names, P (token, name) pairs.

    `token_hash` [V] uint64, sorted; `token` [P] int32, places in `token_hash`, name after name; `length` [N] int32,
    distinct tokens of each name; `repeated` [R] int64, the pairs whose token its name holds more than once, rising;
    `times` [R] int32, how often.

    Every token is in some name.
    """

    token_hash: UInt64[np.ndarray, " V"]
    token: Int32[np.ndarray, " P"]
    length: Int32[np.ndarray, " N"]
    repeated: Int64[np.ndarray, " R"]
    times: Int32[np.ndarray, " R"]

    def name_of_pair(self) -> Int32[np.ndarray, " P"]:
        """Number of the name of each pair, [P]."""
        return np.repeat(np.arange(len(self.length), dtype=np.int32), self.length)

    def full_length(self) -> Float64[np.ndarray, " N"]:
        """Tokens of each name, repeated ones counted each time, [N]."""
        full = self.length.astype(np.float64)
        ends = np.cumsum(self.length, dtype=np.int64)
        np.add.at(full, np.searchsorted(ends, self.repeated, side="right"), self.times - 1)
        return full

    def document_frequency(self) -> Int64[np.ndarray, " V"]:
        """Names that hold each token, [V]."""
        return np.bincount(self.token, minlength=len(self.token_hash))


class Statistics(NamedTuple):
    """What BM25 takes from all names: `idf` of each token [V], and the mean number of tokens of a name."""

    idf: Float64[np.ndarray, " V"]
    mean_length: float


class _Counter:
    """Tokens of names that are read once, in blocks whose vocabularies are forgotten."""

    def __init__(self) -> None:
        self.lengths, self.times = array("i"), dict[int, int]()
        self._vocabulary: dict[str, int] = {}
        self._flat, self._names = array("i"), 0
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._tokens: list[npt.NDArray[np.int32]] = []
        self._before = 0

    def add(self, name: Sequence[str]) -> None:
        """Count one name."""
        distinct = dict.fromkeys(name)
        if len(distinct) != len(name):
            for offset, token in enumerate(distinct):
                count = name.count(token)
                if count > 1:
                    self.times[self._before + len(self._flat) + offset] = count
        number = self._vocabulary
        self._flat.extend([number.setdefault(token, len(number)) for token in distinct])
        self.lengths.append(len(distinct))
        self._names += 1
        if self._names == _NAMES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Hash the block's vocabulary."""
        self._hashes.append(hash64(self._vocabulary))
        self._tokens.append(np.array(self._flat, dtype=np.int32))
        self._before += len(self._flat)
        self._vocabulary, self._flat, self._names = {}, array("i"), 0

    def numbered(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
        """All tokens' hashes, rising, and each pair's place among them."""
        token_hash = distinct(np.concatenate(self._hashes))
        token = np.empty(self._before, dtype=np.int32)
        first = 0
        for hashes, own in zip(self._hashes, self._tokens, strict=True):
            token[first : first + len(own)] = np.searchsorted(token_hash, hashes).astype(np.int32)[own]
            first += len(own)
        return token_hash, token


def distinct(numbers: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Return the distinct numbers, rising: `np.unique` hashes integers, which takes 20 times as long for millions."""
    rising = np.sort(numbers)
    return rising[np.append(True, rising[1:] != rising[:-1])] if len(rising) else rising


def count_tokens(tokens: Iterable[Sequence[str]]) -> Occurrences:
    """Count the tokens of names, which are read once.

    Numerics: holds about 12 bytes per pair, and the vocabulary of 65,536 names as Python texts.
    """
    counter = _Counter()
    for name in tokens:
        counter.add(name)
    counter.flush()
    token_hash, token = counter.numbered()
    return Occurrences(
        token_hash=token_hash,
        token=token,
        length=np.array(counter.lengths, dtype=np.int32),
        repeated=np.fromiter(counter.times.keys(), np.int64, len(counter.times)),
        times=np.fromiter(counter.times.values(), np.int32, len(counter.times)),
    )


class Impacts(NamedTuple):
    """Arrays of the index; V tokens, N names, P (token, name) pairs.

    `token_hash` [V] uint64, sorted; `start` [V+1] where the postings of each token begin; `post_record` [P] the names
    of a token as places in
    `records`, greatest impact first; `post_impact` [P] float32; `bound` [V, 4] float32, greatest impact of a token in
    names of at least
    m distinct tokens; `records` [N+P] int64, name after name: a head, then one cell per distinct token; `owner` [N]
    int32, the entity that has the name; `preference` [N] int32, smaller first among equal scores, each value once.

    A cell of `records` holds two 32-bit numbers, see `unpack`: (number of the name, number of its tokens) in a head,
    (token, impact) after it. All that a name needs to be scored thus lies in one line of the processor's cache.
    """

    token_hash: UInt64[np.ndarray, " V"]
    start: Int64[np.ndarray, " V+1"]
    post_record: Int32[np.ndarray, " P"]
    post_impact: Float32[np.ndarray, " P"]
    bound: Float32[np.ndarray, "V 4"]
    records: Int64[np.ndarray, " N+P"]
    owner: Int32[np.ndarray, " N"]
    preference: Int32[np.ndarray, " N"]

    def check(self) -> None:
        """Refuse arrays of other types or lengths than are written: compiled code reads what it is told."""
        types = ("u8", "i8", "i4", "f4", "f4", "i8", "i4", "i4")
        tokens, pairs, names = len(self.token_hash), len(self.post_record), len(self.owner)
        lengths = (tokens, tokens + 1, pairs, pairs, tokens, names + pairs, names, names)
        for values, kind, length in zip(self, types, lengths, strict=True):
            shape = (length, LENGTHS) if values is self.bound else (length,)
            if values.dtype != np.dtype(kind) or values.shape != shape:
                raise FolderError(DAMAGED)
        check_starts(self.start, pairs)

    @classmethod
    def read(cls, folder: Folder) -> Impacts:
        """Map the arrays of a folder."""
        impacts: Impacts = folder.table("bm25", cls)
        if impacts.bound.shape != (len(impacts.token_hash), LENGTHS):
            raise FolderError(DAMAGED)
        return impacts


def pack(first: Int32[np.ndarray, " n"], second: Shaped[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Put two arrays of 32-bit numbers into the halves of one of 64 bits."""
    cells = np.empty((len(first), 2), dtype=np.int32)
    cells[:, 0], cells[:, 1] = first, second.view(np.int32)
    return cells.view(np.int64)[:, 0]


def unpack(cells: Int64[np.ndarray, " n"]) -> tuple[Int32[np.ndarray, " n"], Int32[np.ndarray, " n"]]:
    """The two halves of each cell."""
    halves = cells.view(np.int32)
    return halves[0::2], halves[1::2]


def okapi_idf(document_frequency: Int64[np.ndarray, " V"], documents: int, epsilon: float) -> Float64[np.ndarray, " V"]:
    """Inverse document frequency of each token, as rank_bm25 defines it, and above 0.

    idf = ln(N - n + 1/2) - ln(n + 1/2). If that is not above 0, it is epsilon times the mean over all tokens; where
    the mean is not above 0 either, as among very few names, epsilon times that of ln(1 + (N - n + 1/2) / (n + 1/2)).

    Source: rank_bm25's BM25Okapi (Trotman, Puurula and Burgess 2014 review the variants).
    """
    n = document_frequency.astype(np.float64)
    idf = np.log(documents - n + 0.5) - np.log(n + 0.5)
    mean = float(np.sum(idf)) / len(idf) if len(idf) else 0.0
    if mean <= 0 and len(idf):
        mean = float(np.mean(np.log1p((documents - n + 0.5) / (n + 0.5))))
    return np.where(idf <= 0, epsilon * mean, idf)


def build_impacts(
    tokens: Iterable[Sequence[str]],
    owners: Int64[np.ndarray, " N"] | None = None,
    preference: Int64[np.ndarray, " N"] | None = None,
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
) -> Impacts:
    """Index names given as token lists, which are read once: `score_occurrences` of `count_tokens`.

    Numerics:
        Memory while building: the vocabulary as Python texts, and about 60 bytes per (token, name) pair.

    Example:
        >>> impacts = build_impacts([["wood", "duck"], ["wood"], ["tea"]])
        >>> impacts.start.tolist()
        [0, 1, 2, 4]
    """
    return score_occurrences(count_tokens(tokens), owners, preference, k1=k1, b=b, epsilon=epsilon)


def score_occurrences(
    names: Occurrences,
    owners: Int64[np.ndarray, " N"] | None = None,
    preference: Int64[np.ndarray, " N"] | None = None,
    *,
    k1: float = K1,
    b: float = B,
    epsilon: float = EPSILON,
    scratch: Scratch | None = None,
    statistics: Statistics | None = None,
) -> Impacts:
    """Score every (token, name) pair and order the postings.

    impact(t, d) = idf(t) tf (k1 + 1) / (tf + k1 (1 - b + b |d| / mean |d|))

    idf and mean |d| are those of the names themselves, or `statistics` of others.

    Numerics:
        Impacts are computed in float64 and kept as float32 (relative error 6e-8). The same names give the same
        impacts to the bit, in whatever order and steps they were put together.
    """
    if not k1 >= 0 or not 0 <= b <= 1:
        raise ValueError(f"k1, b: expected k1 >= 0 and 0 <= b <= 1, got {k1!r}, {b!r}")
    count = len(names.length)
    for label, values in (("owners", owners), ("preference", preference)):
        if values is not None and len(values) != count:
            raise ValueError(f"{label}: expected {count} values, one per name, got {len(values)}")
    full_length = names.full_length()
    if statistics is None:
        idf = okapi_idf(names.document_frequency(), count, epsilon)
        tokens = int(full_length.sum())
        mean_length = tokens / count if tokens else 1.0
    else:
        idf, mean_length = statistics
    make: Scratch = scratch or (lambda _name, dtype, length: np.empty(length, dtype))
    if len(names.token) + count > np.iinfo(np.int32).max:
        raise ValueError(f"tokens: expected at most 2**31 names and tokens together, got {len(names.token) + count}")
    impact: npt.NDArray[np.float32] = make("impact", np.float32, len(names.token))
    records = make("records", np.int64, len(names.token) + count)
    heads = (np.cumsum(names.length, dtype=np.int64) - names.length + np.arange(count)).astype(np.int32)
    repeated, times = names.repeated, names.times
    for first in range(0, count, _BLOCK):
        part = slice(first, min(first + _BLOCK, count))
        length = names.length[part]
        begin = int(heads[first]) - first
        pairs = slice(begin, begin + int(length.sum()))
        low, high = np.searchsorted(repeated, [pairs.start, pairs.stop]).tolist()
        tf = np.ones(pairs.stop - pairs.start)
        tf[repeated[low:high] - pairs.start] = times[low:high]
        norm = np.repeat(k1 * (1 - b + b * full_length[part] / mean_length), length)
        token = names.token[pairs]
        impact[pairs] = idf[token] * tf * (k1 + 1) / (tf + norm)
        records[heads[part]] = pack(np.arange(first, part.stop, dtype=np.int32), length)
        record_index = np.arange(pairs.start, pairs.stop) + np.repeat(np.arange(first, part.stop), length) + 1
        records[record_index] = pack(token, impact[pairs])
    start = np.concatenate([[0], np.cumsum(names.document_frequency())]).astype(np.int64)
    post_record, post_impact, bound = _postings(names, impact, heads, start, make)
    rows = np.arange(count, dtype=np.int32)
    return Impacts(
        token_hash=names.token_hash,
        start=start,
        post_record=post_record,
        post_impact=post_impact,
        bound=bound,
        records=records,
        owner=rows if owners is None else owners.astype(np.int32),
        preference=rows if preference is None else preference.astype(np.int32),
    )


def _postings(
    names: Occurrences,
    impact: npt.NDArray[np.float32],
    heads: npt.NDArray[np.int32],
    start: npt.NDArray[np.int64],
    make: Scratch,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The lists of all tokens, some tokens at a time: places of names, impacts, and their bounds."""
    post_record, post_impact = make("post_record", np.int32, len(impact)), make("post_impact", np.float32, len(impact))
    bound = np.zeros((len(start) - 1, LENGTHS), dtype=np.float32)
    name_of_pair = names.name_of_pair()
    low = 0
    while low < len(start) - 1:
        most = int(start[low]) + max(_PAIRS, len(impact) // 16)
        high = max(low + 1, int(np.searchsorted(start, most, side="right")) - 1)
        chosen = np.flatnonzero((names.token >= low) & (names.token < high))
        chosen = chosen[np.argsort(_falling_within_token(names.token[chosen], impact[chosen]), kind="stable")]
        block = slice(int(start[low]), int(start[high]))
        name = name_of_pair[chosen]
        post_record[block], post_impact[block] = heads[name], impact[chosen]
        bound[low:high] = _bounds(impact[chosen], names.length[name], start[low : high + 1] - start[low])
        low = high
    return post_record, post_impact, bound


def _falling_within_token(token: npt.NDArray[np.int32], impact: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Keys that rise with the token, then fall with the impact: one sort for two, in half the time."""
    bits = impact.view(np.int32)
    rising = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))  # a float's bits, in the order of its value
    return (token.astype(np.int64) << 32) + (np.int64(0x7FFFFFFF) - rising)


def _bounds(
    impact: npt.NDArray[np.float32], length: npt.NDArray[np.int32], start: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Greatest impact of each token over names of at least m distinct tokens, [V, LENGTHS]; 0 without one."""
    bound = np.zeros((len(start) - 1, LENGTHS), dtype=np.float32)
    if len(impact):
        for m in range(LENGTHS):
            bound[:, m] = np.maximum.reduceat(np.where(length > m, impact, np.float32(0)), start[:-1])
    return bound

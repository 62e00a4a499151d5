"""Which tokens each name holds: all that BM25 needs of the names, before any statistics over them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float64, Int32, Int64, UInt64

_BLOCK = 1 << 16


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
        if self._names == _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Hash the block's vocabulary."""
        self._hashes.append(hash64(self._vocabulary))
        self._tokens.append(np.array(self._flat, dtype=np.int32))
        self._before += len(self._flat)
        self._vocabulary, self._flat, self._names = {}, array("i"), 0

    def numbered(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
        """All tokens' hashes, rising, and each pair's place among them."""
        token_hash = np.unique(np.concatenate(self._hashes))
        token = np.empty(self._before, dtype=np.int32)
        first = 0
        for hashes, own in zip(self._hashes, self._tokens, strict=True):
            token[first : first + len(own)] = np.searchsorted(token_hash, hashes).astype(np.int32)[own]
            first += len(own)
        return token_hash, token


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

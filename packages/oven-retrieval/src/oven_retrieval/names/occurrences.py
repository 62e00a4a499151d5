"""Which tokens each name holds: all that BM25 needs of the names, before any statistics over them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..tokens import hash64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..folder import Folder, FolderWriter
    from .impacts import Impacts


class Occurrences(NamedTuple):
    """Arrays of V tokens, N names, P (token, name) pairs.

    `token_hash` [V] uint64, sorted; `token` [P] int32, places in `token_hash`, name after name; `length` [N] int32,
    distinct tokens of each name; `repeated` [R] int64, the pairs whose token its name holds more than once, rising;
    `times` [R] int32, how often.

    Every token is in some name, so equal names give equal statistics whatever way the arrays came about.

    Example:
        >>> both = join(count_tokens([["wood", "wood"]]), count_tokens([["duck"], ["wood"]]))
        >>> both.length.tolist(), both.full_length().tolist(), len(both.token_hash)
        ([1, 1, 1], [2.0, 1.0, 1.0], 2)
        >>> keep(both, np.array([True, False, True])).document_frequency().tolist()
        [2]
    """

    token_hash: npt.NDArray[np.uint64]
    token: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]
    repeated: npt.NDArray[np.int64]
    times: npt.NDArray[np.int32]

    def name_of_pair(self) -> npt.NDArray[np.int32]:
        """Number of the name of each pair, [P]."""
        return np.repeat(np.arange(len(self.length), dtype=np.int32), self.length)

    def full_length(self) -> npt.NDArray[np.float64]:
        """Tokens of each name, repeated ones counted each time, [N]."""
        full = self.length.astype(np.float64)
        np.add.at(full, self.name_of_pair()[self.repeated], self.times - 1)
        return full

    def term_frequency(self) -> npt.NDArray[np.float64]:
        """How often each pair's name holds its token, [P]."""
        frequency = np.ones(len(self.token))
        frequency[self.repeated] = self.times
        return frequency

    def document_frequency(self) -> npt.NDArray[np.int64]:
        """Names that hold each token, [V]."""
        return np.bincount(self.token, minlength=len(self.token_hash))

    def write(self, folder: FolderWriter) -> None:
        """Write what `occurrences_of` cannot read from the impacts."""
        for name in ("length", "repeated", "times"):
            folder.array(f"occurrences_{name}", getattr(self, name))


def _view(values: array[int]) -> npt.NDArray[Any]:
    return np.frombuffer(values, dtype=np.int32) if len(values) else np.zeros(0, np.int32)


def count_tokens(tokens: Iterable[Sequence[str]]) -> Occurrences:
    """Count the tokens of names, which are read once.

    Numerics: holds the vocabulary as Python texts and about 8 bytes per pair.
    """
    vocabulary: dict[str, int] = {}
    flat, lengths = array("i"), array("i")
    times: dict[int, int] = {}  # only of tokens that a name repeats: rare among names
    for name in tokens:
        distinct = dict.fromkeys(name)
        if len(distinct) != len(name):
            for offset, token in enumerate(distinct):
                count = name.count(token)
                if count > 1:
                    times[len(flat) + offset] = count
        flat.extend([vocabulary.setdefault(token, len(vocabulary)) for token in distinct])
        lengths.append(len(distinct))
    hashes = hash64(vocabulary)
    by_hash = np.argsort(hashes, kind="stable")
    number = np.empty(len(hashes), dtype=np.int32)
    number[by_hash] = np.arange(len(hashes), dtype=np.int32)
    return Occurrences(
        token_hash=hashes[by_hash],
        token=number[_view(flat)],
        length=_view(lengths),
        repeated=np.fromiter(times.keys(), np.int64, len(times)),
        times=np.fromiter(times.values(), np.int32, len(times)),
    )


def join(first: Occurrences, second: Occurrences) -> Occurrences:
    """The names of both, one after the other."""
    token_hash = np.union1d(first.token_hash, second.token_hash)
    moved = [np.searchsorted(token_hash, part.token_hash).astype(np.int32)[part.token] for part in (first, second)]
    return Occurrences(
        token_hash,
        np.concatenate(moved),
        np.concatenate([first.length, second.length]),
        np.concatenate([first.repeated, second.repeated + len(first.token)]),
        np.concatenate([first.times, second.times]),
    )


def keep(all_names: Occurrences, names: npt.NDArray[np.bool_]) -> Occurrences:
    """Some of the names, and no token that none of them holds.

    Args:
        all_names: of N names.
        names: [N] which to keep.
    """
    pairs = np.repeat(names, all_names.length)
    token = all_names.token[pairs]
    held = np.zeros(len(all_names.token_hash), dtype=np.bool_)
    held[token] = True
    number = np.cumsum(held, dtype=np.int32) - np.int32(1)
    place = np.cumsum(pairs) - 1
    repeated = pairs[all_names.repeated]
    return Occurrences(
        all_names.token_hash[held],
        number[token],
        all_names.length[names],
        place[all_names.repeated[repeated]],
        all_names.times[repeated],
    )


def occurrences_of(impacts: Impacts, folder: Folder) -> Occurrences:
    """What a name index was built from: its names' tokens, read back from its records."""
    from .impacts import unpack

    length, repeated, times = (folder.array(f"occurrences_{name}") for name in ("length", "repeated", "times"))
    heads = np.cumsum(length + 1, dtype=np.int64) - length - 1
    pairs = np.ones(len(impacts.records), dtype=np.bool_)
    pairs[heads] = False
    return Occurrences(np.asarray(impacts.token_hash), unpack(impacts.records)[0][pairs], length, repeated, times)

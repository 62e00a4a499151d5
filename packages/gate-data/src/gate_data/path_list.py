"""A million paths as one block of bytes: no object of each, which every worker of a loader would copy to count it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from jaxtyping import Int

Item = TypeVar("Item", covariant=True)


class _Packed(Sequence[Item]):
    """Items that are each one text, in order.

    Args:
        blob: all texts, one after another, as the file system has them.
        ends: where each text ends in it ``[n]``.
    """

    __slots__ = ("blob", "ends")

    def __init__(self, blob: bytes, ends: Int[np.ndarray, " n"]) -> None:
        self.blob, self.ends = blob, ends

    def item(self, text: str) -> Item:
        """What stands for a text."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        at = range(len(self))[index]
        start = int(self.ends[at - 1]) if at else 0
        return self.item(os.fsdecode(self.blob[start : int(self.ends[at])]))

    def __iter__(self) -> Iterator[Item]:
        start = 0
        for end in map(int, self.ends):
            yield self.item(os.fsdecode(self.blob[start:end]))
            start = end

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Packed):
            return self.blob == other.blob and np.array_equal(self.ends, other.ends)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash((self.blob, len(self)))

    def __reduce__(self) -> Any:
        return type(self), (self.blob, self.ends)

    def take(self, index: Sequence[int]) -> Any:
        """Those at these positions, in this order."""
        rows = np.asarray(index, dtype=np.int64).reshape(-1)
        starts = np.concatenate([[0], self.ends[:-1]])[rows] if len(self) else rows
        lengths = self.ends[rows] - starts
        ends = np.cumsum(lengths)
        offsets = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        return type(self)(np.frombuffer(self.blob, np.uint8)[offsets].tobytes(), ends)


class PathList(_Packed[str]):
    """Paths.

    Example:
        >>> paths = packed(("a/1.png", "b.png"))
        >>> paths[1], list(paths), len(paths.take([1, 1, 0]))
        ('b.png', ['a/1.png', 'b.png'], 3)
    """

    __slots__ = ()

    def item(self, text: str) -> str:
        """The path."""
        return text


class Stills(_Packed[tuple[str]]):
    """Samples of one file each: the path alone in a tuple, as `gate_data.pictures.Pictures` holds frames."""

    __slots__ = ()

    def item(self, text: str) -> tuple[str]:
        """The path, as the only frame."""
        return (text,)


def packed(files: Sequence[Any]) -> Sequence[Any]:
    """Pack paths, or tuples of one path each; anything else is given back as it is."""
    if isinstance(files, _Packed) or not files:
        return files
    stills = set(map(type, files)) == {tuple}
    if stills and set(map(len, files)) != {1}:  # several frames
        return files
    texts = [file[0] for file in files] if stills else files
    if set(map(type, texts)) != {str}:  # members of archives, rows
        return files
    joined = "\0".join(texts)
    try:
        if joined.count("\0") == len(texts) - 1:  # one call for all
            held = os.fsencode(joined)
            ends = np.append(np.flatnonzero(np.frombuffer(held, np.uint8) == 0), len(held)) - np.arange(len(texts))
            blob = held.replace(b"\0", b"")
        else:  # what no path holds
            encoded = [os.fsencode(text) for text in texts]
            ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
            blob = b"".join(encoded)
    except UnicodeEncodeError:
        return files
    return (Stills if stills else PathList)(blob, ends)

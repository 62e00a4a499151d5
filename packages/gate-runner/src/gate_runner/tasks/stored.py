"""Where the features of one part are kept: in memory, in files under a cap, or nowhere, to be encoded again."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gate_runner.errors import DataError
from vision_adapters.rows import DiskFullError, Rows, RowWriter

if TYPE_CHECKING:
    from gate_runner.benchmarks.maps import Maps
    from gate_runner.benchmarks.pictures import Pictures

_LOG = logging.getLogger(__name__)

IN_MEMORY = 512_000_000
"""Bytes of features that one part holds in memory; what is larger is read from its file when it is needed."""


class EncodedRows:
    """Features that are made whenever they are asked for.

    Args:
        encode: rows of the split, by number, to features.
        count: samples.
        size: samples per call.
    """

    def __init__(self, encode: Callable[[Tensor], Tensor], count: int, size: int) -> None:
        self.encode, self.count, self.size = encode, count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = torch.arange(self.count)[rows] if isinstance(rows, slice) else rows.cpu()
        return torch.cat([self.encode(part).cpu() for part in torch.split(numbers, self.size)])


class IndexedRows:
    """Rows of another source, in another order or several times (one image that many questions are asked about)."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.rows[self.index[rows.cpu() if isinstance(rows, Tensor) else rows]]


@dataclass
class FeatureStore:
    """Keeps what the encoder gave for one part, so that each sample is encoded once, also by a part that was cut.

    Args:
        folder: of the part's files, or None to hold everything in memory.
        cap: bytes that the files may take together; features beyond are encoded again whenever they are needed.
        again: encode again, too, where the disk has no room, instead of failing.
        in_memory: bytes that may be held in memory.
        kept: by name, where each array went: ``"memory"``, ``"disk"`` or ``"encoded again"``.
    """

    folder: Path | None = None
    cap: int = 20_000_000_000
    again: bool = False
    in_memory: int = field(default_factory=lambda: IN_MEMORY)
    kept: dict[str, str] = field(default_factory=dict)
    written: int = 0

    def encoded(
        self,
        name: str,
        count: int,
        size: int,
        encode: Callable[[Tensor], Tensor],
        mark: str,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Rows:
        """Encode all samples in batches, and give them back as rows.

        Args:
            name: of the array, unique in the part.
            count: samples, >= 1.
            size: samples per call.
            encode: sample numbers to features, one row each.
            mark: tells other samples or another encoder apart.
            progress: told how many samples are done.

        Returns:
            The rows, in order.

        Raises:
            DataError: the disk has no room; the message says how much is missing. Or the encoder gave numbers of
                another type than in the first batch, which that one cannot hold.
        """
        first: Tensor | None = None
        writer = (
            None if self.folder is None else RowWriter.left(self.folder / f"{name}.npy", count, f"{mark} by {size}")
        )
        if writer is None:
            first = encode(torch.arange(min(size, count))).cpu()
            if self.folder is None:
                self.kept[name] = "memory"
                return self._in_memory(name, first, count, size, encode, progress)
            total = count * math.prod(first.shape[1:]) * first.element_size()
            if self.written + total > self.cap:
                return self._anew(name, count, size, encode, f"{total / 1e9:.1f} GB do not fit under the cap")
            try:
                path = self.folder / f"{name}.npy"
                writer = RowWriter(path, count, first.shape[1:], first.dtype, f"{mark} by {size}")
            except DiskFullError as error:
                if self.again:
                    return self._anew(name, count, size, encode, str(error.strerror))
                raise DataError(
                    f"features: {error.strerror}; --feature-cache caps them, --encode-again does without"
                ) from error
        while writer.done < count:
            numbers = torch.arange(writer.done, min(writer.done + size, count))
            writer.append(
                first if first is not None and writer.done == 0 else _of_type(writer.dtype, encode(numbers), name)
            )
            progress(writer.done, count)
        stored = writer.finished()
        self.written += stored.nbytes
        if stored.nbytes > self.in_memory:
            self.kept[name] = "disk"
            return stored
        self.in_memory -= stored.nbytes
        self.kept[name] = "memory"
        return stored[:]

    def _in_memory(
        self,
        name: str,
        first: Tensor,
        count: int,
        size: int,
        encode: Callable[[Tensor], Tensor],
        progress: Callable[[int, int], None],
    ) -> Tensor:
        found = torch.empty(count, *first.shape[1:], dtype=first.dtype)
        for numbers in torch.split(torch.arange(count), size):
            start, stop = int(numbers[0]), int(numbers[-1]) + 1
            found[start:stop] = first if start == 0 else _of_type(first.dtype, encode(numbers), name).cpu()
            progress(stop, count)
        return found

    def _anew(self, name: str, count: int, size: int, encode: Callable[[Tensor], Tensor], why: str) -> Rows:
        _LOG.warning("features of %s are encoded again whenever they are needed: %s", name, why)
        self.kept[name] = "encoded again"
        return EncodedRows(encode, count, size)


def _of_type(dtype: torch.dtype, rows: Tensor, name: str) -> Tensor:
    """Rows in the first batch's type, if that holds all of theirs."""
    if rows.dtype != dtype and torch.promote_types(rows.dtype, dtype) != dtype:
        raise DataError(f"features {name}: the encoder gave {rows.dtype} after {dtype} in its first batch")
    return rows.to(dtype)


def mark_of(images: Tensor | Pictures | Maps) -> str:
    """A digest that tells images apart: of all pixels, or of the files' names, sizes and contents.

    Example:
        >>> mark_of(torch.zeros(2, 3, 4, 4)) == mark_of(torch.ones(2, 3, 4, 4))
        False
    """
    digest = hashlib.sha256(str(tuple(images.shape)).encode())
    if isinstance(images, Tensor):
        digest.update(images.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    else:
        images.note_in(digest)
    return digest.hexdigest()

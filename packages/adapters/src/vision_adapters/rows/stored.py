"""Rows in a file: written batch by batch, read through a memory map, and continued where a writer was killed."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DiskFullError(OSError):
    """There is no room for a file of rows; the message says how much is missing.

    Example:
        >>> isinstance(DiskFullError("/features needs 5.0 GB, 1.2 GB are free"), OSError)
        True
    """


class StoredRows:
    """Rows of one shape in a `.npy` file; a batch is copied out of the memory map, which keeps nothing resident.

    Raises:
        ValueError: a file that is no array of numbers with at least one dimension.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
        >>> np.save(path, np.arange(6, dtype=np.float32).reshape(3, 2))
        >>> StoredRows(path)[torch.tensor([2, 0])].tolist()
        [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._array = _mapped_rows(path)

    @property
    def shape(self) -> torch.Size:
        """Rows first."""
        return torch.Size(self._array.shape)

    @property
    def nbytes(self) -> int:
        """Of all rows."""
        return int(self._array.nbytes)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, rows: Any, /) -> Tensor:
        """Copies of the rows of a slice or of a vector of row numbers."""
        chosen = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        loaded = torch.from_numpy(np.array(self._array[chosen]))
        self._let_go()
        return loaded

    def _let_go(self) -> None:
        """Take the pages that were read off this process's memory; the system keeps them cached while it has room."""
        mapped: Any = getattr(self._array, "_mmap", None)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


class RowWriter:
    """Writes rows in order, and goes on after the last whole batch of a writer that was killed.

    The file has its full size from the start, so that a disk without room is found before any work (`DiskFullError`). A
    second file beside it, `<path>.done`, has a line per batch: rows so far and their checksum. `mark` says what the
    rows are of: a file with another mark is written anew.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
        >>> RowWriter(path, 4, (2,), torch.float32, "demo").append(torch.ones(3, 2))
        >>> again = RowWriter(path, 4, (2,), torch.float32, "demo")
        >>> again.append(torch.zeros(4 - again.done, 2))
        >>> again.finished()[torch.tensor([0, 3])].sum(1)
        tensor([2., 0.])
    """

    def __init__(self, path: Path, count: int, shape: Sequence[int], dtype: torch.dtype, mark: str) -> None:
        self.path, self.count, self.shape, self.mark = path, count, tuple(shape), mark
        self._log = path.with_name(f"{path.name}.done")
        self.dtype = dtype
        numbers = torch.empty(0, dtype=dtype).numpy().dtype
        self._row_bytes = int(np.prod(self.shape, dtype=np.int64)) * numbers.itemsize
        header = _header(mark, count, self.shape, numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.done = self._continued(header)
        if self.done == 0:
            self._begin(header, numbers)
        self._offset = int(_mapped_rows(path).offset)

    @classmethod
    def left(cls, path: Path, count: int, mark: str) -> RowWriter | None:
        """The writer of rows that another one began, or None where there are none of this mark.

        Where that one was cut, or killed while it was, ``count`` of the writer is the number of rows that are there.
        """
        log = path.with_name(f"{path.name}.done")
        try:
            array = _mapped_rows(path)
            dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
            header, *lines = _lines_of(path, log)
        except (OSError, ValueError, TypeError):
            return None
        begun, now = (_header(mark, rows, array.shape[1:], array.dtype) + "\n" for rows in (count, len(array)))
        if len(array) > count or header not in (begun, now):
            return None
        if header != now:  # cut in the file, and not yet in the list
            with path.open("r+b") as file:
                file.truncate(int(array.offset) + array.nbytes)
            _exchange(log, "".join([now, *lines]))
        return cls(path, len(array), array.shape[1:], dtype, mark)

    def append(self, rows: Tensor) -> None:
        """Write the next rows."""
        if rows.shape[1:] != self.shape or self.done + len(rows) > self.count:
            raise ValueError(
                f"{self.path.name} holds {self.count} rows of {self.shape}, {self.done} of them written; "
                f"got {tuple(rows.shape)}"
            )
        if rows.dtype != self.dtype:
            raise ValueError(f"{self.path.name} holds {self.dtype} rows, got {rows.dtype}; convert them first")
        # written, not assigned through a memory map: where the disk has no room, that ends the process by a signal
        data = np.ascontiguousarray(rows.detach().cpu().numpy()).reshape(-1).view(np.uint8).data
        try:
            with self.path.open("r+b", buffering=0) as file:
                file.seek(self._offset + self.done * self._row_bytes)
                written = 0
                while written < len(data):
                    written += file.write(data[written:])
            self.done += len(rows)
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"{self.done} {zlib.crc32(data)}\n")
        except OSError as error:
            raise self._without_room(error) from error

    def finished(self) -> StoredRows:
        """The rows, once all are written."""
        if self.done != self.count:
            raise ValueError(f"{self.path.name} has {self.done} of {self.count} rows: append the rest first")
        return StoredRows(self.path)

    def cut(self) -> None:
        """Let the file end behind the rows that were written: no more come."""
        if self.done == self.count:
            return
        _, *lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
        numbers = torch.empty(0, dtype=self.dtype).numpy().dtype
        self.count = self.done
        shape = (self.done, *self.shape)
        header = {"descr": np.lib.format.dtype_to_descr(numbers), "fortran_order": False, "shape": shape}
        with self.path.open("r+b") as file:
            np.lib.format.write_array_header_1_0(file, header)
            assert file.tell() == self._offset  # NumPy leaves room for the number of rows
            file.truncate(self._offset + self.done * self._row_bytes)
        written = _header(self.mark, self.count, self.shape, numbers)
        _exchange(self._log, "".join([f"{written}\n", *lines]))

    def _begin(self, header: str, numbers: np.dtype[Any]) -> None:
        try:
            for old in (self._log, self.path):  # who reads the old rows goes on with them; a link leads elsewhere
                old.unlink(missing_ok=True)
            np.lib.format.open_memmap(self.path, mode="w+", dtype=numbers, shape=(self.count, *self.shape))
            if hasattr(os, "posix_fallocate"):
                with self.path.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, self.path.stat().st_size)
            self._log.write_text(header + "\n", encoding="utf-8")
        except OSError as error:
            raise self._without_room(error) from error

    def _without_room(self, error: OSError) -> OSError:
        """The error, or one that says how much room is missing; the file then makes way."""
        if error.errno not in _FULL:
            return error
        self.path.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        need, free = self.count * self._row_bytes, shutil.disk_usage(self.path.parent).free
        return DiskFullError(
            error.errno,
            f"no room for {self.path.name}: it needs {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free, "
            f"{max(0, need - free) / 1e9:.2f} GB are missing",
            str(self.path.parent),
        )

    def _continued(self, header: str) -> int:
        """Rows of whole batches that an earlier writer left; what lies behind the last of them is written again."""
        try:
            first, *lines = _lines_of(self.path, self._log)
            array = _mapped_rows(self.path)
        except (OSError, ValueError):
            return 0
        if first != header + "\n" or array.shape != (self.count, *self.shape):
            return 0
        done, batches = 0, [first]
        for line in lines:
            end, _, checksum = line.rstrip("\n").partition(" ")
            if not (line.endswith("\n") and end.isdecimal() and len(end) < 20 and done < int(end) <= self.count):
                break
            if (
                str(zlib.crc32(np.ascontiguousarray(array[done : int(end)]).reshape(-1).view(np.uint8).data))
                != checksum
            ):
                break
            done = int(end)
            batches.append(line)
        if len(batches) <= len(lines):  # a whole file is left alone: others may read it now
            os.truncate(self._log, len("".join(batches).encode()))
        return done


def mapped(path: Path) -> np.memmap[Any, Any]:
    """An array in a file, not read yet; what else lies there, a pipe or a pickle, is a ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file")
    try:
        array: np.memmap[Any, Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # NumPy raises errors of every kind over a broken header, those of tokens among them
        raise ValueError(f"{path} holds no array: {error}") from error
    return array


def _mapped_rows(path: Path) -> np.memmap[Any, Any]:
    array = mapped(path)
    if array.ndim == 0 or array.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {array.dtype} of shape {array.shape}, expected rows of numbers")
    return array


def _lines_of(path: Path, log: Path) -> list[str]:
    """What a writer noted of its batches; a ValueError where it wrote none, or where one of the two is a link."""
    if path.is_symlink() or log.is_symlink() or not log.is_file():
        raise ValueError(f"{log} is no file of a writer")
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    if not lines:
        raise ValueError(f"{log} is empty")
    return lines


def _exchange(log: Path, text: str) -> None:
    """Write a list in place of another, so that a kill leaves one of the two."""
    beside = log.with_name(f"{log.name}.new")
    beside.unlink(missing_ok=True)  # which may be a link
    beside.write_text(text, encoding="utf-8")
    beside.replace(log)


def _header(mark: str, count: int, shape: Sequence[int], numbers: np.dtype[Any]) -> str:
    return f"{mark} {count} {tuple(shape)} {numbers}".replace("\n", " ")

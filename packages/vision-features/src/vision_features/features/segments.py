"""Finished segments of features on disk: which rows lie where, and whether they are those that were written."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vision_adapters.rows import Rows, RowWriter, StoredRows
from vision_adapters.rows.stored import mapped
from vision_features.features.inputs import WIDTH, Digests
from vision_features.features.unfinished import files_in, note


class SegmentRows:
    """Rows that lie in several files: the segment and the place in it of each."""

    def __init__(self, segments: Mapping[int, StoredRows], segment: Tensor, offset: Tensor) -> None:
        self.segments, self.segment, self.offset = segments, segment, offset

    def __len__(self) -> int:
        return len(self.segment)

    def __getitem__(self, rows: Any, /) -> Tensor:
        chosen = rows.cpu() if isinstance(rows, Tensor) else rows
        segment, offset = self.segment[chosen], self.offset[chosen]
        gathered: Tensor | None = None
        for number in set(segment.tolist()):
            inside = segment == number
            part = self.segments[number][offset[inside]]
            if gathered is None:
                gathered = part.new_empty(len(segment), *part.shape[1:])
            gathered[inside] = part
        return next(iter(self.segments.values()))[:0] if gathered is None else gathered

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        stored = self.segments[int(self.segment[0])]
        return stored.nbytes // len(stored)

    def lean(self) -> Rows:
        """The file itself, where it holds these rows in this order and no others."""
        stored = self.segments[int(self.segment[0])]
        same = bool((self.segment == self.segment[0]).all()) and len(stored) == len(self)
        return stored if same and torch.equal(self.offset, torch.arange(len(self))) else self


def make_room(root: Path, most: int) -> bool:
    """Remove the segments that were not used longest until all below a folder takes so many bytes; whether it does.

    Segments that a process writes now count, and stay.
    """
    segments = [files for folder in root.glob("*/*") if folder.is_dir() for files in files_in(folder)]
    by_age = sorted((*files.used(), files) for files in segments)
    occupied = sum(size for _, size, _ in by_age)
    for _, size, files in by_age:
        if occupied <= most:
            break
        if files.remove():
            occupied -= size
    return occupied <= most


_READ: dict[str, tuple[tuple[int, int, int], Digests]] = {}
"""Digests that this process has read, with the file's size, time and inode: a cache may have thousands of segments."""
_SMALL = 2**20
"""Bytes of a file of digests up to which it is read at once."""


def _digests_of(file: str) -> Digests:
    """The digests of a segment's rows; a ValueError where a file holds no vector of them, or is none."""
    about = os.stat(file)  # noqa: PTH116 - of thousands
    stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
    stored = _READ.get(file)
    if stored is not None and stored[0] == stamp:
        return stored[1]
    digests = _plainly_read(file) if stat.S_ISREG(about.st_mode) and about.st_size <= _SMALL else None
    if digests is None:
        digests = np.array(mapped(Path(file)))
    if digests.ndim != 1 or digests.dtype != f"S{WIDTH}":
        raise ValueError(f"{file} holds {digests.dtype} of shape {digests.shape}, expected digests")
    _READ[file] = stamp, digests
    return digests


def _plainly_read(file: str) -> Digests | None:
    """The digests of a file that begins as `numpy.save` writes it, whose header needs no parsing; None of any other."""
    with open(file, "rb") as opened:  # noqa: PTH123 - of thousands
        content = opened.read(_SMALL + 1)
    count = max(0, len(content) - _HEADER) // WIDTH
    header = _header(count)
    if len(content) != len(header) + count * WIDTH or not content.startswith(header):
        return None
    return np.frombuffer(content, f"S{WIDTH}", count, len(header))


_HEADER = 128
"""Bytes of NumPy's header of a vector of digests."""


@lru_cache(maxsize=1024)
def _header(count: int) -> bytes:
    buffer = io.BytesIO()
    about = {"descr": f"|S{WIDTH}", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


def _segments_in(folder: Path) -> list[str]:
    """Files of digests of a folder, sorted; none where it is not there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith(".digests.npy"))
    except (FileNotFoundError, NotADirectoryError):
        return []


_SOUND: dict[Path, tuple[int, int, int]] = {}
"""Files of rows whose checksums this process has compared: size, time and inode."""


class SegmentStore:
    """The finished segments of one encoder and one kind of feature."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: list[str] = []
        self.segments: dict[int, StoredRows] = {}
        listed: list[Digests] = []
        for file in _segments_in(path):
            try:
                listed.append(_digests_of(file))
                self.files.append(file)
            except FileNotFoundError:  # another process made room
                continue
            except (OSError, ValueError):
                with contextlib.suppress(OSError):  # a folder stays, and its name is said when it is in the way
                    Path(file).unlink(missing_ok=True)
        lengths = [len(digests) for digests in listed]
        self.digests = np.concatenate(listed) if listed else np.empty(0, f"S{WIDTH}")
        self.segment = np.repeat(np.arange(len(listed)), lengths)
        self.offset = np.concatenate([np.arange(length) for length in lengths]) if listed else np.empty(0, int)
        self.sorted = np.argsort(self.digests, kind="stable")

    @classmethod
    def sound(cls, path: Path, digests: Digests) -> SegmentStore:
        """The segments of a folder, of which those that hold these digests are open and whole.

        A segment's rows are compared with their checksums once in a process; what is sound of a damaged one is kept.
        """
        while True:
            store = cls(path)
            numbers = store._find(digests)
            damaged = [
                number for number in np.unique(store.segment[numbers[numbers >= 0]]) if not store._open(int(number))
            ]
            if not damaged:
                return store
            for number in damaged:  # unfinished again: its writer goes on after the last batch that is sound
                file = Path(store.files[number])
                written = store.digests[store.segment == number].tolist()
                part = file.with_name(file.name.replace(".digests.npy", ".part"))
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)  # which may be a link
                    note(part, 0, written)
                file.unlink(missing_ok=True)

    def _open(self, number: int) -> bool:
        """Open a segment; False where its rows are not those that were written."""
        file = Path(self.files[number])
        rows = file.with_name(file.name.replace(".digests.npy", ".npy"))
        count = int((self.segment == number).sum())
        try:
            about = rows.stat()
            stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
            if _SOUND.get(rows) != stamp:
                writer = RowWriter.left(rows, count, rows.stem)
                if writer is None or writer.done < count:
                    return False
                _SOUND[rows] = stamp
            self.segments[number] = StoredRows(rows)
        except (OSError, ValueError):
            return False
        return True

    def _find(self, digests: Digests) -> np.ndarray[Any, Any]:
        """The number of each digest's row among all, -1 where it is not there."""
        if not len(self.digests):
            return np.full(len(digests), -1)
        at = np.searchsorted(self.digests, digests, sorter=self.sorted).clip(max=len(self.digests) - 1)
        numbers = self.sorted[at]
        return np.where(self.digests[numbers] == digests, numbers, -1)

    def holds(self, digest: bytes) -> bool:
        """Whether there is a row of a digest."""
        return bool(self._find(np.array([digest], f"S{WIDTH}"))[0] >= 0)

    def missing(self, digests: Digests) -> np.ndarray[Any, Any]:
        """The numbers of the digests that have no row."""
        return np.flatnonzero(self._find(digests) < 0)

    def rows(self, digests: Digests) -> SegmentRows:
        """The rows of digests, all of which are there; their segments count as used now."""
        numbers = self._find(digests)
        used = np.unique(self.segment[numbers])
        for number in used:
            with contextlib.suppress(
                OSError
            ):  # another process made room, or the disk can only be read: rows stay open
                os.utime(self.files[number])
        segment, offset = torch.from_numpy(self.segment[numbers]), torch.from_numpy(self.offset[numbers])
        return SegmentRows(self.segments, segment, offset)

"""The one store of what encoders give: addressed by the content that was encoded, under a cap, safe to share.

Everything that encodes asks here: seeds, shots, benchmarks on the same pictures, and ``adapt``. A row is known by the
encoder (its weights, its transform and what it gave on probes), the kind of feature and the digest of what was encoded.
What is encoded together is one segment: a file of rows beside a file of their digests. The digests are written last: a
segment without them is unfinished and is continued. The segments that were not used longest make room for new ones.

Rows that were encoded in other batches differ in their last digits, as sums in another order do.

The file is long: a row's address, its segment and the room that it takes are one idea, no part of which is used alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from gate_data.maps import Maps
from gate_data.pictures import Pictures
from gate_runner.encoders.outputs import agree
from gate_runner.errors import DataError
from gate_runner.files import write
from vision_adapters.rows import DiskFullError, Rows, RowWriter, StoredRows

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

_LOG = logging.getLogger(__name__)

IN_MEMORY = 512_000_000
"""Bytes of features that one unit holds in memory; what is larger is read from its file when it is needed."""
_FORMAT = "features/1"
_WIDTH = 16
"""Bytes of a digest."""

Digests = np.ndarray[Any, np.dtype[np.bytes_]]
"""One digest of `_WIDTH` bytes for each thing that is encoded, ``[n]``."""
Encode = Callable[[Tensor], Tensor]
"""Row numbers to their features, one row each."""


def cache_folder() -> Path:
    """Where features lie: below ``GATE_RUNNER_CACHE``, else ``XDG_CACHE_HOME``, else ``~/.cache``.

    Example:
        >>> cache_folder().parts[-2:]
        ('gate-runner', 'features')
    """
    home = os.environ.get("GATE_RUNNER_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "gate-runner" / "features"


def digests_of(inputs: Tensor | Pictures | Maps | Sequence[str]) -> Digests:
    """What tells each input apart: pixels in memory, the content of files with how they are read, or texts.

    Raises:
        DataError: a file cannot be read; the message names it.

    Example:
        >>> len(set(digests_of(torch.zeros(3, 3, 4, 4, dtype=torch.uint8)).tolist()))
        1
    """
    if isinstance(inputs, Tensor):
        rows = inputs.cpu().contiguous()
        about = f"{rows.dtype} {tuple(rows.shape[1:])} ".encode()
        found = [_digest(about, row.reshape(-1).view(torch.uint8).numpy().data) for row in rows]
    elif isinstance(inputs, Pictures | Maps):
        how = {option.name: getattr(inputs, option.name) for option in fields(inputs) if option.name != "files"}
        about = f"{how} {tuple(inputs.shape[1:])}".encode()
        found = [_digest(about, content) for content in inputs.contents]
    else:
        found = [_digest(b"text ", text.encode("utf-8", "surrogatepass")) for text in inputs]
    return np.array(found, dtype=f"S{_WIDTH}")


def _digest(*parts: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=_WIDTH)
    for part in parts:
        digest.update(part)
    return digest.digest()


class EncodedRows:
    """Features that are made whenever they are asked for.

    Args:
        encode: rows of the split, by number, to features.
        count: samples.
        size: samples per call.

    Example:
        >>> EncodedRows(lambda rows: rows[:, None].float(), 5, 2)[torch.tensor([4, 0])].tolist()
        [[4.0], [0.0]]
    """

    def __init__(self, encode: Encode, count: int, size: int) -> None:
        self.encode, self.count, self.size = encode, count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = torch.arange(self.count)[rows] if isinstance(rows, slice) else rows.cpu()
        return torch.cat([self.encode(part).cpu() for part in torch.split(numbers, self.size)])


class IndexedRows:
    """Rows of another source, in another order or several times (one image that many questions are asked about).

    Example:
        >>> IndexedRows(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 1, 0]))[torch.tensor([0, 2])].tolist()
        [[2.0], [1.0]]
    """

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.rows[self.index[rows.cpu() if isinstance(rows, Tensor) else rows]]


class _SegmentRows:
    """Rows that lie in several files: the segment and the place in it of each."""

    def __init__(self, segments: Mapping[int, StoredRows], segment: Tensor, place: Tensor) -> None:
        self.segments, self.segment, self.place = segments, segment, place

    def __len__(self) -> int:
        return len(self.segment)

    def __getitem__(self, rows: Any, /) -> Tensor:
        chosen = rows.cpu() if isinstance(rows, Tensor) else rows
        segment, place = self.segment[chosen], self.place[chosen]
        gathered: Tensor | None = None
        for number in set(segment.tolist()):
            here = segment == number
            part = self.segments[number][place[here]]
            if gathered is None:
                gathered = part.new_empty(len(segment), *part.shape[1:])
            gathered[here] = part
        return next(iter(self.segments.values()))[:0] if gathered is None else gathered


@dataclass
class FeatureCache:
    """Features of one encoder, each encoded once.

    Args:
        folder: of the encoder, below `cache_folder` or a run folder; None holds everything in memory.
        cap: bytes that all files below the folder's parent may take together.
        again: encode again whenever they are needed, too, where the disk has no room, instead of failing.
        in_memory: bytes that may be held in memory.
        placed: by name, where each array went: ``"memory"``, ``"disk"`` or ``"encoded again"``.
        encoded: rows of each kind that were encoded.
        reused: rows of each kind that were there.

    Example:
        >>> import tempfile
        >>> texts = digests_of(["a", "b", "a"])
        >>> folder = Path(tempfile.mkdtemp()) / "encoder"
        >>> for name in ("first", "second"):
        ...     cache = FeatureCache(folder)
        ...     rows = cache.rows(name, "text", texts, 2, lambda numbers: numbers[:, None].float())
        >>> rows[:].tolist(), cache.encoded["text"]
        ([[0.0], [1.0], [0.0]], 0)
    """

    folder: Path | None = None
    cap: int = 20_000_000_000
    again: bool = False
    in_memory: int = field(default_factory=lambda: IN_MEMORY)
    placed: dict[str, str] = field(default_factory=dict)
    encoded: Counter[str] = field(default_factory=Counter)
    reused: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls, encoder: Encoder, fingerprint: str | None, *, root: Path | None = None, cap: int = 20_000_000_000
    ) -> FeatureCache:
        """The cache of an encoder, in memory where its weights cannot be seen: nobody could tell whose they are.

        Args:
            encoder: probed, as it is before anything is trained.
            fingerprint: of its weights, or None.
            root: folder of all encoders' features; `cache_folder` by default.
            cap: see `FeatureCache`.
        """
        from gate_runner.encoders.probe import probe

        if fingerprint is None:
            return cls()
        about = (encoder.spec, fingerprint, encoder.image_size, encoder.mean, encoder.std, encoder.device.type)
        key = _digest(f"{_FORMAT} {about}".encode()).hex()
        outputs = encoder.outputs or probe(encoder)
        for number in itertools.count():  # the same weights behind other code are another encoder
            folder = (root or cache_folder()) / (f"{key}-{number}" if number else key)
            try:
                if agree(json.loads((folder / "encoder.json").read_text())["outputs"], outputs):
                    return cls(folder, cap)
            except (OSError, ValueError, KeyError, TypeError):
                card = {"spec": encoder.spec, "fingerprint": fingerprint, "outputs": outputs}
                try:
                    write(folder / "encoder.json", (json.dumps(card) + "\n").encode())
                except OSError as error:
                    _LOG.warning("features are not kept: %s", error)
                    return cls()
                return cls(folder, cap)
        raise AssertionError("unreachable")

    def rows(
        self,
        name: str,
        kind: str,
        digests: Digests,
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Rows:
        """Features of all inputs, in their order; what is not there is encoded in batches.

        Args:
            name: of the array, in messages.
            kind: of feature, which with the encoder and a digest tells rows apart.
            digests: of the inputs, n >= 1; equal ones are encoded once.
            size: inputs per call.
            encode: input numbers to features.
            progress: told how many inputs are done.

        Raises:
            DataError: the disk has no room; the message says how much is missing. Or the encoder gave another type of
                numbers than in the first batch, which cannot hold them.
        """
        rank: dict[bytes, int] = {}
        index = torch.tensor([rank.setdefault(digest, len(rank)) for digest in digests.tolist()])
        numbers = torch.full((len(rank),), len(digests)).scatter_reduce(0, index, torch.arange(len(index)), "amin")

        def encode_unique(rows: Tensor) -> Tensor:
            self.encoded[kind] += len(rows)
            return encode(numbers[rows]).cpu()

        rows = self._unique_rows(name, kind, digests[numbers.numpy()], size, encode_unique, progress)
        return rows if len(rank) == len(digests) else IndexedRows(rows, index)

    def _unique_rows(
        self,
        name: str,
        kind: str,
        digests: Digests,
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None],
    ) -> Rows:
        if self.folder is None:
            first = encode(torch.arange(min(size, len(digests))))
            return self._held(name, first, len(digests), size, encode, progress)
        shelf = _Shelf.sound(self.folder / kind, digests)
        missing = shelf.missing(digests)
        self.reused[kind] += len(digests) - len(missing)
        if len(missing):
            segment = _digest(f"{size} ".encode(), digests[missing].tobytes()).hex()
            shelf.path.mkdir(parents=True, exist_ok=True)
            with FileLock(shelf.path / f"{segment}.lock"):  # who wants the same waits, and finds it
                shelf = _Shelf.sound(self.folder / kind, digests)
                missing = shelf.missing(digests)
                if len(missing):
                    kept = self._write(name, shelf, segment, digests, missing, size, encode, progress)
                    if kept is not None:
                        return kept
                    shelf = _Shelf.sound(self.folder / kind, digests)
        rows = shelf.rows(digests)
        needed = len(rows) * rows.row_bytes
        if needed > self.in_memory:
            self.placed[name] = "disk"
            return rows.lean()
        self.in_memory -= needed
        self.placed[name] = "memory"
        held: Tensor = rows.lean()[:]
        return held

    def _write(
        self,
        name: str,
        shelf: _Shelf,
        segment: str,
        digests: Digests,
        missing: np.ndarray[Any, Any],
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None],
    ) -> Rows | None:
        """Encode what is missing into a segment; rows that could not be kept are given back instead."""
        path, numbers, count = shelf.path / f"{segment}.npy", torch.from_numpy(missing), len(digests)
        known = count - len(missing)
        first: Tensor | None = None
        writer = RowWriter.left(path, len(missing), segment)
        if writer is None:
            first = encode(numbers[:size])
            needed = len(missing) * math.prod(first.shape[1:]) * first.element_size()
            if not self._room_for(needed):
                why = f"{needed / 1e9:.1f} GB do not fit under the cap of {self.cap / 1e9:.1f} GB"
                return self._without_disk(name, None if known else first, count, size, encode, progress, why)
            try:
                writer = RowWriter(path, len(missing), first.shape[1:], first.dtype, segment)
            except DiskFullError as error:
                if not self.again:
                    raise DataError(
                        f"features: {error.strerror}; --feature-cache caps them, --encode-again does without"
                    ) from error
                return self._without_disk(
                    name, None if known else first, count, size, encode, progress, str(error.strerror)
                )
        while writer.done < len(missing):
            batch = numbers[writer.done : writer.done + size]
            rows = first if first is not None and writer.done == 0 else encode(batch)
            writer.append(_of_type(writer.dtype, rows, name))
            progress(known + writer.done, count)
        writer.finished()
        shelf.finish(segment, digests[missing])
        return None

    def _without_disk(
        self,
        name: str,
        first: Tensor | None,
        count: int,
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None],
        why: str,
    ) -> Rows:
        """Rows in memory while they fit there, else made whenever they are asked for."""
        first = encode(torch.arange(min(size, count))) if first is None else first
        if count * math.prod(first.shape[1:]) * first.element_size() <= self.in_memory:
            return self._held(name, first, count, size, encode, progress)
        _LOG.warning("features of %s are encoded again whenever they are needed: %s", name, why)
        self.placed[name] = "encoded again"
        return EncodedRows(encode, count, size)

    def _held(
        self,
        name: str,
        first: Tensor,
        count: int,
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None],
    ) -> Tensor:
        rows = torch.empty(count, *first.shape[1:], dtype=first.dtype)
        for numbers in torch.split(torch.arange(count), size):
            start, stop = int(numbers[0]), int(numbers[-1]) + 1
            rows[start:stop] = first if start == 0 else _of_type(first.dtype, encode(numbers), name)
            progress(stop, count)
        if self.folder is not None:
            self.in_memory -= rows.nbytes
        self.placed[name] = "memory"
        return rows

    def _room_for(self, needed: int) -> bool:
        """Whether so many bytes fit under the cap, after the segments that were not used longest made room."""
        assert self.folder is not None
        if needed > self.cap:
            return False
        segments = sorted(_segments_below(self.folder.parent), key=lambda one: one[0])
        taken = sum(size for _, size, _ in segments)
        for _, size, digests in segments:
            if taken + needed <= self.cap:
                break
            for end in (".digests.npy", ".npy", ".npy.done", ".lock"):
                digests.with_name(digests.name.removesuffix(".digests.npy") + end).unlink(missing_ok=True)
            taken -= size
        return taken + needed <= self.cap


def _segments_below(root: Path) -> Iterator[tuple[float, int, Path]]:
    """When each finished segment was last used, its bytes, and the file of its digests."""
    for digests in root.glob("*/*/*.digests.npy"):
        try:
            rows = digests.with_name(digests.name.replace(".digests.npy", ".npy"))
            yield digests.stat().st_mtime, digests.stat().st_size + rows.stat().st_size, digests
        except FileNotFoundError:  # another process made room
            continue


def _of_type(dtype: torch.dtype, rows: Tensor, name: str) -> Tensor:
    """Rows in the type of the first batch, where that loses nothing."""
    if rows.dtype != dtype and torch.promote_types(rows.dtype, dtype) != dtype:
        raise DataError(f"features {name}: the encoder gave {rows.dtype} after {dtype}, which cannot hold it")
    return rows.to(dtype)


_SOUND: dict[Path, tuple[int, int, int]] = {}
"""Files of rows whose checksums this process has compared: size, time and inode."""


class _Shelf:
    """The finished segments of one encoder and one kind of feature."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: list[Path] = []
        self.segments: dict[int, StoredRows] = {}
        listed: list[Digests] = []
        for file in sorted(path.glob("*.digests.npy")):
            try:
                listed.append(np.load(file, allow_pickle=False))
                self.files.append(file)
            except FileNotFoundError:  # another process made room
                continue
            except (OSError, ValueError):
                file.unlink(missing_ok=True)
        lengths = [len(digests) for digests in listed]
        self.digests = np.concatenate(listed) if listed else np.empty(0, f"S{_WIDTH}")
        self.segment = np.repeat(np.arange(len(listed)), lengths)
        self.place = np.concatenate([np.arange(length) for length in lengths]) if listed else np.empty(0, int)
        self.sorted = np.argsort(self.digests, kind="stable")

    @classmethod
    def sound(cls, path: Path, digests: Digests) -> _Shelf:
        """The segments of a folder, of which those that hold these digests are open and whole.

        A segment's rows are compared with their checksums once in a process; what is sound of a damaged one is kept.
        """
        while True:
            shelf = cls(path)
            numbers = shelf._find(digests)
            damaged = [
                number for number in np.unique(shelf.segment[numbers[numbers >= 0]]) if not shelf._open(int(number))
            ]
            if not damaged:
                return shelf
            for number in damaged:
                shelf.files[number].unlink(missing_ok=True)

    def _open(self, number: int) -> bool:
        """Open a segment; False where its rows are not those that were written."""
        file = self.files[number]
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

    def missing(self, digests: Digests) -> np.ndarray[Any, Any]:
        """The numbers of the digests that have no row."""
        return np.flatnonzero(self._find(digests) < 0)

    def rows(self, digests: Digests) -> _Found:
        """The rows of digests, all of which are there; their segments count as used now."""
        numbers = self._find(digests)
        used = np.unique(self.segment[numbers])
        for number in used:
            with contextlib.suppress(FileNotFoundError):  # another process made room; the rows are open, and stay
                os.utime(self.files[number])
        segment, place = torch.from_numpy(self.segment[numbers]), torch.from_numpy(self.place[numbers])
        return _Found(self.segments, segment, place)

    def finish(self, segment: str, digests: Digests) -> None:
        """Say that a segment is whole."""
        import io

        buffer = io.BytesIO()
        np.save(buffer, digests)
        write(self.path / f"{segment}.digests.npy", buffer.getvalue())


class _Found(_SegmentRows):
    """Rows that were found, and what one of them takes."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        stored = self.segments[int(self.segment[0])]
        return stored.nbytes // len(stored)

    def lean(self) -> Rows:
        """The file itself, where it holds these rows in this order and no others."""
        stored = self.segments[int(self.segment[0])]
        same = bool((self.segment == self.segment[0]).all()) and len(stored) == len(self)
        return stored if same and torch.equal(self.place, torch.arange(len(self))) else self

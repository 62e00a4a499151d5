"""Images that stay in their files until they are looked at: a data set need not fit into memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from gate_data.errors import DataError
from gate_data.path_list import Stills, packed
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import Fit, Transparency, decode, resized
from gate_data.readers.source import Clip, Cut, Member, Source, Stored, file_of, name_bytes, read_bytes, stamp
from gate_data.remembered import Listing, known_contents, listing_mark, remember_contents
from gate_data.request import Size, height_width
from wary_files.forking import FreshLock
from wary_files.limits import reading

if TYPE_CHECKING:  # whoever only lists files does without torch
    import torch
    from torch import Tensor

_WHOLE, _PIECE = 64_000_000, 1 << 20
"""Bytes up to which an image's file is held to be decoded, and how much of any other is read at a time."""

_HASHING = FreshLock()

Transform = Callable[[Image.Image], UInt8[np.ndarray, "3 h w"]]
"""A model's own way from an image in RGB to the pixels that it takes."""


def readers() -> int:
    """Threads that read and decode: one for each core, or as many as ``GATE_DATA_READERS`` says."""
    named = os.environ.get("GATE_DATA_READERS", "")
    return max(1, min(int(named), cores())) if named.isascii() and named.isdecimal() else cores()


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Looked(NamedTuple):
    """A sample that was read."""

    content: bytes  # a digest of what its files hold
    pixels: UInt8[np.ndarray, "*frames 3 h w"] | None  # None where they were not wanted
    reading: float = 0.0  # seconds of a thread
    decoding: float = 0.0


@dataclass(frozen=True)
class Pictures:
    """Images of one size, read from their files whenever they are indexed."""

    files: Sequence[tuple[Source, ...]]  # of each sample, its frames' in order; one `Clip` for a video file
    side: Size
    fit: Fit = "crop"  # scales the largest middle part of that shape; "whole" scales both sides
    video: bool = False  # samples have a frame axis; all then have the same number of frames
    transparency: Transparency = "white"
    after: Callable[[UInt8[np.ndarray, "3 h w"]], UInt8[np.ndarray, "3 h w"]] | None = None  # of each frame's pixels

    def __post_init__(self) -> None:
        """Keep paths in one piece: as objects, each worker of a loader would copy them."""
        object.__setattr__(self, "files", packed(self.files))

    @classmethod
    def of(
        cls, paths: Sequence[Source | Path], side: Size, fit: Fit = "crop", transparency: Transparency = "white"
    ) -> Pictures:
        """Still images."""
        files = tuple((str(path) if isinstance(path, Path) else path,) for path in paths)
        return cls(files, side, fit, transparency=transparency)

    @property
    def shape(self) -> torch.Size:
        """What indexing all of it would give."""
        import torch

        first = self.files[0] if self.files else ()
        frames = sum(source.frames if isinstance(source, Clip) else 1 for source in first)
        return torch.Size((len(self.files), *([frames] if self.video else []), 3, *height_width(self.side)))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int | slice) -> UInt8[Tensor, "*n 3 h w"]:
        """Read one sample, or those of a slice."""
        import torch

        numbers = range(len(self))[index] if isinstance(index, slice) else [range(len(self))[index]]
        looked = self._looked(numbers, None, None, len(numbers))
        read = [sample.pixels for sample in looked if sample.pixels is not None]
        stacked = torch.from_numpy(np.stack(read)) if read else torch.empty(0, *self.shape[1:], dtype=torch.uint8)
        return stacked if isinstance(index, slice) else stacked[0]

    def decoded(self, index: int) -> list[Image.Image]:
        """Decode one sample's frames, in RGB and upright, of the size that their files have."""
        shown: list[Image.Image] = []
        for source in self.files[index]:
            shown += read_clip(source) if isinstance(source, Clip) else [decode(source, None, self.transparency)]
        return shown

    def stream(
        self,
        numbers: Sequence[int],
        wanted: Callable[[bytes], bool] = lambda content: True,
        transform: Transform | None = None,
        ahead: int = 256,
    ) -> Generator[Looked]:
        """Samples in order, read and decoded by threads that run ahead; a digest is that of the bytes that are decoded.

        ``wanted`` says, in other threads, from a digest of a sample's content whether it is decoded; ``transform``
        stands in place of the cut to ``side`` pixels; ``ahead`` samples may be read before they are asked for.
        """
        is_whole = len(numbers) == len(self) and numbers == range(len(self)) and "contents" not in vars(self)
        mark = self._mark() if is_whole else None
        contents = []
        for looked in self._looked(numbers, wanted, transform, ahead):
            if is_whole:
                contents.append(looked.content)
            yield looked
        if is_whole:
            vars(self)["contents"] = tuple(contents)
            remember_contents(mark, contents)

    def take(self, index: Sequence[int]) -> Pictures:
        """The samples at these positions, in this order; nothing is read."""
        files = self.files.take(index) if isinstance(self.files, Stills) else tuple(self.files[at] for at in index)
        part = replace(self, files=files)
        if "contents" in vars(self):
            vars(part)["contents"] = tuple(self.contents[at] for at in index)
        return part

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every file's folder, name, size and content to a digest."""
        for frames, content in zip(self.files, self.contents, strict=True):
            digest.update(name_bytes(" ".join(map(stamp, frames))) + b" " + content + b"\n")
        if self.transparency != "white":
            digest.update(self.transparency.encode())

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """A digest of what each sample's files hold, with the box where it is a part of an image; read once."""
        remembered = self.known_contents()
        if remembered is not None:
            return remembered
        mark = self._mark()
        contents = tuple(looked.content for looked in self._looked(range(len(self)), lambda _: False, None, 1024))
        remember_contents(mark, contents)
        return contents

    def known_contents(self) -> tuple[bytes, ...] | None:
        """`contents` where no file has to be opened for them: names, sizes and times are those of an earlier reading.

        See `gate_data.remembered.remember_in`.
        """
        if "contents" not in vars(self):
            remembered = known_contents(self._mark(), len(self))
            if remembered is None:
                return None
            vars(self)["contents"] = remembered
        return self.contents

    @property
    def listing(self) -> bytes:
        """A digest of the files' names, sizes and times: it stands for their contents while nobody reads them."""
        return self._listing.digest

    @cached_property
    def _listing(self) -> Listing:
        return listing_mark(self.files)

    def _mark(self) -> bytes | None:
        """The listing, where what is read can be remembered under it."""
        return self._listing.digest if self._listing.settled else None

    def _looked(
        self, numbers: Iterable[int], wanted: Callable[[bytes], bool] | None, transform: Transform | None, ahead: int
    ) -> Generator[Looked]:
        remaining = iter(numbers)
        first = list(islice(remaining, 2))
        if len(first) < 2:  # no threads for one
            for number in first:
                yield self._look(number, wanted, transform)
            return
        with ThreadPoolExecutor(readers(), "gate-data-reader") as pool:
            waiting: deque[Future[Looked]] = deque()
            try:
                for number in (*first, *islice(remaining, max(0, ahead - 2))):
                    waiting.append(pool.submit(self._look, number, wanted, transform))
                while waiting:
                    looked = waiting.popleft().result()
                    for number in islice(remaining, 1):
                        waiting.append(pool.submit(self._look, number, wanted, transform))
                    yield looked
            finally:
                for future in waiting:
                    future.cancel()

    def _look(self, number: int, wanted: Callable[[bytes], bool] | None, transform: Transform | None) -> Looked:
        """Read a sample's files once, and decode them where that is wanted; None makes no digest."""
        frames, content, start = self.files[number], b"", time.perf_counter()
        held: list[bytes | None] = [None] * len(frames)
        if wanted is not None:
            held = [_held(source) for source in frames]
            digest = hashlib.blake2b(digest_size=16)
            for source, data in zip(frames, held, strict=True):
                digest.update(_content(source, data))
            content = digest.digest()
            if not wanted(content):
                return Looked(content, None, time.perf_counter() - start)
        middle = time.perf_counter()
        pixels = np.concatenate(
            [self._read(source, data, transform) for source, data in zip(frames, held, strict=True)]
        )
        if self.after is not None:
            pixels = np.stack([self.after(frame) for frame in pixels])
        shown = pixels if self.video else pixels[0]
        return Looked(content, shown, middle - start, time.perf_counter() - middle)

    def _read(self, source: Source, held: bytes | None, transform: Transform | None) -> UInt8[np.ndarray, "f 3 h w"]:
        side = self.side if transform is None else None
        shown = read_clip(source) if isinstance(source, Clip) else [decode(source, side, self.transparency, held)]
        if transform is not None:
            return np.stack([transform(image) for image in shown])
        pixels = [np.asarray(resized(image, self.side, self.fit)) for image in shown]
        return np.ascontiguousarray(np.stack(pixels).transpose(0, 3, 1, 2))


def content_digest(file: str) -> str:
    """A digest of what a file holds, made once while it does not change."""
    return _of_file(file).hex()


def content_digests(files: Sequence[Source], kind: bytes = b"files") -> tuple[str, ...]:
    """Return a digest of what each file holds; no file is opened that did not change since they were remembered.

    Args:
        files: paths, or places in files, of which each stands for its file.
        kind: what digests of the same list for another purpose are told apart by.
    """
    listing = listing_mark([(source,) for source in files])
    mark = hashlib.blake2b(kind + b" " + listing.digest, digest_size=16).digest() if listing.settled else None
    known = known_contents(mark, len(files))
    if known is not None:
        return tuple(digest.hex() for digest in known)
    digests = tuple(content_digest(file_of(source)) for source in files)
    remember_contents(mark, [bytes.fromhex(digest) for digest in digests])
    return digests


def _of_file(file: str) -> bytes:
    with reading(file):
        about = Path(file).stat()
        with (
            _HASHING if about.st_size > _WHOLE else contextlib.nullcontext()
        ):  # by one thread, whose answer others take
            return _digest_of(file, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)


def _held(source: Source) -> bytes | None:
    """The bytes of a still image's file, to be decoded from memory; None where it is large, or none of these."""
    if isinstance(source, Cut):
        return _held(source.source)
    if isinstance(source, Member):
        return read_bytes(source)
    if not isinstance(source, str):
        return None
    with reading(source):
        size = Path(source).stat().st_size
    return read_bytes(source) if size <= _WHOLE else None


def content_of(source: Source) -> bytes:
    """A digest of what a source's file holds, with the place in it."""
    return _content(source, _held(source))


def _content(source: Source, held: bytes | None) -> bytes:
    if isinstance(source, Cut):
        return _content(source.source, held) + str(source.box).encode()
    if isinstance(source, Clip):
        return content_of(source.source) if isinstance(source.source, Member) else _of_file(source.source)
    if isinstance(source, Member):
        assert held is not None
        return hashlib.blake2b(held, digest_size=16).digest()
    if isinstance(source, str) and held is not None:
        digest = hashlib.blake2b(str(len(held)).encode(), digest_size=16)
        digest.update(held)
        return digest.digest()
    about = _of_file(file_of(source))
    return about + name_bytes(str(source[1:])) if isinstance(source, Stored) else about


@lru_cache(maxsize=4096)  # arrays, of which every row asks
def _digest_of(file: str, size: int, time: int, change: int, inode: int) -> bytes:
    del time, change, inode  # part of the key: a file that changed is read again
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    with Path(file).open("rb") as opened:
        while part := opened.read(_PIECE):
            digest.update(part)
    return digest.digest()


def unreadable(pictures: Pictures) -> list[int]:
    """The samples that cannot be decoded; all are read for it."""
    broken = []
    for index in range(len(pictures)):
        try:
            _ = pictures[index]
        except DataError:
            broken.append(index)
    return broken

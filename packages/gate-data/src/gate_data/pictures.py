"""Images that stay in their files until they are looked at: a data set need not fit into memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from gate_data.errors import DataError
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import Fit, Transparency, decode, square
from gate_data.readers.source import Clip, Cut, Member, Source, Stored, file_of, read_bytes, stamp

_THREADS = min(8, os.cpu_count() or 1)
_WHOLE, _PIECE = 64_000_000, 65_536
"""Bytes up to which a file is read whole for a digest, and how much is read at three places of a larger one."""


@dataclass(frozen=True)
class Pictures:
    """Square images, read from their files whenever they are indexed.

    Args:
        files: of each sample, its frames' files in order; one file for a still image, one `Clip` for a video file.
        side: of the images that come out, in pixels.
        fit: ``"crop"`` scales the shorter side and cuts the middle out; ``"whole"`` scales both sides.
        video: whether samples have a frame axis; all then have the same number of frames.
        transparency: see `decode`.

    Raises:
        DataError: at indexing, for a file that is no image; the message names it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (6, 4), (255, 0, 0)).save(folder / "a.png")
        >>> Pictures.of([folder / "a.png"], side=2)[0:1].shape
        torch.Size([1, 3, 2, 2])
    """

    files: tuple[tuple[Source, ...], ...]
    side: int
    fit: Fit = "crop"
    video: bool = False
    transparency: Transparency = "white"

    @classmethod
    def of(
        cls, paths: Sequence[Source | Path], side: int, fit: Fit = "crop", transparency: Transparency = "white"
    ) -> Pictures:
        """Still images."""
        files = tuple((str(path) if isinstance(path, Path) else path,) for path in paths)
        return cls(files, side, fit, transparency=transparency)

    @property
    def shape(self) -> torch.Size:
        """What indexing all of it would give."""
        frames = (sum(map(_frames, self.files[0] if self.files else ())),) if self.video else ()
        return torch.Size((len(self.files), *frames, 3, self.side, self.side))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int | slice) -> UInt8[Tensor, "*n 3 s s"]:
        """Read one sample, or those of a slice."""
        chosen = self.files[index] if isinstance(index, slice) else (self.files[index],)
        flat = [source for frames in chosen for source in frames]
        if len(flat) > 1:
            with ThreadPoolExecutor(_THREADS) as pool:
                read = list(pool.map(self._read, flat))
        else:
            read = [self._read(source) for source in flat]
        found = (
            torch.from_numpy(np.concatenate(read)) if read else torch.empty(0, 3, self.side, self.side).to(torch.uint8)
        )
        found = found.reshape(len(chosen), *self.shape[1:])
        return found if isinstance(index, slice) else found[0]

    def take(self, index: Sequence[int]) -> Pictures:
        """The samples at these positions, in this order; nothing is read."""
        return replace(self, files=tuple(self.files[at] for at in index))

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every file's folder, name, size and content to a digest; of a large file, parts of its content."""
        for frames, content in zip(self.files, self.contents, strict=True):
            digest.update(" ".join(map(stamp, frames)).encode() + b" " + content + b"\n")
        if self.transparency != "white":
            digest.update(self.transparency.encode())

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """A digest of what each sample's files hold, with the box where it is a part of a picture; read once.

        Raises:
            DataError: a file is missing or damaged; the message names it.
        """
        if len(self.files) < 2:
            return tuple(map(_of_frames, self.files))
        with ThreadPoolExecutor(_THREADS) as pool:
            return tuple(pool.map(_of_frames, self.files, chunksize=64))

    def _read(self, source: Source) -> UInt8[np.ndarray, "f 3 s s"]:
        shown = read_clip(source) if isinstance(source, Clip) else [decode(source, self.side, self.transparency)]
        squares = [np.asarray(square(image, self.side, self.fit)) for image in shown]
        return np.ascontiguousarray(np.stack(squares).transpose(0, 3, 1, 2))


def read_square(path: Path, side: int, fit: Fit = "crop") -> Image.Image:
    """One image, scaled with antialiasing.

    Args:
        path: of the file.
        side: of the result in pixels.
        fit: see `Pictures`.

    Returns:
        An RGB image.

    Raises:
        DataError: the file is missing or no image; the message names it.
    """
    return square(decode(str(path), side), side, fit)


def _frames(source: Source) -> int:
    return source.frames if isinstance(source, Clip) else 1


def content_digest(file: str) -> str:
    """A digest of what a file holds, made once while it does not change.

    Raises:
        DataError: it cannot be read; the message names it.
    """
    return _of_file(file).hex()


def _of_file(file: str) -> bytes:
    try:
        about = Path(file).stat()
        return _digest_of(file, about.st_size, about.st_mtime_ns, about.st_ino)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error


def _of_frames(frames: Sequence[Source]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for source in frames:
        digest.update(_content(source))
    return digest.digest()


def _content(source: Source) -> bytes:
    if isinstance(source, Cut):
        return _content(source.source) + str(source.box).encode()
    if isinstance(source, Clip):
        return _content(source.source)
    if isinstance(source, Member):
        return hashlib.blake2b(read_bytes(source), digest_size=16).digest()
    held = _of_file(file_of(source))
    return held + str(source[1:]).encode() if isinstance(source, Stored) else held


@lru_cache(maxsize=4096)  # arrays, of which every row asks
def _digest_of(file: str, size: int, time: int, inode: int) -> bytes:
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    with Path(file).open("rb") as opened:
        if size <= _WHOLE:
            digest.update(opened.read())
        else:
            for place in (0, size // 2, size - _PIECE):
                opened.seek(place)
                digest.update(opened.read(_PIECE))
    return digest.digest()


def unreadable(pictures: Pictures) -> list[int]:
    """The samples that cannot be decoded; all are read for it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (6, 4)).save(folder / "a.png")
        >>> _ = (folder / "b.png").write_text("no picture")
        >>> unreadable(Pictures.of([folder / "a.png", folder / "b.png"], side=2))
        [1]
    """
    found = []
    for index in range(len(pictures)):
        try:
            _ = pictures[index]
        except DataError:
            found.append(index)
    return found

"""Images that stay in their files until they are looked at: a data set need not fit into memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from gate_runner.errors import DataError

_THREADS = min(8, os.cpu_count() or 1)

Fit = Literal["crop", "whole"]


@dataclass(frozen=True)
class Pictures:
    """Square images, read from their files whenever they are indexed.

    Args:
        files: of each sample, its frames' files in order; one file for a still image.
        side: of the images that come out, in pixels.
        fit: ``"crop"`` scales the shorter side and cuts the middle out; ``"whole"`` scales both sides.
        video: whether samples have a frame axis; all then have the same number of frames.

    Raises:
        DataError: at indexing, for a file that is no image; the message names it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (6, 4), (255, 0, 0)).save(folder / "a.png")
        >>> Pictures.of([folder / "a.png"], side=2)[0:1].shape
        torch.Size([1, 3, 2, 2])
    """

    files: tuple[tuple[Path, ...], ...]
    side: int
    fit: Fit = "crop"
    video: bool = False

    @classmethod
    def of(cls, paths: Sequence[Path], side: int, fit: Fit = "crop") -> Pictures:
        """Still images."""
        return cls(tuple((path,) for path in paths), side, fit)

    @property
    def shape(self) -> torch.Size:
        """What indexing all of it would give."""
        frames = (len(self.files[0]),) if self.video else ()
        return torch.Size((len(self.files), *frames, 3, self.side, self.side))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int | slice) -> UInt8[Tensor, "*n 3 s s"]:
        """Read one sample, or those of a slice."""
        chosen = self.files[index] if isinstance(index, slice) else (self.files[index],)
        flat = [path for frames in chosen for path in frames]
        if len(flat) > 1:
            with ThreadPoolExecutor(_THREADS) as pool:
                read = list(pool.map(self._read, flat))
        else:
            read = [self._read(path) for path in flat]
        found = torch.from_numpy(np.stack(read)) if read else torch.empty(0, 3, self.side, self.side, dtype=torch.uint8)
        found = found.reshape(len(chosen), *self.shape[1:])
        return found if isinstance(index, slice) else found[0]

    def first(self, count: int) -> Pictures:
        """The first samples; nothing is read."""
        return replace(self, files=self.files[:count])

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every file's folder, name and size to a digest: contents are not read for it."""
        for frames in self.files:
            for path in frames:
                digest.update(f"{path.parent.name}/{path.name} {path.stat().st_size}\n".encode())

    def _read(self, path: Path) -> UInt8[np.ndarray, "3 s s"]:
        return np.ascontiguousarray(np.asarray(read_square(path, self.side, self.fit)).transpose(2, 0, 1))


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
    try:
        with Image.open(path) as opened:
            opened.draft("RGB", (2 * side, 2 * side))  # a JPEG is then decoded at a fraction of its size
            image = opened.convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error
    width, height = image.size
    box = (0.0, 0.0, float(width), float(height))
    if fit == "crop":
        edge = min(width, height)
        left, top = (width - edge) / 2, (height - edge) / 2
        box = (left, top, left + edge, top + edge)
    return image.resize((side, side), Image.Resampling.BICUBIC, box=box)

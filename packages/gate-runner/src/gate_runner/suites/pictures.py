"""Pictures of questions, which have one, two or several each, read from their files when they are looked at."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from eqben_builder.formats import Picture
from gate_data.pictures import Pictures, content_digest
from gate_data.readers.decode import square
from gate_runner.errors import DataError

_THREADS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class QuestionPictures(Pictures):
    """Square pictures with a frame axis: a question's pictures are its frames, and missing ones are black.

    Args:
        files: of each question its `eqben_builder.formats.Picture`s, in order.
        side: of the pictures that come out, in pixels.

    Raises:
        DataError: at indexing, for a picture that is missing or cannot be decoded; the message names it.

    Example:
        >>> from eqben_builder.formats import encode_png
        >>> white = Picture(content=encode_png(np.full((6, 4, 3), 255, np.uint8)))
        >>> two = QuestionPictures(((white,), (white, white)), side=2)
        >>> two.shape, two[0:2].float().mean(dim=(2, 3, 4)).tolist()
        (torch.Size([2, 2, 3, 2, 2]), [[255.0, 0.0], [255.0, 255.0]])
    """

    files: tuple[tuple[Any, ...], ...]

    @property
    def shape(self) -> torch.Size:
        """What indexing all of it would give."""
        most = max(map(len, self.files), default=1)
        return torch.Size((len(self.files), most, 3, self.side, self.side))

    def __getitem__(self, index: int | slice) -> UInt8[Tensor, "*n f 3 s s"]:
        """Read one question's pictures, or those of a slice."""
        chosen = self.files[index] if isinstance(index, slice) else (self.files[index],)
        places = [(row, place) for row, pictures in enumerate(chosen) for place in range(len(pictures))]
        found = torch.zeros(len(chosen), *self.shape[1:], dtype=torch.uint8)
        with ThreadPoolExecutor(_THREADS) as pool:
            read = pool.map(self._square, (picture for pictures in chosen for picture in pictures))
            for place, picture in zip(places, read, strict=True):
                found[place] = torch.from_numpy(picture)
        return found if isinstance(index, slice) else found[0]

    def different(self) -> QuestionPictures:
        """Each picture once, as the only frame of its row, in the order in which they first come."""
        every = dict.fromkeys(picture for pictures in self.files for picture in pictures)
        return replace(self, files=tuple((picture,) for picture in every))

    def take(self, index: Sequence[int]) -> QuestionPictures:
        """The questions at these positions, in this order; nothing is read."""
        return replace(self, files=tuple(self.files[at] for at in index))

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every picture's name, box and content to a digest; of a large file, parts of its content."""
        for pictures in self.files:
            for picture in pictures:
                name = "" if picture.path is None else picture.path.name
                digest.update(f"{name} {picture.member} {picture.box} {_content(picture)}\n".encode())
            digest.update(b"\n")

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """A digest of what each question's pictures hold, with the parts of them that are shown."""
        return tuple(
            "\n".join(f"{picture.member} {picture.box} {_content(picture)}" for picture in pictures).encode()
            for pictures in self.files
        )

    def _square(self, picture: Picture) -> UInt8[np.ndarray, "3 s s"]:
        try:
            shown = Image.fromarray(picture.load())
        except (ValueError, OSError) as error:
            raise DataError(f"{picture.name} cannot be read: {error}") from error
        return np.ascontiguousarray(np.asarray(square(shown, self.side, self.fit)).transpose(2, 0, 1))


def _content(picture: Picture) -> str:
    """A digest of the picture's file."""
    if picture.content is None:
        return content_digest(str(picture.path))
    return hashlib.blake2b(picture.content, digest_size=16).hexdigest()

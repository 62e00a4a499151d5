"""Pictures of questions, which have one, two or several each, read from their files when they are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from eqben_builder.formats import Picture
from gate_data.pictures import Looked, Pictures, Transform, content_digest
from gate_data.readers.decode import resized
from gate_data.request import height_width
from gate_runner.errors import DataError


@dataclass(frozen=True)
class QuestionPictures(Pictures):
    """Pictures with a frame axis: a question's pictures are its frames, and missing ones are black.

    Args:
        files: of each question its `eqben_builder.formats.Picture`s, in order.
        side: of the square pictures that come out, in pixels; or their height and width.

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
        return torch.Size((len(self.files), self._most, 3, *height_width(self.side)))

    @cached_property
    def _most(self) -> int:
        return max(map(len, self.files), default=1)

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

    def known_contents(self) -> tuple[bytes, ...]:
        """`contents`, which are always read: questions name parts of files, and pictures in memory."""
        return self.contents

    def _mark(self) -> None:
        return None

    def _look(self, number: int, wanted: Callable[[bytes], bool] | None, transform: Transform | None) -> Looked:
        content = b"" if wanted is None else self.contents[number]
        if wanted is not None and not wanted(content):
            return Looked(content, None)
        shown = np.zeros(self.shape[1:], dtype=np.uint8)
        for index, picture in enumerate(self.files[number]):
            shown[index] = self._pixels(picture, transform)
        return Looked(content, shown)

    def _pixels(self, picture: Picture, transform: Transform | None = None) -> UInt8[np.ndarray, "3 h w"]:
        try:
            shown = Image.fromarray(picture.load())
        except (ValueError, OSError) as error:
            raise DataError(f"{picture.name} cannot be read: {error}") from error
        if transform is not None:
            return transform(shown)
        return np.ascontiguousarray(np.asarray(resized(shown, self.side, self.fit)).transpose(2, 0, 1))


def _content(picture: Picture) -> str:
    """A digest of the picture's file."""
    if picture.content is None:
        return content_digest(str(picture.path))
    return hashlib.blake2b(picture.content, digest_size=16).hexdigest()

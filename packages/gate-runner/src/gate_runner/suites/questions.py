"""The questions of a suite as a split's targets, and their images: one, two or several each, read when looked at."""

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
from eqben_builder.suites import SuiteData, SuiteRow
from gate_data.pictures import Looked, Pictures, Transform, content_digest
from gate_data.readers.decode import resized
from gate_data.request import height_width
from gate_runner.errors import DataError


@dataclass(frozen=True, eq=False)
class Questions:
    """A suite's questions, one a sample: targets that are no tensor."""

    data: SuiteData

    @property
    def rows(self) -> list[SuiteRow]:
        """The questions."""
        return self.data.rows

    def __len__(self) -> int:
        return len(self.data.rows)

    def take(self, index: Any, /) -> Questions:
        """Those at these positions."""
        return Questions(self.data._replace(rows=[self.data.rows[at] for at in np.asarray(index).tolist()]))

    def collate(self, index: Any, /) -> list[SuiteRow]:
        """Those at these positions, as rows: nothing is trained on them."""
        return self.take(index).rows

    def note_in(self, digest: hashlib._Hash, /) -> None:
        """Add all that is asked to a digest; the images are the split's."""
        for row in self.data.rows:
            fields = (row.id, row.subset, row.shape, row.captions, row.cluster, row.group, sorted(row.sets.items()))
            digest.update(f"{fields} {row.label}\n".encode())

    def clusters(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the questions, those that share an image together, and how many each image has."""
        at: dict[str, list[int]] = {}
        for index, row in enumerate(self.data.rows):
            at.setdefault(row.cluster, []).append(index)
        places = np.array([index for members in at.values() for index in members], dtype=np.int64)
        return places, np.array([len(members) for members in at.values()], dtype=np.int64)


@dataclass(frozen=True)
class QuestionPictures(Pictures):
    """Images with a frame axis: a question's `eqben_builder.formats.Picture`s, and black for missing ones."""

    files: tuple[tuple[Any, ...], ...]

    @property
    def shape(self) -> torch.Size:
        """What indexing all of it would give."""
        return torch.Size((len(self.files), self._most, 3, *height_width(self.side)))

    @cached_property
    def _most(self) -> int:
        return max(map(len, self.files), default=1)

    def different(self) -> QuestionPictures:
        """Each image once, as the only frame of its row, in the order in which they first come."""
        every = dict.fromkeys(picture for pictures in self.files for picture in pictures)
        return replace(self, files=tuple((picture,) for picture in every))

    def take(self, index: Sequence[int]) -> QuestionPictures:
        """The questions at these positions, in this order; nothing is read."""
        return replace(self, files=tuple(self.files[at] for at in index))

    def note_in(self, digest: hashlib._Hash) -> None:
        """Add every image's name, box and content to a digest."""
        for pictures in self.files:
            for picture in pictures:
                name = "" if picture.path is None else picture.path.name
                digest.update(f"{name} {picture.member} {picture.box} {_content(picture)}\n".encode())
            digest.update(b"\n")

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """A digest of what each question's images hold, with the parts of them that are shown."""
        return tuple(
            "\n".join(f"{picture.member} {picture.box} {_content(picture)}" for picture in pictures).encode()
            for pictures in self.files
        )

    def known_contents(self) -> tuple[bytes, ...]:
        """`contents`, which are always read: questions name parts of files, and images in memory."""
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
    """A digest of the image's file."""
    if picture.content is None:
        return content_digest(str(picture.path))
    return hashlib.blake2b(picture.content, digest_size=16).hexdigest()

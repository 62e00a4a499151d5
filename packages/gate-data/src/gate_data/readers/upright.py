"""How large an image is once it is upright, by its header alone: EXIF says of many that they are stored lying down."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from PIL import Image

from gate_data.errors import DataError
from gate_data.readers.decode import open_picture
from gate_data.readers.source import File, described
from wary_files.limits import reading

Sides = tuple[int, int]
"""Width and height, in pixels."""
Corners = tuple[float, float, float, float]
"""Left, top, width and height of a box, in pixels."""
_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)
"""Orientations for which width and height change places."""
_PNG_TEXTS = (b"XML:com.adobe.xmp", b"Raw profile type exif")
_AT_ONCE = 16
"""Headers that are waited for at once: disks of a network answer late."""


class Frame(NamedTuple):
    """An image's sides as they are stored, and EXIF's number (1 to 8) of how it is turned to be seen.

    Example:
        >>> frame = Frame((100, 40), 6)
        >>> frame.upright, frame.turned((10, 20, 30, 5))
        ((40, 100), (15, 10, 5, 30))
    """

    stored: Sides
    orientation: int = 1

    @property
    def upright(self) -> Sides:
        """Width and height as the image is seen."""
        return self.stored[::-1] if self.orientation in _LYING else self.stored

    @property
    def is_lying(self) -> bool:
        """Whether the stored sides tell a box of the stored image from one of the upright image."""
        return self.orientation in _LYING and self.stored[0] != self.stored[1]

    def turned(self, box: Corners) -> Corners:
        """A box of the stored image where it is seen in the upright one."""
        left, top, wide, high = box
        right, bottom = self.stored[0] - left - wide, self.stored[1] - top - high
        return {
            2: (right, top, wide, high),
            3: (right, bottom, wide, high),
            4: (left, bottom, wide, high),
            5: (top, left, high, wide),
            6: (bottom, left, high, wide),
            7: (bottom, right, high, wide),
            8: (top, right, high, wide),
        }.get(self.orientation, box)


def turned_map(values: np.ndarray, orientation: int) -> np.ndarray:
    """An array ``[h, w]`` of the stored image as it is seen.

    Example:
        >>> turned_map(np.array([[1, 2], [3, 4]]), 6).tolist()
        [[3, 1], [4, 2]]
    """
    turned = {
        2: values[:, ::-1],
        3: values[::-1, ::-1],
        4: values[::-1],
        5: values.T,
        6: values[::-1].T,
        7: values[::-1, ::-1].T,
        8: values.T[::-1],
    }.get(orientation, values)
    return np.ascontiguousarray(turned)


def frame_of(file: File) -> Frame:
    """The frame of an image's file; nothing but its header is read.

    Raises:
        DataError: the file is not there, or no image.
    """
    if not isinstance(file, str):
        return _read(file)
    try:
        about = os.stat(file)  # noqa: PTH116 - of a million
    except (OSError, ValueError) as error:
        raise DataError(f"{file} is not there or no image: {error}") from error
    return _known(file, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)


def frames_of(files: Iterable[File]) -> list[Frame | None]:
    """The frames of many images; None of one that cannot be read, of which the decoder says more."""

    def look(file: File) -> Frame | None:
        try:
            return frame_of(file)
        except DataError:
            return None

    with ThreadPoolExecutor(_AT_ONCE, "gate-data-header") as pool:
        return list(pool.map(look, files))


@lru_cache(maxsize=2**20)
def _known(file: str, *about: int) -> Frame:
    del about  # a file that changed is another
    return _read(file)


def _read(file: File) -> Frame:
    with reading(described(file), "an image"), open_picture(file) as opened:
        orientation, size = orientation_of(opened), opened.size
        lies = opened.format == "TIFF" and orientation in _LYING  # of TIFF, Pillow gives the upright image's
        return Frame(size[::-1] if lies else size, orientation)


def orientation_of(image: Image.Image) -> int:
    """EXIF's number of an opened image; of a PNG file, which Pillow decodes for it, only if a chunk can say one."""
    stream: Any = getattr(image, "fp", None)
    if image.format == "PNG" and stream is not None and not _may_be_turned(stream):
        return 1
    orientation = image.getexif().get(_ORIENTATION, 1)
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def _may_be_turned(stream: BinaryIO) -> bool:
    """Whether a PNG file has a chunk that can hold an orientation; the stream is put back to where it was."""
    before = stream.tell()
    try:
        stream.seek(8)
        while len(head := stream.read(8)) == 8:
            (length,), kind = struct.unpack(">I", head[:4]), head[4:]
            if kind == b"eXIf":
                return True
            if kind in (b"iTXt", b"zTXt", b"tEXt"):
                start = stream.read(min(length, 32))
                if start.startswith(_PNG_TEXTS):
                    return True
                length -= len(start)
            if kind == b"IEND":
                return False
            stream.seek(length + 4, os.SEEK_CUR)
        return False
    finally:
        stream.seek(before)


def of_one_shape(first: Sides, second: Sides) -> bool:
    """Whether one is the other scaled and rounded to whole pixels.

    Example:
        >>> of_one_shape((640, 427), (320, 214)), of_one_shape((640, 427), (427, 640))
        (True, False)
    """
    return _scaled(first, second) or _scaled(second, first)


def _scaled(sides: Sides, scaled: Sides) -> bool:
    low = max((result - 1) / side for side, result in zip(sides, scaled, strict=True))
    high = min((result + 1) / side for side, result in zip(sides, scaled, strict=True))
    return low <= high

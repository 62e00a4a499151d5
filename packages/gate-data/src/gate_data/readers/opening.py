"""An image's header by Pillow's readers, without Pillow's own limit of pixels, which is the whole process's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageFile, UnidentifiedImageError

from gate_data.errors import DataError


def open_unlimited(file: Path | BinaryIO, formats: Sequence[str], name: str) -> ImageFile.ImageFile:
    """Read an image's header, as `PIL.Image.open` does but for its check of the size: callers have their own.

    ``Image.MAX_IMAGE_PIXELS`` stays what it is for everybody else, and for the few readers of Pillow that look at it
    again (animations, TIFF, WebP).

    Args:
        file: a path, or what holds the bytes.
        formats: of `PIL.Image.OPEN`, tried in order.
        name: what errors call it.

    Raises:
        UnidentifiedImageError: it is none of the formats.
        DataError: WebP of more than twice as many pixels as Pillow's limit, which is decoded when it is opened.
    """
    Image.preinit()
    if any(form not in Image.OPEN for form in formats):
        Image.init()
    opened = file.open("rb") if isinstance(file, Path) else file
    try:
        prefix = opened.read(16)
        for form in formats:
            factory, accept = Image.OPEN[form]
            if accept is not None and accept(prefix) is not True:
                continue
            opened.seek(0)
            try:
                image = factory(opened, str(file) if isinstance(file, Path) else "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue
            image._exclusive_fp = isinstance(file, Path)  # it is closed with the image
            return image
        raise UnidentifiedImageError(f"cannot identify {name}")
    except Image.DecompressionBombError as error:
        _close(file, opened)
        raise DataError(f"{name} is larger than Pillow opens ({error}): save it smaller, or as JPEG or TIFF") from error
    except BaseException:
        _close(file, opened)
        raise


def _close(file: Path | BinaryIO, opened: BinaryIO) -> None:
    if isinstance(file, Path):
        opened.close()

"""Images of more pixels than are decoded at once: JPEG at a fraction of its sides, TIFF by an overview or tiles."""

from __future__ import annotations

import io
import logging
import math
from typing import Any

import numpy as np
from PIL import Image

from gate_data.errors import DataError, MissingExtraError
from gate_data.readers.source import File, described
from wary_files.limits import most, variable, within

_LOG = logging.getLogger(__name__)
REDUCED = 64
"""Times the limit of pixels that an image may have where it is never decoded whole: an eighth of both its sides."""
_DECODED = 8
"""Bytes of a pixel while an image is decoded: four of Pillow's, and a copy."""
_ORIENTATION = 274
_REDUCED_PAGE, _OVERVIEWS = 254, 16
"""TIFF's tag of a page that is a smaller copy of another, and how many pages are looked at for one."""


def fitting(opened: Image.Image, file: File, held: bytes | None, side: int | None) -> Image.Image:
    """An opened image whose pixels may be decoded: itself, or a smaller one of the same content.

    Where the result is scaled down to a side afterwards, the smaller one has at least twice of it.
    """
    pixels, limit, width = opened.width * opened.height, most("pixels"), opened.width
    pillows = Image.MAX_IMAGE_PIXELS
    if opened.format == "TIFF" and pillows is not None and pillows < pixels <= limit:
        return _tiles(file, held, 1, limit)  # Pillow looks at its own limit again, which is the process's
    if pixels <= limit:
        if side is not None:
            opened.draft("RGB", (2 * side, 2 * side))
        return opened
    factor = max(math.ceil(math.sqrt(pixels / limit)), min(opened.size) // (2 * side) if side is not None else 1)
    if opened.format in ("JPEG", "MPO"):
        within(pixels, "pixels", described(file), REDUCED)
        factor = min(8, 1 << (factor - 1).bit_length())
        opened.draft("RGB", (max(1, opened.width // factor), max(1, opened.height // factor)))
        _say(file, pixels, factor)
        return opened
    if opened.format != "TIFF":
        raise DataError(
            f"{described(file)} has {pixels:,} pixels, more than {limit:,}, and {opened.format} is only decoded whole: "
            f"save it smaller, or as JPEG or TIFF, which are read reduced, or set {variable('pixels')}={pixels} "
            f"(about {_DECODED * pixels / 1e9:.1f} GB of memory)"
        )
    smaller = _overview(opened, factor, limit) or _tiles(file, held, factor, limit)
    _say(file, pixels, round(width / smaller.width))
    return smaller


def _say(file: File, pixels: int, factor: int) -> None:
    _LOG.warning("%s has %s pixels: read at about 1/%d of its sides", described(file), f"{pixels:,}", factor)


def _overview(opened: Image.Image, factor: int, limit: int) -> Image.Image | None:
    """The smallest copy in the file that has half as many pixels a side as were asked for, as slides and maps have."""
    width, height = opened.size
    copies: dict[int, int] = {}
    for page in range(1, _OVERVIEWS):
        try:
            opened.seek(page)
        except EOFError:
            break
        same = abs(opened.width * height - opened.height * width) <= 2 * max(width, height)
        copy = opened.tag_v2.get(_REDUCED_PAGE, 0) & 1  # type: ignore[attr-defined]  # a TIFF
        if copy and same and opened.width * opened.height <= limit and 2 * opened.width * factor >= width:
            copies[opened.width] = page
    opened.seek(copies[min(copies)] if copies else 0)
    return opened if copies else None


def _tiles(file: File, held: bytes | None, factor: int, limit: int) -> Image.Image:
    """Means over squares of ``factor`` pixels, tile by tile."""
    name = described(file)
    try:
        import tifffile
    except ImportError as error:
        raise MissingExtraError(
            f"{name} has more than {limit:,} pixels: pip install 'gate-data[large]' reads it by its tiles, or "
            f"{variable('pixels')} sets another limit"
        ) from error
    with tifffile.TiffFile(str(file) if held is None else io.BytesIO(held)) as tiff:
        page: Any = tiff.pages[0]
        height, width, channels = page.imagelength, page.imagewidth, page.samplesperpixel
        within(height * width, "pixels", name, REDUCED)
        within(math.prod(page.chunks[:2]), "pixels", f"a tile of {name}")
        if page.dtype not in (np.uint8, np.uint16) or channels not in (1, 3) or page.planarconfig != 1:
            raise DataError(f"{name} is a large TIFF of {page.dtype} with {channels} channels: convert it first")
        if page.photometric not in (1, 2, 6):  # black is 0, RGB, YCbCr, which its decoder makes RGB of
            raise DataError(f"{name} is a large TIFF whose colours are {page.photometric!r}: convert it first")
        if (tag := page.tags.get(_ORIENTATION)) is not None and tag.value != 1:
            raise DataError(f"{name} is a large TIFF that its orientation turns: turn its pixels first")
        tiles = math.prod(page.chunked)
        if len(page.dataoffsets) != tiles or len(page.databytecounts) != tiles:
            raise DataError(f"{name} cannot be read as an image: it lists {len(page.dataoffsets)} of {tiles} tiles")
        sums = np.zeros((-(-height // factor), -(-width // factor), channels), np.uint64)
        for tile, index, _ in page.segments():
            if tile is not None:
                top, left = index[-3], index[-2]
                _add(sums, tile[0, : height - top, : width - left], top, left, factor)
    rows, columns = (np.bincount(np.arange(length) // factor) for length in (height, width))
    counts = np.multiply.outer(rows, columns)[..., None]
    means = np.rint(sums / counts).astype(page.dtype)
    if page.dtype == np.uint16 and channels == 3:
        means = ((means.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return Image.fromarray(means[..., 0] if channels == 1 else means)


def _add(sums: np.ndarray, tile: np.ndarray, top: int, left: int, factor: int) -> None:
    """A tile's pixels, each to the sum of its square."""
    rows, columns = (
        np.arange(start, start + size) // factor for start, size in zip((top, left), tile.shape, strict=False)
    )
    across, down = (np.flatnonzero(np.diff(places, prepend=-1)) for places in (columns, rows))
    part = np.add.reduceat(np.add.reduceat(tile.astype(np.uint64), down, axis=0), across, axis=1)
    sums[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] += part

"""The one way from an image's file to RGB: what cannot be converted rightly is refused, by name."""

from __future__ import annotations

import io
import logging
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError, features

from gate_data.errors import DataError
from gate_data.readers.dicom import dicom_picture, is_dicom
from gate_data.readers.large import fitting
from gate_data.readers.opening import open_unlimited
from gate_data.readers.source import Cut, File, Member, Source, Stored, described, read_bytes
from gate_data.request import Size, height_width
from wary_files.deep_colours import has_deep_colours, is_nearly_black
from wary_files.inks import UNFIT, from_inks
from wary_files.limits import reading, refuse_special

_LOG = logging.getLogger(__name__)

Fit = Literal["crop", "whole"]
Transparency = Literal["white", "drop"]
"""Whether transparent images lie over white, or show the colours that lie below, as ``convert("RGB")`` has them."""
FORMATS = (
    *("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"),
    *(("AVIF",) if features.check("avif") else ()),
    *(("HEIF",) if find_spec("pillow_heif") is not None else ()),
)
"""What images are read as, whatever their names end in: Pillow's others include one that starts Ghostscript."""
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
"""EXIF's tag of how an image is turned, and its values for which width and height change places."""
_BITS, _LARGEST, _ABOUT = 258, (281, 341), 270
"""TIFF's tags of the bits of a value, of the largest value that there can be, and of a description."""
_SIXTEEN = 65_535
_KINDS, _SIGNED = 339, 2
"""TIFF's tag of the kind of its values, and the kind of signed ones, whose negative ones Pillow shows as bright."""
_PHOTOMETRIC = 262
"""TIFF's tag of what its values mean: 0 where 0 is white."""
_noted: set[str] = set()
"""Files of which something was said already."""


def decode(
    source: Source, side: Size | None = None, transparency: Transparency = "white", held: bytes | None = None
) -> Image.Image:
    """One image in RGB, upright.

    EXIF's orientation is applied; transparency lies over white, or is dropped; grey of 16 bits, or of as many as a TIFF
    declares, is scaled to 8; of DICOM, its window is shown; floats in 0 to 1 or 0 to 255 are scaled or rounded; CMYK
    goes through its own colour profile if it fits; of an animation the first frame is taken, which is logged.
    A JPEG or TIFF of more pixels than `wary_files.limits.LIMITS` is read smaller, which is logged, too; so is a
    JPEG that is scaled down to a side afterwards. ``held`` are the file's bytes, where they have been read already.
    """
    if isinstance(source, Stored):
        from gate_data.readers.arrays import stored_picture

        return stored_picture(source)
    file = source.source if isinstance(source, Cut) else source
    assert isinstance(file, str | Member)
    with reading(described(file), "an image"), open_picture(file, held) as opened:
        size = opened.size
        refuse_misread(opened, described(file))
        has_16_bits = has_deep_colours(opened)
        longer = None if side is None or isinstance(source, Cut) else max(height_width(side))
        fitted = fitting(opened, file, held, longer)
        if fitted.size == size:
            _note_frames(fitted, file)
        if isinstance(source, Cut) and opened.format != "TIFF" and fitted.getexif().get(_ORIENTATION, 1) in _TURNED:
            size = size[::-1]  # of TIFF, Pillow gives the upright image's
        ImageOps.exif_transpose(fitted, in_place=True)  # a copy costs 5 % of a PNG file's decoding
        if has_16_bits and is_nearly_black(fitted):
            note(described(file), "has colours of at most 12 bits and declares 16: it is nearly black")
        image = _to_rgb(fitted, file, transparency)
    return _inside(image, source, size) if isinstance(source, Cut) else image


def open_picture(file: File, held: bytes | None = None) -> Image.Image:
    """An image whose header is read, in one of `FORMATS`, to be used as a context."""
    if "HEIF" in FORMATS:
        _with_heic()
    if held is None and isinstance(file, str):
        refuse_special(Path(file))
    if held is None and isinstance(file, Member):
        held = read_bytes(file)
    if is_dicom(described(file)):
        return dicom_picture(file, held)
    try:
        opened = open_unlimited(Path(str(file)) if held is None else io.BytesIO(held), FORMATS, described(file))
        if opened.format == "TIFF":
            opened.filename = (
                ""  # Pillow maps unpacked ones into memory, and mixes up the sides of those that are turned
            )
        return opened
    except UnidentifiedImageError as error:
        raise DataError(f"{described(file)} cannot be read as an image: it is none of {', '.join(FORMATS)}") from error


@cache
def _with_heic() -> None:
    """Let Pillow read HEIC, once."""
    from pillow_heif import register_heif_opener  # type: ignore[import-not-found, import-untyped, unused-ignore]

    register_heif_opener()


def resized(image: Image.Image, side: Size, fit: Fit = "crop") -> Image.Image:
    """An image scaled with antialiasing: the largest middle part of the wanted shape, or all of it."""
    width, height = image.size
    high, wide = height_width(side)
    box = (0.0, 0.0, float(width), float(height))
    if fit == "crop":
        across, down = min(width, height * wide / high), min(height, width * high / wide)
        left, top = (width - across) / 2, (height - down) / 2
        box = (left, top, left + across, top + down)
    return image.resize((wide, high), Image.Resampling.BICUBIC, box=box)


def refuse_misread(image: Image.Image, name: str) -> None:
    """Refuse what Pillow opens and reads wrongly: TIFF of 16 bits, each colour by itself, not packed; signed 8 bits."""
    tags = getattr(image, "tag_v2", {})
    if _SIGNED in tags.get(_KINDS, ()) and 8 in tags.get(_BITS, ()):
        raise DataError(f"{name} is a TIFF of signed values of 8 bits (-128 to 127): convert it to 0 to 255 first")
    if tags.get(284) == 2 and tags.get(259, 1) == 1 and 16 in tags.get(258, ()):
        raise DataError(f"{name} is a TIFF of 16 bits that holds each colour by itself, unpacked: convert it first")


def _note_frames(image: Image.Image, file: File) -> None:
    """Say that an image has several frames. They are not counted: of a TIFF, Pillow's count takes their square."""
    if image.format not in ("GIF", "PNG", "TIFF", "WEBP"):
        return
    try:
        image.seek(1)
    except EOFError:
        return
    finally:
        image.seek(0)
    note(described(file), "has more than one frame: the first is used")


def note(name: str, remark: str) -> None:
    """Say something of a file, once."""
    if name not in _noted:
        _noted.add(name)
        _LOG.warning("%s %s", name, remark)


def _to_rgb(image: Image.Image, file: File, transparency: Transparency) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        shown = _scaled(np.asarray(image), image.mode, file, _declared(image))
        return (ImageOps.invert(shown) if is_white_zero(image) else shown).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        solid = image.convert("RGBA")
        if transparency == "drop":
            return solid.convert("RGB")
        white = Image.new("RGBA", solid.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, solid).convert("RGB")
    if image.mode == "CMYK":
        converted, fits = from_inks(image, ImageCms)
        if not fits:
            note(described(file), UNFIT)
        assert isinstance(converted, Image.Image)
        return converted
    if image.mode not in ("RGB", "L", "1", "P", "YCbCr", "HSV"):
        raise DataError(f"{described(file)} has pixels of the kind {image.mode}, which have no known form in RGB")
    return image.convert("RGB")


def is_white_zero(image: Image.Image) -> bool:
    """Whether a TIFF's values grow darker, as films are scanned; Pillow turns round those of 1 and 8 bits alone."""
    return bool(getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == 0)


def _declared(image: Image.Image) -> int:
    """The largest value that an image says it can have: 4,095 for 12 bits, and 65,535 where it says nothing."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS, (16,))
    if isinstance(bits, tuple) and bits and 8 < bits[0] < 16:
        return int((1 << bits[0]) - 1)
    for tag in _LARGEST:
        value = tags.get(tag)
        value = value[0] if isinstance(value, tuple) and value else value
        if isinstance(value, int | float) and 255 <= value < _SIXTEEN:
            return int(value)
    about = re.search(r'SignificantBits="(\d{1,2})"', str(tags.get(_ABOUT, "")))  # OME's, as microscopes write it
    return (1 << int(about[1])) - 1 if about and 8 < int(about[1]) < 16 else _SIXTEEN


def _scaled(values: np.ndarray, mode: str, file: File, largest: int) -> Image.Image:
    low, high = float(values.min()), float(values.max())  # NaN makes both NaN
    if mode == "F":
        if not (low >= 0 and high <= 255):
            raise DataError(f"{described(file)} has values from {low:g} to {high:g}, expected 0 to 1 or 0 to 255")
        return Image.fromarray(np.rint(values * 255 if high <= 1 else values).astype(np.uint8))
    if not (low >= 0 and high <= largest):
        raise DataError(f"{described(file)} has values from {low:g} to {high:g}, expected 0 to {largest}")
    if largest == _SIXTEEN and 0 < high < 4096:
        bits = 8 if high <= 255 else 12
        note(
            described(file),
            f"has values of {bits} bits and declares 16: it is nearly black (TIFF's MaxSampleValue says {bits})",
        )
    scaled = np.empty(values.shape, np.uint8)
    rows = max(1, 500_000 // values.shape[1])  # what is worked on at once stays in the processor's cache
    for first in range(0, len(values), rows):
        part = values[first : first + rows].astype(np.uint32)
        scaled[first : first + rows] = (part * 255 + largest // 2) // largest
    return Image.fromarray(scaled)


def _inside(image: Image.Image, cut: Cut, size: tuple[int, int]) -> Image.Image:
    """What lies in a box, whose numbers are of the whole image, also of one that was read smaller."""
    across, down = image.width / size[0], image.height / size[1]
    left, top, right, bottom = (side * scale for side, scale in zip(cut.box, (across, down, across, down), strict=True))
    box = (max(0, int(left)), max(0, int(top)), min(image.width, int(right)), min(image.height, int(bottom)))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(f"{described(cut.source)}: the box {cut.box} holds no pixel of {image.width} x {image.height}")
    return image.crop(box)

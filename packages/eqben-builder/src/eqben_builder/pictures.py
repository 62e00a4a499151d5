"""The one way from an image's bytes to RGB: what cannot be converted rightly is refused, by name."""

from __future__ import annotations

import io
import logging
import math
import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError, features

from wary_files.deep_colours import has_deep_colours, is_nearly_black
from wary_files.inks import UNFIT, from_inks
from wary_files.limits import within

if TYPE_CHECKING:
    from jaxtyping import UInt8

#: What images are read as, whatever they are called: Pillow's other readers include one that starts Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", *(("AVIF",) if features.check("avif") else ()))
_log = logging.getLogger(__name__)
_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


class PictureRefusedError(ValueError):
    """A whole image that is not read: too large, or of values that have no known form in RGB."""


class AnimatedPictureWarning(UserWarning):
    """An animation was given where an image is expected: its first frame is used."""


def decode(source: bytes | Path, name: str | None = None, *, plain: bool = False) -> UInt8[np.ndarray, "h w 3"]:
    """One image in 8-bit RGB, upright.

    EXIF's orientation is applied; transparency lies over white; 16-bit grey is scaled to 8; floats in 0 to 1 or in 0 to
    255 are scaled or rounded; CMYK goes through its own colour profile if it fits; of an animation the first
    frame is taken, which an `AnimatedPictureWarning` says.
    """
    called = name or (str(source) if isinstance(source, Path) else "an image in memory")
    try:
        if isinstance(source, Path) and source.exists() and not source.is_file():
            raise ValueError("it is no file that holds data")  # a pipe would be waited for without end
        with _opened(source) as opened:
            _check_size(opened.width * opened.height, called)
            _refuse_misread(opened, called)
            has_16_bits = has_deep_colours(opened)
            if _animated(opened):
                warnings.warn(AnimatedPictureWarning(f"{called} has several frames: the first is used"), stacklevel=2)
                opened.seek(0)
            if plain:
                return np.array(opened.convert("RGB"))
            ImageOps.exif_transpose(opened, in_place=True)
            if has_16_bits and is_nearly_black(opened):
                _log.warning("%s has colours of at most 12 bits in 16: it is nearly black", called)
            return np.array(_to_rgb(opened, called))
    except (FileNotFoundError, PictureRefusedError):
        raise
    except Image.DecompressionBombError as error:  # WebP is decoded when it is opened, animations look at it again
        raise PictureRefusedError(f"{called} is larger than Pillow opens ({error}): save it smaller") from error
    except Exception as error:  # Pillow's readers raise errors of every kind over broken files
        raise ValueError(f"{called} cannot be decoded: {error}") from error


def _opened(source: bytes | Path) -> Image.Image:
    """Read an image's header, as `PIL.Image.open` does but for Pillow's own check of the size: we have ours.

    `Image.MAX_IMAGE_PIXELS` is the whole process's and is never touched: other threads rely on it.
    """
    Image.preinit()
    if any(form not in Image.OPEN for form in FORMATS):
        Image.init()
    file = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    try:
        prefix = file.read(16)
        for form in FORMATS:
            factory, accept = Image.OPEN[form]
            if accept is not None and accept(prefix) is not True:
                continue
            file.seek(0)
            try:
                opened = factory(file, "")  # without a name: Pillow maps unpacked TIFF files, and mixes up turned ones
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue
            opened._exclusive_fp = True  # it is closed with the image
            return opened
        raise UnidentifiedImageError(f"cannot identify image file, none of {', '.join(FORMATS)}")
    except BaseException:
        file.close()
        raise


def _animated(image: Image.Image) -> bool:
    """Whether there is a second frame; Pillow counts a TIFF's frames by the square of their number."""
    if image.format == "TIFF":
        return bool(getattr(image.tag_v2, "next", 0))  # type: ignore[attr-defined]  # a TIFF's image has it
    return image.format in ("GIF", "PNG", "WEBP") and bool(getattr(image, "is_animated", False))


def _refuse_misread(image: Image.Image, name: str) -> None:
    """Refuse what Pillow opens and reads wrongly: TIFF of 16 bits, each colour by itself, not packed; signed 8 bits."""
    tags = getattr(image, "tag_v2", {})
    if 2 in tags.get(339, ()) and 8 in tags.get(258, ()):  # a negative value is shown as a bright one
        raise PictureRefusedError(f"{name} is a TIFF of signed values of 8 bits: convert it to 0 to 255 first")
    if tags.get(284) == 2 and tags.get(259, 1) == 1 and 16 in tags.get(258, ()):
        raise PictureRefusedError(f"{name} is a TIFF of 16 bits that holds each colour by itself: convert it first")


def _check_size(pixels: int, name: str) -> None:
    try:
        within(pixels, "pixels", name)
    except ValueError as error:
        raise PictureRefusedError(str(error)) from None


def decode_array(stored: bytes, name: str) -> UInt8[np.ndarray, "h w 3"]:
    """A uint8 image [height, width, 3] in NumPy's own format, its size checked against its bytes beforehand."""
    file = io.BytesIO(stored)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file)
    except Exception as error:  # NumPy parses the header as Python source, with that parser's errors
        raise ValueError(f"{name} is no plain array: {error}") from error
    if len(shape) != 3 or shape[2] != 3 or dtype != np.uint8:
        raise ValueError(f"{name} is {dtype} {shape}, expected uint8 (height, width, 3)")
    within(shape[0] * shape[1], "pixels", name)
    values = stored[file.tell() :]
    if math.prod(shape) != len(values):
        raise ValueError(f"{name} is no plain array: {len(values)} bytes for the shape {shape}")
    return np.frombuffer(values, np.uint8).reshape(shape, order="F" if fortran else "C")


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        shown = _scaled(np.asarray(image), image.mode, name)
        # a TIFF whose 0 is white; Pillow turns round those of 1 and 8 bits alone
        is_white_zero = getattr(image, "tag_v2", {}).get(262) == 0
        return (ImageOps.invert(shown) if is_white_zero else shown).convert("RGB")
    if image.mode in _ALPHA or "transparency" in image.info:
        solid = image.convert("RGBA")
        white = Image.new("RGBA", solid.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, solid).convert("RGB")
    if image.mode == "CMYK":
        converted, fits = from_inks(image, ImageCms)
        if not fits:
            _log.warning("%s %s", name, UNFIT)
        assert isinstance(converted, Image.Image)
        return converted
    if image.mode not in ("RGB", "L", "1", "P", "YCbCr", "HSV"):
        raise PictureRefusedError(f"{name} has pixels of the kind {image.mode}, which have no known form in RGB")
    return image.convert("RGB")


def _scaled(values: np.ndarray[Any, Any], mode: str, name: str) -> Image.Image:
    low, high = float(values.min()), float(values.max())  # NaN makes both NaN
    top = 255 if mode == "F" else 65535
    if not (low >= 0 and high <= top):
        expected = "0 to 1 or 0 to 255" if mode == "F" else "0 to 65535"
        raise PictureRefusedError(f"{name} has values from {low:g} to {high:g}, expected {expected}")
    if mode == "F":
        return Image.fromarray(np.rint(values * (255.0 if high <= 1 else 1.0)).astype(np.uint8))
    if 0 < high < 4096:
        _log.warning("%s has values of %d bits in 16: it is nearly black", name, 8 if high <= 255 else 12)
    narrow = np.empty(values.shape, np.uint8)
    rows = max(1, 500_000 // values.shape[1])  # what is worked on at once stays in the processor's cache
    for first in range(0, len(values), rows):
        narrow[first : first + rows] = (values[first : first + rows].astype(np.uint32) + 128) // 257  # odd: no ties
    return Image.fromarray(narrow)

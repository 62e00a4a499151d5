"""From an image's file to RGB, upright: what cannot be converted rightly is refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from wary_files.deep_colours import has_deep_colours, is_nearly_black
from wary_files.inks import UNFIT, from_inks

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", "AVIF")
"""What an image is read as, whatever it is called: Pillow's other readers include one that starts Ghostscript."""
_LOG = logging.getLogger(__name__)
MOST_PIXELS = 89_478_485
"""An image with more is refused; Pillow's own limit."""


Size = int | tuple[int, int]
"""Pixels of a square's side; or height and width, where they differ."""


def height_width(side: Size) -> tuple[int, int]:
    """Both sides in pixels."""
    return (side, side) if isinstance(side, int) else side


def read_rgb(path: Path) -> Image.Image:
    """One image in RGB.

    EXIF's orientation is applied; transparency lies over white; 16-bit grey is scaled to 8, and floats where they lie
    in 0 to 1 or 0 to 255; CMYK goes through its colour profile if it fits; of an animation it is the
    first frame.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no file that holds data")  # a pipe would be waited for without end
    try:
        return _decoded(path)
    except MemoryError as error:  # a broken header can ask for any amount
        raise ValueError("it asks for more memory than there is") from error
    except (OSError, ValueError):
        raise
    except Exception as error:  # Pillow's readers raise errors of every kind over broken files
        raise ValueError(f"it is damaged: {error}") from error


def _decoded(path: Path) -> Image.Image:
    from PIL import Image, ImageCms, ImageOps, features

    try:
        known = [form for form in FORMATS if form != "AVIF" or features.check("avif")]
        file = Image.open(path, formats=known)
    except Image.DecompressionBombError as error:  # Pillow's own limit, at twice as many
        raise ValueError(f"more than {MOST_PIXELS:,} pixels: {error}") from error
    if file.format == "TIFF":
        file.filename = ""  # Pillow maps unpacked ones into memory, and mixes up the sides of those that are turned
    with file as opened:
        if opened.width * opened.height > MOST_PIXELS:
            raise ValueError(f"{opened.width} x {opened.height} pixels, more than {MOST_PIXELS:,}")
        tags = getattr(opened, "tag_v2", {})
        if tags.get(284) == 2 and tags.get(259, 1) == 1 and 16 in tags.get(258, ()):  # Pillow reads these wrongly
            raise ValueError("a TIFF of 16 bits that holds each colour by itself, unpacked")
        if 2 in tags.get(339, ()) and 8 in tags.get(258, ()):  # Pillow shows a negative value as a bright one
            raise ValueError("a TIFF of signed values of 8 bits: convert it to 0 to 255 first")
        has_16_bits = has_deep_colours(opened)
        ImageOps.exif_transpose(opened, in_place=True)
        image: Image.Image = opened
        if has_16_bits and is_nearly_black(image):
            _LOG.warning("%s has colours of at most 12 bits in 16: it is nearly black", path)
        if image.mode.startswith("I;16") or image.mode in ("I", "F"):
            values = np.asarray(image)
            if image.mode != "F" and 0 < (high := int(values.max())) < 4096:
                _LOG.warning("%s has values of %d bits in 16: it is nearly black", path, 8 if high <= 255 else 12)
            shown = _scaled(values)
            # a TIFF whose 0 is white; Pillow turns round those of 1 and 8 bits alone
            return (ImageOps.invert(shown) if tags.get(262) == 0 else shown).convert("RGB")
        if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
            solid = image.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", solid.size, (255, 255, 255, 255)), solid).convert("RGB")
        if image.mode == "CMYK":
            converted, fits = from_inks(image, ImageCms)
            if not fits:
                _LOG.warning("%s %s", path, UNFIT)
            assert isinstance(converted, Image.Image)
            return converted
        if image.mode not in ("RGB", "L", "1", "P", "YCbCr", "HSV"):
            raise ValueError(f"pixels of the kind {image.mode}, which have no known form in RGB")
        return image.convert("RGB")


def _scaled(values: np.ndarray[tuple[int, ...], Any]) -> Image.Image:
    from PIL import Image

    floats = values.dtype.kind == "f"
    low, high = float(values.min()), float(values.max())  # NaN makes both NaN
    if not (low >= 0 and high <= (255 if floats else 65535)):
        expected = "0 to 1 or 0 to 255" if floats else "0 to 65535"
        raise ValueError(f"values from {low:g} to {high:g}, expected {expected}")
    if floats:
        return Image.fromarray(np.rint(values * (255.0 if high <= 1 else 1.0)).astype(np.uint8))
    pixels = np.empty(values.shape, np.uint8)
    rows = max(1, 500_000 // values.shape[1])  # what is worked on at once stays in the processor's cache
    for first in range(0, len(values), rows):
        pixels[first : first + rows] = (values[first : first + rows].astype(np.uint32) + 128) // 257  # odd: no ties
    return Image.fromarray(pixels)

"""The one way from a picture's file to RGB: what cannot be converted rightly is refused, by name."""

from __future__ import annotations

import io
import logging
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError, features

from gate_data.errors import DataError
from gate_data.readers.limits import within
from gate_data.readers.source import Cut, File, Member, Source, Stored, described, read_bytes, refuse_special

_LOG = logging.getLogger(__name__)

Fit = Literal["crop", "whole"]
Transparency = Literal["white", "drop"]
"""Whether transparent pictures lie over white, or show the colours that lie below, as ``convert("RGB")`` has them."""
FORMATS = (
    *("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"),
    *(("AVIF",) if features.check("avif") else ()),
    *(("HEIF",) if find_spec("pillow_heif") is not None else ()),
)
"""What pictures are read as, whatever their names end in: Pillow's others include one that starts Ghostscript."""
_animated: set[str] = set()


def decode(
    source: Source, side: int | None = None, transparency: Transparency = "white", held: bytes | None = None
) -> Image.Image:
    """One picture in RGB, upright.

    EXIF's orientation is applied; transparency lies over white, or is dropped; 16-bit grey is scaled to 8; floats in 0
    to 1 or 0 to 255 are scaled or rounded; CMYK goes through its own colour profile where it has one; of an animation
    the first frame is taken, which is logged.

    Args:
        source: a file, a member of an archive, a row of an array, or a box in one of the first two.
        side: where the result is scaled down to this afterwards: a JPEG is then decoded at a fraction of its size.
        transparency: ``"drop"`` as torchvision and vision-datasets do.
        held: the file's bytes, where they have been read already.

    Example:
        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/a.png"
        >>> Image.new("RGBA", (2, 1), (255, 0, 0, 0)).save(path)
        >>> decode(path).getpixel((0, 0))
        (255, 255, 255)
    """
    if isinstance(source, Stored):
        from gate_data.readers.arrays import stored_picture

        return stored_picture(source)
    file = source.source if isinstance(source, Cut) else source
    assert isinstance(file, str | Member)
    try:
        with open_picture(file, held) as opened:
            within(opened.width * opened.height, "pixels", described(file))
            refuse_planar(opened, described(file))
            if side is not None and not isinstance(source, Cut):
                opened.draft("RGB", (2 * side, 2 * side))
            _note_frames(opened, file)
            ImageOps.exif_transpose(opened, in_place=True)  # a copy costs 5 % of a PNG file's decoding
            image = _to_rgb(opened, file, transparency)
    except DataError:
        raise
    except Exception as error:  # Pillow's readers raise errors of every kind over broken files
        raise DataError(f"{described(file)} cannot be read as an image: {error}") from error
    return _inside(image, source) if isinstance(source, Cut) else image


def open_picture(file: File, held: bytes | None = None) -> Image.Image:
    """A picture whose header is read, in one of `FORMATS`, to be used as a context."""
    if "HEIF" in FORMATS:
        _with_heic()
    Image.MAX_IMAGE_PIXELS = None  # Pillow's own limit is a warning first: ours stands before the decoding
    if held is None and isinstance(file, str):
        refuse_special(Path(file))
    if held is None and isinstance(file, Member):
        held = read_bytes(file)
    try:
        return Image.open(str(file) if held is None else io.BytesIO(held), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise DataError(f"{described(file)} cannot be read as an image: it is none of {', '.join(FORMATS)}") from error


@cache
def _with_heic() -> None:
    """Let Pillow read HEIC, once."""
    from pillow_heif import register_heif_opener  # type: ignore[import-not-found, import-untyped, unused-ignore]

    register_heif_opener()


def square(image: Image.Image, side: int, fit: Fit = "crop") -> Image.Image:
    """A picture scaled to a square with antialiasing.

    Args:
        image: of any size.
        side: of the result, in pixels.
        fit: ``"crop"`` scales the shorter side and cuts the middle out; ``"whole"`` scales both sides.

    Example:
        >>> square(Image.new("RGB", (6, 4)), 2).size
        (2, 2)
    """
    width, height = image.size
    box = (0.0, 0.0, float(width), float(height))
    if fit == "crop":
        edge = min(width, height)
        left, top = (width - edge) / 2, (height - edge) / 2
        box = (left, top, left + edge, top + edge)
    return image.resize((side, side), Image.Resampling.BICUBIC, box=box)


def refuse_planar(image: Image.Image, name: str) -> None:
    """Refuse the one kind of TIFF that Pillow opens and reads wrongly: 16 bits, each colour by itself, not packed."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(284) == 2 and tags.get(259, 1) == 1 and 16 in tags.get(258, ()):
        raise DataError(f"{name} is a TIFF of 16 bits that holds each colour by itself, unpacked: convert it first")


def _note_frames(image: Image.Image, file: File) -> None:
    """Say that a picture has several frames. They are not counted: of a TIFF, Pillow's count takes their square."""
    if image.format not in ("GIF", "PNG", "TIFF", "WEBP"):
        return
    try:
        image.seek(1)
    except EOFError:
        return
    finally:
        image.seek(0)
    name = described(file)
    if name not in _animated:
        _animated.add(name)
        _LOG.warning("%s has more than one frame: the first is used", name)


def _to_rgb(image: Image.Image, file: File, transparency: Transparency) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        return _scaled(np.asarray(image), image.mode, file).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        solid = image.convert("RGBA")
        if transparency == "drop":
            return solid.convert("RGB")
        white = Image.new("RGBA", solid.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, solid).convert("RGB")
    if image.mode == "CMYK" and (profile := image.info.get("icc_profile")):
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        made: Any = ImageCms.profileToProfile(image, own, ImageCms.createProfile("sRGB"), outputMode="RGB")
        assert isinstance(made, Image.Image)
        return made
    if image.mode not in ("RGB", "L", "1", "P", "CMYK", "YCbCr", "HSV"):
        raise DataError(f"{described(file)} has pixels of the kind {image.mode}, which have no known form in RGB")
    return image.convert("RGB")


def _scaled(values: np.ndarray, mode: str, file: File) -> Image.Image:
    low, high = float(values.min()), float(values.max())  # NaN makes both NaN
    if mode == "F":
        if not (low >= 0 and high <= 255):
            raise DataError(f"{described(file)} has values from {low:g} to {high:g}, expected 0 to 1 or 0 to 255")
        return Image.fromarray(np.rint(values * 255 if high <= 1 else values).astype(np.uint8))
    if not (low >= 0 and high <= 65535):
        raise DataError(f"{described(file)} has values from {low:g} to {high:g}, expected 0 to 65535")
    made = np.empty(values.shape, np.uint8)
    rows = max(1, 500_000 // values.shape[1])  # what is worked on at once stays in the processor's cache
    for first in range(0, len(values), rows):
        made[first : first + rows] = (values[first : first + rows].astype(np.uint32) + 128) // 257  # odd: no ties
    return Image.fromarray(made)


def _inside(image: Image.Image, cut: Cut) -> Image.Image:
    left, top, right, bottom = cut.box
    box = (max(0, int(left)), max(0, int(top)), min(image.width, int(right)), min(image.height, int(bottom)))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(f"{described(cut.source)}: the box {cut.box} holds no pixel of {image.width} x {image.height}")
    return image.crop(box)

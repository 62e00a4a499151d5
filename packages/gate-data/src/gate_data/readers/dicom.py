"""DICOM: an image as a viewer shows it, in its window or, where it declares none, by its declared depth."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from gate_data.errors import DataError
from gate_data.imports import extra
from gate_data.readers.source import File, described, read_bytes
from wary_files.limits import reading, within

_PACKED = ("JPEG", "JPEG2000")
_DEFLATED = b"1.2.840.10008.1.2.1.99"
"""The transfer syntax of files that pydicom unpacks when it opens them."""


def is_dicom(name: str) -> bool:
    """Whether a file is called so."""
    return name.lower().endswith((".dcm", ".dicom"))


def dicom_picture(file: File, held: bytes | None = None) -> Image.Image:
    """The first frame in grey or RGB of 8 bits.

    Values are those after the modality's slope and intercept. Where the file has a window, its first one is shown, and
    otherwise all that its stored bits can hold; ``MONOCHROME1`` is turned round, so that bright is bright. Files of
    several frames (Enhanced CT and MR) have both by frame, or once for all.
    """
    name = described(file)
    pydicom = extra("medical", "pydicom", f"{name} is DICOM")
    processing = importlib.import_module("pydicom.pixels.processing")
    held = read_bytes(file) if held is None else held
    if _DEFLATED in held:
        raise DataError(f"{name} is DICOM that was packed as a whole, which may unpack to any size: save it unpacked")
    with reading(name, "DICOM"):
        content = pydicom.dcmread(io.BytesIO(held))
        frames = int(content.get("NumberOfFrames") or 1)
        within(int(content.Rows) * int(content.Columns) * frames, "pixels", name)
        if content.file_meta.TransferSyntaxUID.is_compressed:
            _check_packed(content.PixelData, frames, name)
        kind, pixels = str(content.PhotometricInterpretation), content.pixel_array
        _take_from_groups(content)
    if frames > 1:
        pixels = pixels[0]
    if kind == "RGB" or kind.startswith("YBR"):
        if pixels.dtype != np.uint8:
            raise DataError(f"{name} has colours of {content.BitsStored} bits, expected 8")
        if kind != "RGB":
            pixels = processing.convert_color_space(pixels, kind, "RGB")
        return Image.fromarray(pixels)
    if not kind.startswith("MONOCHROME"):
        raise DataError(f"{name} has pixels of the kind {kind}, which have no known form in RGB")
    low, high = _range(content)
    if not (math.isfinite(high - low) and high > low):
        raise DataError(f"{name} has values from {low:g} to {high:g}")
    values = processing.apply_modality_lut(pixels, content)
    if _is_turned(content):  # pydicom then gives what is above the window the range's lower end
        low, high = high, low
    if "WindowCenter" in content or "VOILUTSequence" in content:
        values = processing.apply_voi_lut(values, content, index=0)
    if not np.isfinite(values).all():
        raise DataError(f"{name} has a window or a table that makes no numbers of its values")
    shares = (values.astype(np.float64) - low) / (high - low)
    shown = np.rint(255 * shares.clip(0, 1)).astype(np.uint8)
    return Image.fromarray(255 - shown if kind == "MONOCHROME1" else shown)


def _is_turned(content: Any) -> bool:
    """Whether a window is shown by values that fall where the stored ones rise."""
    tables = content.get("VOILUTSequence") or content.get("ModalityLUTSequence")
    return "WindowCenter" in content and not tables and _rescaling(content)[0] < 0


def _rescaling(content: Any) -> tuple[float, float]:
    """Slope and intercept of stored values; pydicom takes both or neither."""
    if "RescaleSlope" not in content or "RescaleIntercept" not in content:
        return 1.0, 0.0
    return float(content.RescaleSlope), float(content.RescaleIntercept)


def _take_from_groups(content: Any) -> None:
    """Give a file the first frame's window and rescaling, where these are in groups of its frames, not in itself."""
    for groups in ("PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"):
        for group in (content.get(groups) or ())[:1]:
            for name in ("FrameVOILUTSequence", "PixelValueTransformationSequence"):
                for element in (part for item in (group.get(name) or ())[:1] for part in item):
                    if element.tag not in content:
                        content[element.tag] = element


def _check_packed(held: bytes, frames: int, name: str) -> None:
    """Frames are images of their own, which may be larger than the file says; RLE and JPEG-LS, by what they hold."""
    encapsulated = importlib.import_module("pydicom.encaps")
    for frame in encapsulated.generate_frames(held, number_of_frames=frames):
        with contextlib.suppress(UnidentifiedImageError), Image.open(io.BytesIO(frame), formats=_PACKED) as picture:
            within(picture.width * picture.height, "pixels", name)


def _range(content: Any) -> tuple[float, float]:
    """What the least and the largest stored value become, by the last of the file's tables that says so."""
    for table in ("VOILUTSequence", "ModalityLUTSequence"):
        if content.get(table):
            return 0.0, float((1 << int(content[table][0].LUTDescriptor[2])) - 1)
    bits, (slope, intercept) = int(content.BitsStored), _rescaling(content)
    least = -(1 << (bits - 1)) if content.PixelRepresentation else 0
    bounds = [slope * value + intercept for value in (least, least + (1 << bits) - 1)]
    return min(bounds), max(bounds)

"""Images that readers get wrong without a word: turned TIFF, 12 bits in 16, AVIF."""

from __future__ import annotations

import logging
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image, features

from oven_retrieval.pictures import read_rgb


def test_an_unpacked_tiff_that_is_turned_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    values = np.random.default_rng(0).integers(0, 255, (9, 5), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(values).transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    np.testing.assert_array_equal(np.asarray(read_rgb(path))[..., 0], values)


@pytest.mark.parametrize(("most", "bits"), [(250, 8), (4000, 12), (60_000, None)])
def test_few_bits_in_16_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, most: int, bits: int | None
) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.linspace(0, most, 64).astype(np.uint16).reshape(8, 8)).save(path)
    with caplog.at_level(logging.WARNING, "oven_retrieval.pictures"):
        read_rgb(path)
    assert (f"{bits} bits in 16" if bits else "") in caplog.text
    assert bool(caplog.text) == bool(bits)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_avif_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.avif"
    Image.new("RGB", (16, 16), (200, 20, 20)).save(path, quality=100)
    assert abs(np.asarray(read_rgb(path)).astype(int).mean(axis=(0, 1)) - (200, 20, 20)).max() < 6


def grey_tiff(path: Path, values: np.ndarray, photometric: int) -> None:
    """Write an unpacked TIFF of one row of 16-bit or float values; 0 is white where `photometric` is 0."""
    kind = {"u": 1, "i": 2, "f": 3}[values.dtype.kind]
    tags = {256: values.size, 257: 1, 258: values.itemsize * 8, 259: 1, 262: photometric, 273: 8, 277: 1, 278: 1,
            279: values.nbytes, 339: kind}  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = struct.pack("<2sHI", b"II", 42, 8 + values.nbytes)
    path.write_bytes(head + values.tobytes() + struct.pack("<H", len(tags)) + entries + struct.pack("<I", 0))


@pytest.mark.parametrize("dtype", ["<u2", "<f4"])
def test_values_that_grow_darker_are_turned_round(tmp_path: Path, dtype: str) -> None:
    """Films are scanned so; Pillow turns round 1 and 8 bits alone, and the others came out as negatives."""
    path, grey = tmp_path / "a.tif", np.arange(256)
    for photometric in (0, 1):
        grey_tiff(path, (grey * (257 if dtype == "<u2" else 1)).astype(dtype), photometric)
        expected = 255 - grey if photometric == 0 else grey
        assert (np.asarray(read_rgb(path))[0, :, 1] == expected).all()


def test_signed_values_of_8_bits_are_refused(tmp_path: Path) -> None:
    """Pillow takes their bytes for unsigned ones: -1 came out as white, and 127 as grey."""
    grey_tiff(tmp_path / "a.tif", np.array([-128, -1, 0, 127], np.int8), 1)
    with pytest.raises(ValueError, match="TIFF of signed values of 8 bits"):
        read_rgb(tmp_path / "a.tif")

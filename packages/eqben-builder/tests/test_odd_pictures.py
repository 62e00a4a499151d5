"""Images that readers get wrong without a word: turned TIFF, 12 bits in 16, AVIF."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features

from eqben_builder.pictures import decode


def test_an_unpacked_tiff_that_is_turned_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    values = np.random.default_rng(0).integers(0, 255, (9, 5), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(values).transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    np.testing.assert_array_equal(np.asarray(decode(path))[..., 0], values)


@pytest.mark.parametrize(("most", "bits"), [(250, 8), (4000, 12), (60_000, None)])
def test_few_bits_in_16_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, most: int, bits: int | None
) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.linspace(0, most, 64).astype(np.uint16).reshape(8, 8)).save(path)
    with caplog.at_level(logging.WARNING, "eqben_builder.pictures"):
        decode(path)
    assert (f"{bits} bits in 16" if bits else "") in caplog.text
    assert bool(caplog.text) == bool(bits)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_avif_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.avif"
    Image.new("RGB", (16, 16), (200, 20, 20)).save(path, quality=100)
    assert abs(np.asarray(decode(path)).astype(int).mean(axis=(0, 1)) - (200, 20, 20)).max() < 6

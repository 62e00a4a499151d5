"""Colours of 12 bits in files of 16: Pillow keeps the upper 8 bits, of which 4 are left, and every reader says so."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqben_builder.pictures import decode as decode_of_builder
from gate_data.readers.decode import decode
from oven_retrieval.pictures import read_rgb

READERS: dict[str, Callable[[Path], Any]] = {
    "gate-data": lambda path: decode(str(path)),
    "eqben-builder": decode_of_builder,
    "oven-retrieval": read_rgb,
}


def write_png(path: Path, values: np.ndarray) -> None:
    """Write 16 bits for each colour, which Pillow cannot."""
    high, wide, bands = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", wide, high, 16, {3: 2, 4: 6}[bands], 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.mark.parametrize("bands", [3, 4])
@pytest.mark.parametrize(("bits", "is_told"), [(8, True), (12, True), (16, False)])
@pytest.mark.parametrize("reader", READERS)
def test_colours_of_few_bits_in_16_are_told(
    reader: str, bits: int, is_told: bool, bands: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = np.random.default_rng(0).integers(0, 2**bits, (8, 8, bands))
    values[..., 3:] = 65535
    write_png(tmp_path / f"{bits}.png", values)
    pixels = np.asarray(READERS[reader](tmp_path / f"{bits}.png"))
    assert (pixels.max() < 16) == is_told
    assert ("has colours of at most 12 bits" in caplog.text) == is_told

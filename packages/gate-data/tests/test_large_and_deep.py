"""Pictures of more pixels than are decoded at once, and of more than 8 bits: smaller, and by declared depth."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_data.errors import DataError
from gate_data.readers import Cut
from gate_data.readers.decode import FORMATS, decode


def photograph(wide: int, high: int) -> np.ndarray:
    """Smooth colours with a red quarter, so that a part shows whether it is the right one."""
    across, down = np.meshgrid(np.linspace(0, 255, wide), np.linspace(0, 255, high))
    pixels = np.stack([across, down, 255 - across], 2).astype(np.uint8)
    pixels[: high // 4, : wide // 4] = (255, 0, 0)
    return pixels


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_MAX_PIXELS", "60000")


@pytest.mark.usefixtures("small_limit")
def test_a_large_jpeg_is_read_at_a_fraction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    picture = Image.fromarray(photograph(800, 600))
    picture.save(tmp_path / "a.jpg", quality=95)
    image = decode(str(tmp_path / "a.jpg"))
    assert image.size == (200, 150)  # 480,000 pixels: a quarter of the sides, for a half is 120,000
    expected = np.asarray(picture.resize((200, 150), Image.Resampling.BOX), float)
    assert np.abs(np.asarray(image) - expected).mean() < 3
    assert "a.jpg has 480,000 pixels: read at about 1/4 of its sides" in caplog.text
    assert decode(str(tmp_path / "a.jpg"), side=30).size == (100, 75)  # as before: at least twice the side


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("orientation", [1, 6])
def test_boxes_of_a_picture_that_is_read_smaller_show_the_same_part(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright = Image.fromarray(photograph(800, 600))
    turned = upright if orientation == 1 else upright.transpose(Image.Transpose.ROTATE_90)
    turned.save(tmp_path / "a.jpg", quality=95, exif=exif)
    part = decode(Cut(str(tmp_path / "a.jpg"), (0, 0, 200, 150)))
    assert part.size == (50, 37)
    assert np.abs(np.asarray(part, float)[4:-4, 4:-4] - (255, 0, 0)).max() < 20


def test_a_jpeg_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (800, 600)).save(tmp_path / "a.jpg")
    monkeypatch.setenv("GATE_RUNNER_MAX_PIXELS", "7000")
    with pytest.raises(DataError, match=r"a\.jpg has 480,000 pixels, more than 448,000; GATE_RUNNER_MAX_PIXELS"):
        decode(str(tmp_path / "a.jpg"))


@pytest.mark.parametrize(
    ("ending", "kind"), [("png", "PNG"), ("webp", "WEBP"), ("heic", "HEIF"), ("gif", "GIF"), ("tif", "TIFF")]
)
@pytest.mark.usefixtures("small_limit")
def test_what_is_only_decoded_whole_says_what_to_do(
    ending: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ending == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    path = tmp_path / f"a.{ending}"
    Image.fromarray(photograph(800, 600)).save(path)
    with pytest.raises(DataError) as refused:
        decode(str(path))
    assert f"a.{ending} has 480,000 pixels, more than 60,000, and {kind} is only decoded whole: save it" in str(
        refused.value
    )
    (way_on,) = re.findall(r"GATE_RUNNER_MAX_PIXELS=(\d+)", str(refused.value))
    monkeypatch.setenv("GATE_RUNNER_MAX_PIXELS", way_on)
    assert decode(str(path)).size == (800, 600)


VALUES = np.array([[0, 1000], [2048, 4095]], np.uint16)
EIGHT = np.rint(VALUES / 4095 * 255)


def packed(path: Path) -> None:
    """A TIFF of 12 bits for each value, without bytes between them."""
    wide = [int(value) for row in VALUES for value in row]
    data = b"".join(bytes([(a >> 4), ((a & 15) << 4) | (b >> 8), b & 255]) for a, b in (wide[:2], wide[2:]))
    tags = [(256, 3, 2), (257, 3, 2), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1), (278, 3, 2),
            (279, 4, len(data))]  # fmt: skip
    data += b"\0" * (-len(data) % 2)
    entries = b"".join(
        struct.pack("<HHI", tag, kind, 1) + (struct.pack("<HH", value, 0) if kind == 3 else struct.pack("<I", value))
        for tag, kind, value in tags
    )
    head = b"II*\0" + struct.pack("<I", 8 + len(data))
    path.write_bytes(head + data + struct.pack("<H", len(tags)) + entries + struct.pack("<I", 0))


@pytest.mark.parametrize("how", ["packed", "largest", "ome"])
def test_grey_of_twelve_bits_is_scaled_by_its_declared_depth(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.tif"
    if how == "packed":
        packed(path)
    else:
        ome = '<OME><Image><Pixels SignificantBits="12" Type="uint16"/></Image></OME>'
        Image.fromarray(VALUES).save(path, tiffinfo={281: 4095} if how == "largest" else {270: ome})
    assert np.array_equal(np.asarray(decode(str(path)))[..., 0], EIGHT)


def test_twelve_bits_that_nobody_declares_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Image.fromarray(VALUES).save(tmp_path / "undeclared.tif")
    assert np.asarray(decode(str(tmp_path / "undeclared.tif"))).max() == 16
    assert "undeclared.tif has values of 12 bits and declares 16" in caplog.text
    Image.fromarray(VALUES).save(tmp_path / "wrong.tif", tiffinfo={281: 1000})
    with pytest.raises(DataError, match=r"values from 0 to 4095, expected 0 to 1000"):
        decode(str(tmp_path / "wrong.tif"))


def test_the_limit_lets_a_phones_photograph_through(tmp_path: Path) -> None:
    """108 megapixels, in the JPEG that phones write; 12,000 x 9,000."""
    Image.new("L", (12_000, 9_000), 90).save(tmp_path / "a.jpg")
    assert decode(str(tmp_path / "a.jpg"), side=224).size == (1500, 1125)
    assert decode(str(tmp_path / "a.jpg")).size == (6000, 4500)


@pytest.mark.parametrize("form", ["AVIF", "HEIF"])
def test_sizes_that_avif_and_heic_claim_are_refused_before_they_are_decoded(form: str, tmp_path: Path) -> None:
    if form not in FORMATS:
        pytest.skip(f"nothing here reads {form}")
    path = tmp_path / "a.picture"
    Image.new("RGB", (2, 2)).save(path, "PNG")
    decode(str(path))  # by which Pillow can write HEIC
    Image.new("RGB", (100, 80)).save(path, form)
    content = path.read_bytes()
    extent = content.index(b"ispe") + 8
    for side in (16_384, 2**31 - 1):
        path.write_bytes(content[:extent] + struct.pack(">II", side, side) + content[extent + 8 :])
        with pytest.raises(DataError, match=r"GATE_RUNNER_MAX_PIXELS|it is none of"):
            decode(str(path))

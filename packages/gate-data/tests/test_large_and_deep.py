"""Images of more pixels than are decoded at once, and of more than 8 bits: smaller, and by declared depth."""

from __future__ import annotations

import io
import math
import os
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_data.errors import DataError, MissingExtraError
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
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "60000")


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
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "7000")
    with pytest.raises(DataError, match=r"a\.jpg has 480,000 pixels, more than 448,000; WARY_FILES_MAX_PIXELS"):
        decode(str(tmp_path / "a.jpg"))


@pytest.mark.parametrize(("ending", "kind"), [("png", "PNG"), ("webp", "WEBP"), ("heic", "HEIF"), ("gif", "GIF")])
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
    (way_on,) = re.findall(r"WARY_FILES_MAX_PIXELS=(\d+)", str(refused.value))
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", way_on)
    assert decode(str(path)).size == (800, 600)


@pytest.mark.usefixtures("small_limit")
def test_a_large_tiff_gives_its_overview(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(photograph(800, 600), photometric="rgb")
        for wide, high in ((400, 300), (200, 150), (50, 37)):
            writer.write(photograph(wide, high), photometric="rgb", subfiletype=1)
    assert decode(str(tmp_path / "a.tif")).size == (200, 150)  # by tiles it would have 267 pixels a side
    assert decode(str(tmp_path / "a.tif"), side=30).size == (50, 37)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("shape", [(601, 803, 3), (601, 803)])
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_large_tiff_is_read_by_its_tiles(
    tmp_path: Path, compression: str | None, shape: tuple[int, ...], in_memory: bool
) -> None:
    tifffile = pytest.importorskip("tifffile")
    rng = np.random.default_rng(0)
    for values in (rng.integers(0, 256, shape).astype(np.uint8), rng.integers(0, 65536, shape[:2]).astype(np.uint16)):
        path = tmp_path / f"{values.dtype}.tif"
        tifffile.imwrite(path, values, tile=(128, 144), compression=compression)
        image = decode(str(path), held=path.read_bytes() if in_memory else None)
        factor = math.ceil(math.sqrt(values.shape[0] * values.shape[1] / 60_000))
        assert image.size == (-(-803 // factor), -(-601 // factor))
        last = values[3 * factor : 4 * factor, -(803 % factor or factor) :].astype(float).mean((0, 1))
        expected = last / 257 if values.dtype == np.uint16 else last
        assert np.abs(np.asarray(image)[3, -1] - expected).max() <= 1
        middle = values[2 * factor : 3 * factor, 5 * factor : 6 * factor].astype(float).mean((0, 1))
        assert np.abs(np.asarray(image)[2, 5] - (middle / 257 if values.dtype == np.uint16 else middle)).max() <= 1


@pytest.mark.usefixtures("small_limit")
def test_a_large_tiff_of_one_strip_or_without_the_extra_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a.tif", photograph(800, 600), rowsperstrip=600)
    with pytest.raises(DataError, match=r"a tile of .*a\.tif has 480,000 pixels"):
        decode(str(tmp_path / "a.tif"))
    monkeypatch.setitem(__import__("sys").modules, "tifffile", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gate-data\[large\]' reads it by its tiles"):
        decode(str(tmp_path / "a.tif"))


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


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_eight_bits_in_sixteen_are_said_or_declared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[np.generic]
) -> None:
    values = np.linspace(0, 255, 64).astype(kind).reshape(8, 8)
    Image.fromarray(values).save(tmp_path / "eight.tif")
    decode(str(tmp_path / "eight.tif"))
    assert "eight.tif has values of 8 bits and declares 16: it is nearly black" in caplog.text
    Image.fromarray(values).save(tmp_path / "declared.tif", tiffinfo={281: 255})
    assert np.array_equal(np.asarray(decode(str(tmp_path / "declared.tif")))[..., 0], values)
    Image.fromarray(np.zeros((8, 8), kind)).save(tmp_path / "empty.tif")
    decode(str(tmp_path / "empty.tif"))
    assert "empty.tif" not in caplog.text


def test_twelve_bits_that_nobody_declares_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Image.fromarray(VALUES).save(tmp_path / "undeclared.tif")
    assert np.asarray(decode(str(tmp_path / "undeclared.tif"))).max() == 16
    assert "undeclared.tif has values of 12 bits and declares 16" in caplog.text
    Image.fromarray(VALUES).save(tmp_path / "wrong.tif", tiffinfo={281: 1000})
    with pytest.raises(DataError, match=r"values from 0 to 4095, expected 0 to 1000"):
        decode(str(tmp_path / "wrong.tif"))


def dicom(path: Path, values: np.ndarray, syntax: str = "1.2.840.10008.1.2.1", **fields: object) -> bytes:
    """A file of one image, as `pydicom` writes it."""
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import UID, SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = UID(syntax), SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    content = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    about = {"Rows": values.shape[0], "Columns": values.shape[1], "SamplesPerPixel": 1, "BitsAllocated": 16,
             "BitsStored": 12, "HighBit": 11, "PixelRepresentation": 0, "PhotometricInterpretation": "MONOCHROME2",
             "PixelData": values.tobytes(), **fields}  # fmt: skip
    for name, value in about.items():
        setattr(content, name, value)
    content["PixelData"].is_undefined_length = UID(syntax).is_compressed
    pydicom.dcmwrite(path, content, enforce_file_format=True)
    return path.read_bytes()


def test_dicom_is_shown_in_its_window(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    dicom(path, VALUES)
    assert np.array_equal(np.asarray(decode(str(path)))[..., 0], EIGHT)
    content = dicom(path, VALUES, PhotometricInterpretation="MONOCHROME1")
    assert np.array_equal(np.asarray(decode(str(path), held=content))[..., 0], 255 - EIGHT)
    # Hounsfield units from -1000; the window of the lung, by the standard's formula (PS3.3 C.11.2.1.2.1)
    fields = {
        "RescaleSlope": "1",
        "RescaleIntercept": "-1000",
        "WindowCenter": ["-500", "40"],
        "WindowWidth": ["1500", "80"],
    }
    dicom(path, VALUES, **fields)
    shares = ((VALUES.astype(float) - 1000 + 500 + 0.5) / 1499 + 0.5).clip(0, 1)
    assert np.abs(np.asarray(decode(str(path)))[..., 0] - 255 * shares).max() <= 0.51
    signed = VALUES.astype(np.int16) - 2048
    dicom(path, signed, PixelRepresentation=1)
    assert np.abs(np.asarray(decode(str(path)))[..., 0] - EIGHT).max() <= 1


@pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_a_window_of_falling_values_is_no_negative(tmp_path: Path, function: str) -> None:
    """With a slope below 0, what is above the window came out black, and what is below it white."""
    path, window = tmp_path / "a.dcm", {"WindowCenter": "40", "WindowWidth": "400", "VOILUTFunction": function}
    dicom(path, VALUES, **window, RescaleSlope="1", RescaleIntercept="-2000")
    rising = np.asarray(decode(str(path)))
    dicom(path, 4000 - VALUES.clip(0, 4000), **window, RescaleSlope="-1", RescaleIntercept="2000")
    assert np.abs(np.asarray(decode(str(path))).astype(int) - rising).max() <= 1
    assert len(np.unique(rising)) > 1


def test_a_slope_without_an_intercept_scales_neither_values_nor_their_range(tmp_path: Path) -> None:
    dicom(tmp_path / "a.dcm", VALUES, RescaleSlope="2")
    assert np.array_equal(np.asarray(decode(str(tmp_path / "a.dcm")))[..., 0], EIGHT)


@pytest.mark.parametrize("groups", ["SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"])
def test_a_window_of_frames_is_that_of_the_file_itself(tmp_path: Path, groups: str) -> None:
    """Enhanced CT and MR have it in groups; it was passed over, and stored bits were shown as they are."""
    pytest.importorskip("pydicom")
    from pydicom.dataset import Dataset

    window = {"WindowCenter": 40, "WindowWidth": 400}
    rescaling = {"RescaleSlope": 1, "RescaleIntercept": -1024, "RescaleType": "HU"}
    values = np.linspace(0, 2047, 64).astype(np.uint16).reshape(8, 8)
    plain, framed = tmp_path / "plain.dcm", tmp_path / "framed.dcm"
    dicom(plain, values, **window, **rescaling)

    def dataset(**fields: object) -> Dataset:
        made = Dataset()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    group = dataset(FrameVOILUTSequence=[dataset(**window)], PixelValueTransformationSequence=[dataset(**rescaling)])
    dicom(framed, values, NumberOfFrames=1, **{groups: [group]})
    expected = np.asarray(decode(str(plain)))
    assert len(np.unique(expected)) > 5
    assert (np.asarray(decode(str(framed))) == expected).all()


def test_dicom_that_is_none_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.dcm"
    path.write_bytes(b"no DICOM")
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    with pytest.raises(MissingExtraError, match=r"a\.dcm is DICOM: pip install 'gate-data\[medical\]'"):
        decode(str(path))
    monkeypatch.undo()
    pytest.importorskip("pydicom")
    with pytest.raises(DataError, match=r"a\.dcm cannot be read as DICOM"):
        decode(str(path))
    dicom(path, VALUES)
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "3")
    with pytest.raises(DataError, match=r"a\.dcm has 4 pixels, more than 3"):
        decode(str(path))


@pytest.mark.filterwarnings("ignore:Invalid value for VR DS")
def test_dicom_whose_packed_frame_or_window_is_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, packed = tmp_path / "a.dcm", io.BytesIO()
    dicom(path, VALUES, WindowCenter="nan", WindowWidth="nan")
    with pytest.raises(DataError, match=r"a\.dcm has a window or a table that makes no numbers"):
        decode(str(path))
    encapsulate = pytest.importorskip("pydicom.encaps").encapsulate
    Image.new("L", (64, 64)).save(packed, "JPEG")
    eight = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7, "PixelData": encapsulate([packed.getvalue()])}
    dicom(path, VALUES, syntax="1.2.840.10008.1.2.4.50", **eight)
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "4000")
    with pytest.raises(DataError, match=r"a\.dcm has 4,096 pixels, more than 4,000"):  # its header says 4
        decode(str(path))


def test_the_limit_lets_a_phones_photograph_through(tmp_path: Path) -> None:
    """108 megapixels, in the JPEG that phones write; 12,000 x 9,000."""
    Image.new("L", (12_000, 9_000), 90).save(tmp_path / "a.jpg")
    assert decode(str(tmp_path / "a.jpg"), side=224).size == (1500, 1125)
    assert decode(str(tmp_path / "a.jpg")).size == (6000, 4500)


def test_dicom_that_unpacks_when_it_is_opened_or_has_no_range_is_refused(tmp_path: Path) -> None:
    """pydicom unpacks a deflated file whole: half a megabyte of zeros was a gigabyte."""
    path = tmp_path / "a.dcm"
    content = dicom(path, VALUES)
    path.write_bytes(content.replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99"))
    with pytest.raises(DataError, match=r"a\.dcm is DICOM that was packed as a whole"):
        decode(str(path))
    dicom(path, VALUES, RescaleSlope="1e308", RescaleIntercept="1e308")
    with pytest.raises(DataError, match=r"a\.dcm has values from 1e\+308 to inf"):
        decode(str(path))


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
        with pytest.raises(DataError, match=r"WARY_FILES_MAX_PIXELS|it is none of"):
            decode(str(path))


def test_a_large_tiff_that_lists_fewer_tiles_than_it_claims_is_refused(tmp_path: Path) -> None:
    """200 bytes that claim 114,425,919 pixels took 5.5 seconds, and came out black."""
    pytest.importorskip("tifffile")
    file = io.BytesIO()
    Image.fromarray(np.arange(63, dtype=np.uint16).reshape(7, 9) * 99).save(file, "TIFF")
    height = struct.pack("<HHI", 257, 4, 1)
    content = file.getvalue()
    at = content.index(height) + len(height)
    (tmp_path / "a.tif").write_bytes(content[:at] + struct.pack("<I", 12_713_991) + content[at + 4 :])
    with pytest.raises(DataError, match="it lists 1 of 1816285 tiles"):
        decode(str(tmp_path / "a.tif"), 8)


def test_a_folder_is_recognised_without_a_path_or_a_question_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100,000 files, most of the time went into paths that were made, sorted and asked about."""
    from gate_data.own.layouts import recognised

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(300):
            (tmp_path / name / f"{number}.png").touch()
    asked_about: list[Path] = []
    plain = Path.stat

    def counted(path: Path, **how: bool) -> os.stat_result:
        asked_about.append(path)
        return plain(path, **how)

    monkeypatch.setattr(Path, "stat", counted)
    assert recognised(tmp_path) is None
    assert len(asked_about) < 150

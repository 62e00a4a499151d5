"""The readers: every kind of image a camera or scanner writes, archives in place, tables that name their lines."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import random
import re
import struct
import tarfile
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from gate_data.boxes.files import read_coco, voc
from gate_data.errors import DataError
from gate_data.originals.video import Videos
from gate_data.readers import ClassMap, Clip, Cut, Files, Member, Stored, by_stem, captions, dealt, json_lists, table
from gate_data.readers.clips import read_clip, undecodable
from gate_data.readers.decode import decode
from gate_data.readers.splits import spread
from gate_data.readers.tables import fields, records
from wary_files import archives, pickles

ROWS = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def pixels(path: Path) -> np.ndarray:
    return np.asarray(decode(str(path)))


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=2)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int, tmp_path: Path) -> None:
    image = Image.fromarray(grey(ROWS))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    upright = {
        1: ROWS, 2: ROWS[:, ::-1], 3: ROWS[::-1, ::-1], 4: ROWS[::-1], 5: ROWS.T, 6: np.rot90(ROWS, -1),
        7: ROWS[::-1, ::-1].T, 8: np.rot90(ROWS),
    }  # fmt: skip
    assert np.array_equal(pixels(tmp_path / "a.png"), grey(upright[orientation]))


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_become_eight(ending: str, tmp_path: Path) -> None:
    Image.fromarray(ROWS.astype(np.uint16) * 257).save(tmp_path / f"a.{ending}")
    assert np.array_equal(pixels(tmp_path / f"a.{ending}"), grey(ROWS))


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_floats_of_both_ranges(scale: float, tmp_path: Path) -> None:
    Image.fromarray((ROWS / 255 * scale).astype(np.float32)).save(tmp_path / "a.tif")
    assert np.array_equal(pixels(tmp_path / "a.tif"), grey(ROWS))


@pytest.mark.parametrize("value", [-1.0, 300.0, np.nan])
def test_floats_of_no_known_range_are_refused(value: float, tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), value, np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"a\.tif has values from .*, expected 0 to 1 or 0 to 255"):
        pixels(tmp_path / "a.tif")


def test_transparency_lies_over_white(tmp_path: Path) -> None:
    values = np.zeros((1, 3, 4), np.uint8)
    values[0, :, 3] = (0, 128, 255)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert pixels(tmp_path / "a.png")[0, :, 0].tolist() == [255, 127, 0]
    palette = Image.new("P", (2, 1))
    palette.putpalette([9, 9, 9, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "p.png", transparency=0)
    assert pixels(tmp_path / "p.png")[0].tolist() == [[255, 255, 255], [200, 100, 50]]
    Image.fromarray(ROWS).save(tmp_path / "l.png", transparency=20)
    assert pixels(tmp_path / "l.png")[0, :3, 0].tolist() == [0, 255, 40]


def test_cmyk_with_and_without_a_profile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    image = Image.new("CMYK", (4, 4), (0, 255, 255, 0))
    image.save(tmp_path / "plain.tif")
    assert pixels(tmp_path / "plain.tif")[0, 0].tolist() == [255, 0, 0]
    image.save(tmp_path / "broken.tif", icc_profile=b"no profile")
    image.save(tmp_path / "wrong.tif", icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for name in ("broken.tif", "wrong.tif", "wrong.tif"):
        assert pixels(tmp_path / name)[0, 0].tolist() == [255, 0, 0]
    remarks = [record.message for record in caplog.records if "colour profile that does not fit" in record.message]
    assert [remark.partition(" has ")[0] for remark in remarks] == [
        str(tmp_path / name) for name in ("broken.tif", "wrong.tif")
    ]


def test_an_animation_gives_its_first_frame_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frames = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (250, 10)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert pixels(tmp_path / "a.gif")[0, 0, 0] == 250
    assert "a.gif has more than one frame: the first is used" in caplog.text


def test_too_many_pixels_are_refused_and_the_limit_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (40, 30)).save(tmp_path / "a.png")
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "1199")
    with pytest.raises(DataError, match=r"a\.png has 1,200 pixels, more than 1,199, and PNG is only"):
        pixels(tmp_path / "a.png")
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "1200")
    assert pixels(tmp_path / "a.png").shape == (30, 40, 3)
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "many")
    with pytest.raises(DataError, match="expected a positive whole number"):
        pixels(tmp_path / "a.png")


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    Image.new("1", (16_000, 16_000)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="WARY_FILES_MAX_PIXELS"):
        pixels(tmp_path / "a.png")


def test_a_picture_whose_header_confuses_pillow_is_an_error_of_that_picture(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.tif")
    content = (tmp_path / "a.tif").read_bytes()
    strips = b"\x11\x01\x04\x00"  # where they begin, as a whole number: as a fraction, Pillow trips over it
    assert strips in content
    (tmp_path / "a.tif").write_bytes(content.replace(strips, b"\x11\x01\x05\x00"))
    with pytest.raises(DataError, match=r"a.tif cannot be read as an image"):
        decode(str(tmp_path / "a.tif"))
    with pytest.raises(DataError, match=r"a.tif cannot be read as an annotation"):
        ClassMap({0: 0}).read(str(tmp_path / "a.tif"), 4)


def test_every_sixteen_bit_value_is_the_nearest_of_eight(tmp_path: Path) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    Image.fromarray(values).save(tmp_path / "all.png")
    expected = np.rint(values / 257)
    assert np.array_equal(np.asarray(decode(str(tmp_path / "all.png")))[..., 0], expected)


def test_a_box_is_cut_out_and_must_hold_a_pixel(tmp_path: Path) -> None:
    Image.fromarray(grey(ROWS)).save(tmp_path / "a.png")
    cut = np.asarray(decode(Cut(str(tmp_path / "a.png"), (1, 0, 99, 2))))
    assert np.array_equal(cut, grey(ROWS[0:2, 1:4]))
    with pytest.raises(DataError, match="holds no pixel of 4 x 3"):
        decode(Cut(str(tmp_path / "a.png"), (7, 0, 9, 2)))


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_are_read_in_place(kind: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(grey(ROWS)).save(buffer, "PNG")
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("x/a.png", buffer.getvalue())
            packed.writestr("../evil.png", b"")
    else:
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo("x/a.png")
            info.size = len(buffer.getvalue())
            tar.addfile(info, io.BytesIO(buffer.getvalue()))
    assert np.array_equal(np.asarray(decode(Member(str(path), "x/a.png"))), grey(ROWS))
    assert by_stem([path])["a"] == Member(str(path), "x/a.png")
    with pytest.raises(DataError, match="no member b"):
        archives.read(path, "b")
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=f"a.{kind} is not a whole {kind} file"):
        archives.members(path)


def test_a_path_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").touch()
    for name in ("../secret", "/etc/passwd", "a/../../secret"):
        with pytest.raises(DataError, match="leads out of"):
            Files(tmp_path / "in").get(name, "list.txt, line 1")


def test_an_archive_whose_member_has_no_name_is_no_whole_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("b", "text")
    path.write_bytes(path.read_bytes().replace(b"b", b"\0"))  # a name ends at its first zero
    with pytest.raises(DataError, match=r"a.zip is not a whole zip file"):
        archives.members(path)


def test_tables_name_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('image,level\n10_left,0\n10_right,"0,5"\n')
    with pytest.raises(DataError, match="'0,5', expected a number; write a decimal comma as a point"):
        list(table(path, ["image", "level"]))[1].number("level")
    path.write_text("image,level\n10_left,0\n10_right,seven\n")
    rows = list(table(path, ["image", "level"]))
    with pytest.raises(DataError, match=r"a\.csv, line 3: field 'level' is 'seven', expected a number from 0 to 4"):
        rows[1].integer("level", 0, 4)
    with pytest.raises(DataError, match=r"a\.csv, line 1: no field 'grade', expected image, grade; found image, level"):
        list(table(path, ["image", "grade"]))
    path.write_text("image,level\na,0,1\n")
    with pytest.raises(DataError, match=r"line 2: 3 fields, expected 2"):
        list(table(path, ["image"]))
    path.write_bytes(b"image\n\xff\xfe\n")
    with pytest.raises(DataError, match="cannot be read as a table"):
        list(table(path, ["image"]))
    path.write_text("image\n")
    with pytest.raises(DataError, match="holds no rows"):
        list(table(path, ["image"]))
    (tmp_path / "a.tab").write_text('lesion_id\timage_id\n"L1"\tI1\n')
    assert next(table(tmp_path / "a.tab", ["image_id"])).text("lesion_id") == "L1"
    (tmp_path / "a.jsonl").write_text('{"id": 3}\n\n[1]\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 3 holds a list"):
        list(table(tmp_path / "a.jsonl", ["id"]))
    (tmp_path / "deep.json").write_text("[" * 9)
    with pytest.raises(DataError, match=r"deep\.json is no JSON of objects: expected '{' at character 0"):
        list(records(tmp_path / "deep.json", "images"))
    (tmp_path / "deep.json").write_text('{"images": [' + "[" * 200_000)
    with pytest.raises(DataError, match=r"deep\.json: nested too deeply"):
        list(records(tmp_path / "deep.json", "images"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    before=st.dictionaries(st.text(max_size=3).map("x".__add__), VALUES, max_size=3),
    listed=st.lists(VALUES),
    after=st.dictionaries(st.text(max_size=3).map("y".__add__), VALUES, max_size=2),
    indent=st.sampled_from([None, 1]),
    piece=st.integers(1, 40),
)
def test_a_json_list_is_read_entry_by_entry_as_json_reads_it(
    before: dict[str, Any], listed: list[Any], after: dict[str, Any], indent: int | None, piece: int
) -> None:
    text = json.dumps({**before, "questions": listed, **after}, indent=indent)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lists, "_PIECE", piece)
        path = Path(folder) / "a.json"
        path.write_text(text, encoding="utf-8")
        assert list(json_lists.entries(path, "questions")) == list(enumerate(listed))
        path.write_text(text[:-1], encoding="utf-8")
        with pytest.raises(ValueError, match="at character"):
            list(json_lists.entries(path, "questions"))


def test_records_of_wrong_json_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    wrong = {
        '{"images": [{"id": 1}, 3]}': "images, entry 1 is a int, expected an object",
        '{"images": []}': "'images' is missing or empty",
        '{"image": [{}]}': "'images' is missing or empty",
        '{"images": 5}': "'images' is int, expected a list",
        '{"images": [{}]} x': "something follows the object",
        '{"images": [{} {}]}': "expected ',' at character 15, found '{'",
        '[{"id": 1}]': "expected '{' at character 0",
    }
    for text, message in wrong.items():
        path.write_text(text)
        with pytest.raises(DataError, match=re.escape(message)):
            list(records(path, "images"))
    with pytest.raises(DataError, match="is not there"):
        list(records(tmp_path / "b.json", "images"))


def test_parquet_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": [1, 2], "name": ["a", None]}), tmp_path / "a.parquet")
    rows = list(table(tmp_path / "a.parquet", ["id"]))
    assert [row.integer("id") for row in rows] == [1, 2]
    with pytest.raises(DataError, match=r"a\.parquet, row 1: field 'name' is missing"):
        rows[1].text("name")
    with pytest.raises(DataError, match=r"a\.parquet: no field 'label'"):
        next(table(tmp_path / "a.parquet", ["label"]))


def test_parquet_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that the file stores once and names in each row."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"name": ["x" * 20_000] * 300}), path)
    assert path.stat().st_size < 50_000
    assert len(list(table(path, ["name"]))) == 300
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "200000")
    rows = table(path, ["name"])
    assert len(list(itertools.islice(rows, 9))) == 9
    with pytest.raises(DataError, match=r"a\.parquet unpacks to more than [\d,]+ bytes; WARY_FILES_MAX_BYTES"):
        list(rows)


def test_parquet_with_a_date_that_python_has_not(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = arrow.array([2**62], arrow.int64()).cast(arrow.timestamp("us"))
    parquet.write_table(arrow.table({"name": times}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet cannot be read as Parquet: date value out of range"):
        list(table(tmp_path / "a.parquet", ["name"]))


def test_parquet_with_a_field_twice(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], names=["name", "name"]), path)
    with pytest.raises(DataError, match=r"a\.parquet: the field 'name' comes twice"):
        list(table(path, ["name"]))


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1),
                          st.integers(0, 10**6)), min_size=1, max_size=5))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_paths_may_hold_blanks(entries: list[tuple[str, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.txt"
        path.write_text("".join(f"a {name}.jpg {number}\n" for name, number in entries), encoding="utf-8")
        rows = fields(path, "file", "label", last=True)
        assert [(row.text("file"), row.integer("label")) for row in rows] == [(f"a {n}.jpg", k) for n, k in entries]


def test_maps_by_value_and_by_colour(tmp_path: Path) -> None:
    Image.fromarray(np.array([[7, 8], [0, 7]], np.uint8)).save(tmp_path / "a.png")
    kind = ClassMap({7: 0, 8: 1}, ignored=(0,))
    assert kind.read(str(tmp_path / "a.png")).tolist() == [[0, 1], [-100, 0]]
    with pytest.raises(DataError, match=r"a\.png has the value 8, expected 0 to 7"):
        ClassMap({7: 0}).read(str(tmp_path / "a.png"))
    with pytest.raises(DataError, match=r"a\.png has the value 0, which is no class: classes have 7 to 8$"):
        ClassMap({7: 0, 8: 1}).read(str(tmp_path / "a.png"))
    with pytest.raises(DataError, match=r"which is no class: classes have 2, 8; 0 counts nowhere$"):
        ClassMap({2: 0, 8: 1}, ignored=(0,)).read(str(tmp_path / "a.png"))
    assert ClassMap({7: 0}, others=-100).read(str(tmp_path / "a.png")).tolist() == [[0, -100], [-100, 0]]
    coloured = np.zeros((1, 2, 3), np.uint8)
    coloured[0, 1] = (128, 64, 128)
    Image.fromarray(coloured).save(tmp_path / "c.png")
    colours = {(0, 0, 0): 0, (128, 64, 128): 7}
    assert ClassMap({7: 0}, ignored=(0,), colours=colours).read(str(tmp_path / "c.png")).tolist() == [[-100, 0]]
    with pytest.raises(DataError, match=r"the colour \(128, 64, 128\) in row 0, column 1: no class"):
        ClassMap({7: 0}, ignored=(0,), colours={(0, 0, 0): 0, (1, 2, 3): 7}).read(str(tmp_path / "c.png"))


def test_matlab_and_hdf5(tmp_path: Path) -> None:
    io_ = pytest.importorskip("scipy.io")
    h5py = pytest.importorskip("h5py")
    io_.savemat(tmp_path / "a.mat", {"S": np.array([[1, 2]], np.uint8), "names": 3})
    kind = ClassMap({1: 0, 2: 1}, key="S")
    assert kind.read(str(tmp_path / "a.mat")).tolist() == [[0, 1]]
    with pytest.raises(DataError, match=r"a\.mat has no variable 'T'; it has S, names"):
        ClassMap({1: 0}, key="T").read(str(tmp_path / "a.mat"))
    with h5py.File(tmp_path / "b.mat", "w") as file:
        file["images"] = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    source = Stored(str(tmp_path / "b.mat"), "images", 1, (2, 1, 0))
    assert np.asarray(decode(source)).shape == (5, 4, 3)
    with pytest.raises(DataError, match="images, row 2 is not there: images has 2 rows"):
        decode(source._replace(row=2))
    (tmp_path / "c.mat").write_bytes(b"MATLAB 5.0 and no more")
    with pytest.raises(DataError, match=r"c\.mat cannot be read as MATLAB 5"):
        kind.read(str(tmp_path / "c.mat"))


def test_coco_boxes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for name in ("x.jpg", "y.jpg"):
        Image.new("RGB", (9, 8)).save(tmp_path / name)
    path.write_text(
        '{"images": [{"id": 5, "file_name": "x.jpg", "width": 9, "height": 8}, {"id": 6, "file_name": "y.jpg"}],'
        '"categories": [{"id": 18, "name": "dog"}, {"id": 2, "name": "cat"}],'
        '"annotations": [{"image_id": 5, "category_id": 18, "bbox": [1, 2, 3, 4]}]}'
    )
    read = read_coco(path)
    first, second = read.objects.rows
    assert read.classes == ("cat", "dog")
    assert [Path(file).name for file in read.files] == ["x.jpg", "y.jpg"]
    assert (first["box"].tolist(), first["label"].tolist(), len(second["box"])) == ([[1, 2, 3, 4]], [1], 0)
    path.write_text(path.read_text().replace('"image_id": 5', '"image_id": 7'))
    with pytest.raises(DataError, match=r"entry 0: field 'image_id' is '7', expected the id of an image"):
        read_coco(path)


def test_voc_boxes_and_no_entities(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    inner = (
        "<annotation><filename>a.jpg</filename><size><width>9</width><height>8</height></size><object><name>dog</name>"
        "<difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>"
    )
    path.write_text(inner)
    assert voc(path) == ((9, 8), [("dog", (0, 1, 3, 3), True)])
    path.write_text(inner.replace("dog", " "))
    with pytest.raises(DataError, match="field 'name' is missing, expected text"):
        voc(path)
    path.write_text(f'<!DOCTYPE a [<!ENTITY b "boom">]>{inner}')
    with pytest.raises(DataError, match="declares an entity"):
        voc(path)


def test_captions_in_kaggles_form_with_its_one_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("image_name| comment_number| comment\na.jpg| 0| A dog , | and more\na.jpg| 4   A dog runs .\n")
    assert [picture.captions for picture in captions.numbered(path)] == [("A dog , | and more", "A dog runs .")]
    path.write_text("a.jpg| no number\n")
    with pytest.raises(DataError, match="line 1: expected an image, a number and a caption"):
        list(captions.numbered(path))


@given(st.lists(st.integers(0, 5), min_size=3, max_size=60), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_a_limit_is_spread_over_the_classes(labels: list[int], limit: int) -> None:
    rows = spread(labels, limit)
    assert len(rows) == len(set(rows)) == min(limit, len(labels))
    counts = np.bincount([labels[row] for row in rows], minlength=6)
    bincount = np.bincount(labels, minlength=6)
    for index in range(6):  # a class is short only where it has no more, or no other has two more
        assert counts[index] == bincount[index] or counts[index] >= counts.max() - 1


@given(st.lists(st.integers(0, 9), min_size=12, max_size=80))
@settings(max_examples=60, deadline=None)
def test_no_group_is_on_two_sides(groups: list[int]) -> None:
    if len(set(groups)) < 3:
        with pytest.raises(DataError, match="too few for 3 splits"):
            dealt(groups, (0.7, 0.1))
        return
    parts = dealt(groups, (0.7, 0.1))
    assert sorted(row for part in parts for row in part) == list(range(len(groups)))
    sides = [{groups[row] for row in part} for part in parts]
    assert all(sides)
    assert sum(map(len, sides)) == len(set().union(*sides))


VALUES = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4), "fine_labels": [1, 2, 3], "names": ["a.png"], "half": 0.5,
    "big": np.arange(3, dtype=">i4"), "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "one": np.int64(4),
    "bytes": b"\x00\xff",
}  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol(protocol: int) -> None:
    loaded = pickles.load(pickle.dumps(VALUES, protocol), "a.pkl")
    assert loaded.keys() == VALUES.keys()
    assert all(np.array_equal(loaded[key], value) for key, value in VALUES.items())


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo no",)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (pickle.dumps(Evil(), 2), "asks for posix.system"),
        (pickle.dumps(np.array([{}], dtype=object), 2), "an array of 'O8', expected numbers"),
        (pickle.dumps(np.zeros(4, np.uint8), 2).replace(b"K\x04\x85", b"K\x05\x85"), "over 4 bytes"),
        (b"\x80\x02cnumpy\nndarray\n(K\x08\x85X\x02\x00\x00\x00u1tR.", "is no whole pickle"),
        (b"\x80\x02X\x02\x00\x00\x00ab}b.", "sets the state of a str"),
        (b"\x80\x02N0.", "is no whole pickle"),
        (b"\x80\x02]q\xff", "is no whole pickle"),
        (b"\x80\x02(((ttt}q\x00h\x00s.", "a key is a dict"),
        (b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.", "a key is a tuple"),  # its hash would end the process
        (b"\x80\x02}" + b"cnumpy\ndtype\n)R.", "is no whole pickle"),
        (b"\x80\x04\x96" + b"\xff" * 6 + b"\x00\x00.", "is no whole pickle"),  # a bytearray of 2**48
        (b"\x80\x02ccollections\nOrderedDict\n]\x85R.", "is no whole pickle"),
        (b"\x80\x02cnumpy\ndtype\n)\x81.", "it makes an object that is no array"),
        (b"", "is no whole pickle"),
    ],
)
def test_pickles_that_are_more_than_data(raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pickles.load(raw, "a.pkl")


_KIND = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R"


def nested(depth: int = 60) -> bytes:
    """A list of twice a list of twice a list …, which nobody can print, or make an array of."""
    return b"]K\x01a\x94" + b"".join(b"0](" + 2 * (b"h" + bytes([level])) + b"e\x94" for level in range(depth))


def test_values_that_grow_when_they_are_shown_or_copied_are_refused() -> None:
    array = b"cnumpy.core.numeric\n_frombuffer\n("
    for raw in (
        array + b"C\x01a" + _KIND + nested() + b"\x85X\x01\x00\x00\x00CtR.",
        b"cnumpy\ndtype\n" + nested() + b"\x85R.",
    ):
        with pytest.raises(DataError, match="an array of a"):
            pickles.load(b"\x80\x02" + raw, "a.pkl")
    names = pickles.load(b"\x80\x02" + nested() + b".", "a.pkl")
    with pytest.raises(DataError, match="meta is not a list of texts"):
        pickles.texts(names, "meta")
    with pytest.raises(DataError, match="labels holds a list, expected whole numbers"):
        pickles.whole_numbers(names, "labels")
    text = b"\x80\x02X\x10\x27\x00\x00" + b"a" * 10_000 + b"\x940]("
    again = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    swapped = (
        b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01M\x88\x13\x85cnumpy\ndtype\nX\x03\x00\x00\x00>u2\x85RNh\x00tb"
    )
    for opcodes in (again, swapped):
        with pytest.raises(DataError, match="it copies the same bytes again and again"):
            pickles.load(text + opcodes * 5000 + b"e.", "a.pkl")


def test_a_pickle_that_remembers_far_takes_no_memory() -> None:
    assert pickles.load(b"\x80\x02]r\xff\xff\xff\x7f.", "a.pkl") == []


def test_mutated_pickles_are_read_or_refused() -> None:
    rng = random.Random(3)
    originals = [pickle.dumps(VALUES, protocol) for protocol in range(6)]
    refused = 0
    for _ in range(1500):
        raw = bytearray(rng.choice(originals))
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            pickles.load(bytes(raw), "a.pkl")
        except DataError:
            refused += 1
    assert 300 < refused < 1500


def test_frames_are_those_at_the_middles_of_real_videos(shared_data: Path) -> None:
    av = pytest.importorskip("av")
    videos = [path for path in (shared_data / "samples" / "video").glob("*.*") if path.suffix in (".mp4", ".avi")]
    assert len(videos) >= 2
    for path in videos:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            base = float(stream.time_base)
            start = float(stream.start_time or 0) * base
            length = float(stream.duration * base) if stream.duration else container.duration / 1e6
            shown = list(container.decode(stream))
        in_order = all(first.time < second.time for first, second in pairwise(shown))
        for count in (1, 8, 13):
            for part, image in enumerate(read_clip(Clip(str(path), count))):
                wanted = start + (part + 0.5) * length / count
                largest = max((number for number, frame in enumerate(shown) if frame.time <= wanted), default=0)
                # An AVI has no times of its own frames: where those that are made up jump back, a near one will do.
                near = range(largest, largest + 1) if in_order else range(largest - 3, largest + 4)
                pictures = (np.asarray(shown[number].to_image()) for number in near)
                assert any(np.array_equal(np.asarray(image), picture) for picture in pictures), (path.name, part)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sound.mp4", "holds no video stream"),
        ("silent.mkv", "holds a video stream without a frame that can be decoded"),
    ],
)
def test_videos_without_frames_are_named(name: str, reason: str, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / name
    with av.open(str(path), "w") as container:
        if path.suffix == ".mkv":  # a stream of images that holds none
            pictures = container.add_stream("mpeg4", rate=25)
            pictures.width, pictures.height, pictures.pix_fmt = 32, 32, "yuv420p"
        stream = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    with pytest.raises(DataError, match=rf"^\S+{name} {reason}"):
        read_clip(Clip(str(path)))
    assert undecodable([Clip(str(path))]) == [0]


def test_a_video_that_is_cut_short_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its last frame stood for all that is missing, without a word."""
    av = pytest.importorskip("av")
    whole, part = tmp_path / "whole.mkv", tmp_path / "part.mkv"
    with av.open(str(whole), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 64, "yuv420p", 5
        for number in range(90):
            shade = np.full((64, 64, 3), 10 + 2 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shade, format="rgb24")))
        container.mux(stream.encode())
    assert len(read_clip(Clip(str(whole), 8))) == 8
    assert not caplog.text
    content = whole.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    assert len(read_clip(Clip(str(part), 8))) == 8
    assert re.search(r"part\.mkv ends after \d\.\d of 9\.0 s: its last frame stands for the rest", caplog.text)


def test_a_video_that_is_none_is_named(tmp_path: Path) -> None:
    pytest.importorskip("av")
    (tmp_path / "a.mp4").write_bytes(b"\x00" * 400)
    clip = Clip(str(tmp_path / "a.mp4"))
    with pytest.raises(DataError, match=r"a\.mp4 cannot be decoded"):
        read_clip(clip)
    assert undecodable([clip]) == [0]


def test_a_clip_whose_name_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    assert Videos(tmp_path).get(f"{'v' * 300}/clip") is None


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
        assert (np.asarray(decode(str(path)))[0, :, 1] == expected).all()


def test_signed_values_of_8_bits_are_refused(tmp_path: Path) -> None:
    """Pillow takes their bytes for unsigned ones: -1 came out as white, and 127 as grey."""
    grey_tiff(tmp_path / "a.tif", np.array([-128, -1, 0, 127], np.int8), 1)
    with pytest.raises(ValueError, match="TIFF of signed values of 8 bits"):
        decode(str(tmp_path / "a.tif"))


def test_a_folder_that_is_called_like_an_address_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    av = pytest.importorskip("av")
    monkeypatch.chdir(tmp_path)
    Path("http:/127.0.0.1:9").mkdir(parents=True)
    with av.open(str(tmp_path / "http:" / "127.0.0.1:9" / "clip.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 99, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert len(read_clip(Clip("http:/127.0.0.1:9/clip.mp4", 2))) == 2


def test_a_text_that_is_called_a_video_opens_no_other_file(tmp_path: Path) -> None:
    """FFmpeg goes by the content: a list of files decodes as the files that it names, wherever they are."""
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "private.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        container.mux(stream.encode())
    (tmp_path / "clip.mp4").write_text("ffconcat version 1.0\nfile private.mp4\n")
    with pytest.raises(DataError, match=r"clip\.mp4.* cannot be decoded"):
        read_clip(Clip(str(tmp_path / "clip.mp4"), 1))

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import build, verify
from eqben_builder.formats import WRITERS, PairRow, Picture, encode_png, read_any, write_as
from eqben_builder.formats.parquet import write_parquet
from eqben_builder.kubric import KubricBuilder
from eqben_builder.micro.builder import MicroBuilder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats") / "built"
    build(MicroBuilder(size=24), folder, pairs=2)
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return list(read_any(folder))


def same(rows, other, *, extra=True, ids=True):
    assert len(rows) == len(other)
    for a, b in zip(rows, other, strict=True):
        assert (a.caption0, a.caption1, a.subset, a.aspect) == (b.caption0, b.caption1, b.subset, b.aspect)
        assert not ids or a.id == b.id
        assert not extra or dict(a.extra) == dict(b.extra)
        for first, second in zip(a.pictures(), b.pictures(), strict=True):
            assert np.array_equal(first.load(), second.load())


@pytest.mark.parametrize("form", WRITERS)
def test_pairs_come_back_from_every_form(tmp_path, rows, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    target = write_as(iter(rows), tmp_path / "out", form)
    same(rows, list(read_any(target)))
    assert not list(tmp_path.glob(".out-*"))
    again = write_as(iter(rows), tmp_path / "again", form)
    files = sorted(path.relative_to(target) for path in target.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert all((target / name).read_bytes() == (again / name).read_bytes() for name in files)


@pytest.mark.parametrize("form", WRITERS)
def test_half_a_letter_is_kept_or_refused_by_name(tmp_path, rows, form):
    broken = replace(rows[0], caption0="a cat\ud800")
    if form == "parquet":
        pytest.importorskip("pyarrow")
        with pytest.raises(ValueError, match=r"caption_0 holds half a letter, which parquet has not: 'a cat\\ud800'"):
            write_as([broken], tmp_path / "out", form)
        assert not (tmp_path / "out").exists()
    else:
        target = write_as([broken], tmp_path / "out", form)
        assert next(iter(read_any(target))).caption0 == "a cat\ud800"


@pytest.mark.parametrize("form", WRITERS)
def test_masks_go_along_and_certificates_hold_after_it(tmp_path, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    build(KubricBuilder(engine="raster", size=64), tmp_path / "built", pairs=2)
    rows = list(read_any(tmp_path / "built"))
    masks = [row.mask.load() for row in rows]
    assert all(set(np.unique(mask)) == {0, 255} for mask in masks)
    target = write_as(rows, tmp_path / "out", form)
    loaded = list(read_any(target))
    assert all(np.array_equal(row.mask.load(), mask) for row, mask in zip(loaded, masks, strict=True))
    same(rows, loaded)
    again = write_as(loaded, tmp_path / "again", "folder")
    assert (verify(again).certified, verify(again).failures) == (6, ())
    mask = next((again / "masks").rglob("*.png"))
    Image.new("L", (64, 64), 255).save(mask)
    assert any("certificate" in str(failure) for failure in verify(again).failures)


def picture(path, colour, size=(6, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        array = np.zeros((size[1], size[0], 3), np.uint8)
        array[:] = colour[::-1]
        np.save(path, array)
    else:
        Image.new("RGB", size, colour).save(path)


def test_eqbens_published_forms(tmp_path):
    pair = {"image0": "a/0.png", "image1": "a/1.png", "caption0": ["one", "more"], "caption1": ["two"]}
    for name in ("0.png", "1.png", "0.npy", "1.npy"):
        picture(tmp_path / "images" / "a" / name, (10, 20, 30 + len(name)))
    nested = tmp_path / "ag.json"
    nested.write_text(json.dumps({"001YG.mp4": {"table": [pair], "door": [pair, pair]}}))
    pairs = list(read_any(nested, images=tmp_path / "images"))
    assert [row.id for row in pairs] == ["001YG.mp4/table/0", "001YG.mp4/door/0", "001YG.mp4/door/1"]
    assert {(row.subset, row.caption0, row.caption1) for row in pairs} == {("ag", "one", "two")}
    texts = {"caption0": "one", "caption1": "two"}
    video = tmp_path / "v.json"
    video.write_text(
        json.dumps({"x1": [{**texts, "image0": "a/0.npy", "image1": "a/1.npy"}], "x2": [{**pair, **texts}]})
    )
    first, second = read_any(video, images=tmp_path / "images")
    assert (first.subset, second.subset) == ("youcook2", "gebc")
    assert first.image0.load()[0, 0].tolist() == [10, 20, 35], "arrays hold blue first"
    picture(tmp_path / "eqbenkubric_loc" / "0.png", (1, 2, 3))
    picture(tmp_path / "eqbenkubric_loc" / "1.png", (3, 2, 1))
    flat = tmp_path / "flat.json"
    flat.write_text(json.dumps([{**texts, **{f"image{k}": f"eqbenkubric_loc/{k}.png" for k in (0, 1)}}]))
    (row,) = read_any(flat)
    assert (row.subset, row.aspect, row.id) == ("kubric", "location", "0")


def test_winoground_from_a_folder_or_its_zip(tmp_path):
    example = {"id": 7, "image_0": "ex_7_img_0", "image_1": "ex_7_img_1", "caption_0": "a", "caption_1": "b"}
    example |= {"collapsed_tag": "Object", "num_main_preds": 1}
    (tmp_path / "examples.jsonl").write_text(json.dumps(example) + "\n")
    with pytest.raises(FileNotFoundError, match=r"line 1: field 'image_0' names no image .* 'ex_7_img_0'"):
        list(read_any(tmp_path))
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for k in (0, 1):
            archive.writestr(f"images/ex_7_img_{k}.png", encode_png(np.full((2, 3, 3), k, np.uint8)))
    (zipped,) = read_any(tmp_path)
    assert (zipped.id, zipped.subset, zipped.aspect, zipped.extra["num_main_preds"]) == ("7", "winoground", "Object", 1)
    assert zipped.image1.load().max() == 1
    for k in (0, 1):
        picture(tmp_path / "images" / f"ex_7_img_{k}.png", (9, 9, 9))
    (plain,) = read_any(tmp_path)
    assert plain.image1.load().min() == 9


def test_valse_gives_rows_of_one_picture_that_annotators_accepted(tmp_path):
    row = {"image_file": "v.jpg", "caption": "There is a cat.", "foil": "There is a dog.", "linguistic_phenomena": "x"}
    content = {f"r{votes}": {**row, "mturk": {"caption": votes, "foil": 3 - votes, "other": 0}} for votes in range(4)}
    path = tmp_path / "existence.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FileNotFoundError, match="'image_file' names no image"):
        list(read_any(path))
    picture(tmp_path / "v.jpg", (1, 2, 3))
    pairs = list(read_any(path))
    assert [pair.id for pair in pairs] == ["r2", "r3"]
    assert pairs[0].image1 is None
    assert (pairs[0].caption1, pairs[0].aspect) == ("There is a dog.", "x")
    assert [row.image0.load().shape for row in pairs] == [(4, 6, 3)] * 2
    with pytest.raises(ValueError, match="'r2' has one image"):
        write_as(pairs, tmp_path / "no", "eqben-flat")
    assert not (tmp_path / "no").exists()
    pytest.importorskip("pyarrow")
    same(pairs, list(read_any(write_as(pairs, tmp_path / "parquet", "parquet"))))


def test_datasets_loads_parquet_with_pictures(tmp_path, rows, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    target = write_as(rows, tmp_path / "out", "parquet")
    loaded = datasets.load_dataset("parquet", data_dir=str(target), cache_dir=str(tmp_path / "cache"))
    whole = datasets.load_dataset(str(target), cache_dir=str(tmp_path / "cache"))
    assert {name: len(part) for name, part in whole.items()} == {name: len(part) for name, part in loaded.items()}
    (split,) = loaded.values()
    assert {"image_0", "image_1", "caption_0", "caption_1", "id", "subset", "aspect"} <= set(split.column_names)
    assert len(split) == len(rows)
    for row, loaded_row in zip(rows, split, strict=True):
        assert loaded_row["caption_0"] == row.caption0
        assert np.array_equal(np.asarray(loaded_row["image_1"].convert("RGB")), row.image1.load())


def test_shards_are_cut_and_read_in_order(tmp_path, rows):
    pytest.importorskip("pyarrow")
    (tmp_path / "data").mkdir()
    shards = write_parquet(rows, tmp_path / "data", "validation", shard_bytes=1)
    assert shards[0].name == "validation-00000-of-00006.parquet"
    same(rows, list(read_any(tmp_path)))


def test_reading_streams(tmp_path, rows):
    """One pair is asked for, and the broken rest of the file is never reached."""
    folder = write_as(rows, tmp_path / "out", "folder")
    path = folder / "pairs.jsonl"
    path.write_text(path.read_text() + "broken\n")
    with pytest.raises(ValueError, match=r"pairs\.jsonl is not the file of the manifest"):
        next(read_any(folder))
    (folder / "manifest.json").unlink()
    stream = read_any(folder)
    assert next(stream).id == rows[0].id
    with pytest.raises(ValueError, match=r"pairs\.jsonl, line 7: Expecting value"):
        list(stream)


def test_a_failed_writing_leaves_nothing(tmp_path, rows):
    def failing():
        yield rows[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_as(failing(), tmp_path / "out", "eqben-flat")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="no pairs to write"):
        write_as([], tmp_path / "out", "eqben-flat")
    with pytest.raises(ValueError, match="form 'csv' is not one of parquet"):
        write_as(rows, tmp_path / "out", "csv")
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="exists already"):
        write_as(rows, tmp_path / "out", "eqben-flat")


def flat(tmp_path, change):
    for k in (0, 1):
        picture(tmp_path / f"{k}.png", (k, k, k))
    rows = [{"image0": "0.png", "image1": "1.png", "caption0": "a", "caption1": "b"} for _ in range(3)]
    change(rows)
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda rows: rows[2].pop("caption1"), ValueError, r"pairs\.json, row 2: field 'caption1' .* None"),
        (lambda rows: rows[1].update(image0=3), ValueError, r"row 1: field 'image0' should be a text, found 3"),
        (lambda rows: rows[0].update(image1="../x.png"), ValueError, r"row 0: field 'image1' leads out"),
        (lambda rows: rows[0].update(image1="/etc/hostname"), ValueError, r"row 0: field 'image1' leads out"),
        (lambda rows: rows[0].update(image0="9.png"), FileNotFoundError, r"row 0: field 'image0' names no"),
        (lambda rows: rows[0].update(caption0=[]), ValueError, r"row 0: field 'caption0' .* found \[\]"),
        (lambda rows: rows.append("text"), ValueError, r"row 3: expected an object, found str"),
    ],
)
def test_a_broken_row_is_refused_by_file_row_and_field(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        list(read_any(flat(tmp_path, change)))


def test_what_is_no_source_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_any(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"holds no pairs: looked for pairs\.jsonl"):
        read_any(tmp_path)
    for name, content, message in (
        ("a.json", "[\n{\n]", r"a\.json, line 3"),
        ("b.json", "3", r"expected a list or an object, found int"),
        ("c.jsonl", '{"x": 1}\n', r"none of the known jsonl files: its first line holds \['x'\]"),
        ("d.jsonl", "{\n", r"first line: Expecting"),
        ("e.csv", "", r"from \.json, \.jsonl and \.parquet files"),
        ("g.json", '{"video": {"subject": 3}}', r"subject 'subject': expected a list of pairs, found int"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            list(read_any(tmp_path / name))


def test_the_number_0_is_the_name_of_a_subset_and_an_aspect(tmp_path, rows):
    """It was "pairs" and no aspect, next to subsets 1, 2, …"""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    write_as(rows, tmp_path / "out", "parquet")
    (path,) = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(path)
    for field in ("subset", "aspect"):
        numbers = pa.array(range(len(table)))
        table = table.set_column(table.column_names.index(field), field, numbers)
    pq.write_table(table, tmp_path / "numbers.parquet")
    names = [(row.subset, row.aspect) for row in read_any(tmp_path / "numbers.parquet")]
    assert names == [(str(number), str(number)) for number in range(len(rows))]


def test_broken_shards_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is no parquet file"):
        list(read_any(path))
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(ValueError, match=r"x\.parquet is no parquet file"):
        list(read_any(path))
    pairs = {"image_0": [b"x"], "image_1": [b"x"], "caption_0": ["wrong letters"], "caption_1": ["b"]}
    pyarrow.parquet.write_table(pyarrow.table(pairs), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"wrong letters", b"wrong \xff\xfetters"))
    with pytest.raises(ValueError, match=r"x\.parquet cannot be read"):
        list(read_any(path))
    pyarrow.parquet.write_table(pyarrow.table({"image_0": [1], "caption_0": ["a"]}), path)
    with pytest.raises(ValueError, match="no column image_1, caption_1; there are caption_0, image_0"):
        list(read_any(path))


def test_an_image_of_a_parquet_file_that_cannot_be_decoded_is_named_by_its_row(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    good, path = encode_png(np.zeros((2, 2, 3), np.uint8)), tmp_path / "x.parquet"
    captions = {"caption_0": ["a", "a"], "caption_1": ["b", "b"]}
    pyarrow.parquet.write_table(
        pyarrow.table({"image_0": [good, good], "image_1": [good, b"no image"], **captions}), path
    )
    *_, row = read_any(path)
    with pytest.raises(ValueError, match=r"x\.parquet, row 1, image_1 cannot be decoded"):
        row.image1.load()


def test_pictures_are_checked_when_they_are_looked_at(tmp_path):
    with pytest.raises(ValueError, match="an image in memory cannot be decoded"):
        Picture(content=b"no image").load()
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"a\.npy is float64 \(2, 2\), expected uint8"):
        Picture(tmp_path / "a.npy").load()
    np.save(tmp_path / "b.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"b\.npy is object \(1,\), expected uint8"):
        Picture(tmp_path / "b.npy").load()


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_every_form_keeps_every_field_and_the_mask(form, tmp_path):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    pictures = [Picture(content=encode_png(rng.integers(0, 255, (8, 8, 3)).astype(np.uint8))) for _ in range(3)]
    extra = {"licence": "CC0", "source": {"video": "v"}, "certificate": {"kind": "count"}, "own": [1, {"z": 2}]}
    row = PairRow("x/1", "kubric", "counting", *pictures[:2], "one cup", "two cups", extra, pictures[2])
    write_as([row], tmp_path / "out", form)
    (back,) = read_any(tmp_path / "out")
    for name in ("id", "subset", "aspect", "caption0", "caption1", "extra"):
        assert getattr(back, name) == getattr(row, name), name
    np.testing.assert_array_equal(back.mask.load(), row.mask.load())
    for own, other in zip(back.pictures(), row.pictures(), strict=True):
        np.testing.assert_array_equal(own.load(), other.load())


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "gif", "webp", "bmp", "ppm"])
def test_decoding_leaves_pillows_own_limit_to_the_process(tmp_path, monkeypatch, ending):
    """Other threads rely on it at every moment; ours is above it or below it."""
    path = tmp_path / f"a.{ending}"
    Image.new("RGB", (40, 30), (10, 200, 30)).save(path)
    before = Image.MAX_IMAGE_PIXELS
    assert before is not None
    Image.init()
    seen = set()

    def looking(factory):
        return lambda *arguments: seen.add(Image.MAX_IMAGE_PIXELS) or factory(*arguments)

    for form, (factory, accept) in dict(Image.OPEN).items():
        monkeypatch.setitem(Image.OPEN, form, (looking(factory), accept))
    assert Picture(path).load().shape == (30, 40, 3)
    assert seen == {before}
    if ending not in ("gif", "webp", "tif"):  # which Pillow itself looks at again
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        assert Picture(path).load().shape == (30, 40, 3)

"""Folders of strangers that look like a known layout: refused with one line, at once, and no file is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_data.boxes.files import voc
from gate_data.errors import DataError
from gate_data.own import OwnBenchmark, guess
from gate_data.own.originals import originals_from
from gate_data.readers.arrays import stored_column, stored_shape
from gate_data.readers.json_lists import entries
from gate_data.readers.tables import lines
from gate_data.request import DataRequest
from wary_files.archives import members

ALIASES = "a: &a [x, x]\n" + "".join(
    f"{to}: &{to} [{', '.join([f'*{of}'] * 9)}]\n" for of, to in zip("abcdefgh", "bcdefghi", strict=True)
)


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)


def yolo(folder: Path, label: str = "0 .5 .5 .1 .1\n") -> None:
    (folder / "labels").mkdir()
    for number in range(4):
        picture(folder / "images" / f"{number}.png")
        (folder / "labels" / f"{number}.txt").write_text(label)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ALIASES + "train: images\nnames: [*i]\n", "'names' is no list of names"),
        ("train: images\nnames: {0: a, b: c}\n", "'names' is no list of names"),
        ("train: images\nnames: {2020-01-01: a, 1: b}\n", "'names' is no list of names"),
        ("train: images\nnames: [{a: b}]\n", "'names' is no list of names"),
        (ALIASES + "train: there\npath: [*i]\nnames: [a]\n", "neither a folder nor a list"),
    ],
)
def test_yaml_that_would_fill_the_memory_or_names_no_classes(tmp_path: Path, content: str, message: str) -> None:
    yolo(tmp_path)
    (tmp_path / "data.yaml").write_text(content)
    with pytest.raises(DataError, match=message):
        guess(tmp_path)


def test_two_pictures_for_one_annotation_are_refused(tmp_path: Path) -> None:
    yolo(tmp_path)
    (tmp_path / "classes.txt").write_text("a\n")
    picture(tmp_path / "images" / "2.jpg")
    own = OwnBenchmark.model_validate({**guess(tmp_path).values, "benchmark": {"id": "a", "task": "detection"}})
    with pytest.raises(DataError, match=r"2\.txt would stand for two images, .*2\.jpg and 2\.png"):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)


def test_a_yaml_file_runs_nothing(tmp_path: Path) -> None:
    yolo(tmp_path)
    call = f"train: !!python/object/apply:os.mkdir ['{tmp_path / 'ran'}']\nnames: [a]\n"
    (tmp_path / "data.yaml").write_text(call)
    with pytest.raises(DataError, match="'train' is no path"):
        guess(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", ["100000000", "9" * 5000])
def test_a_class_of_a_great_number_makes_no_names_of_all_before(tmp_path: Path, number: str) -> None:
    yolo(tmp_path, f"{number} .5 .5 .1 .1\n")
    with pytest.raises(DataError, match=r"labels/\d.txt: a class has the number"):
        guess(tmp_path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "[1]", "{}", '{"features": [1]}', '{"features": {"a": 1}}'], ids=lambda text: text[:20]
)
def test_what_datasets_did_not_save_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "dataset_info.json").write_text(content)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(DataError, match="dataset_info"):
        guess(tmp_path)


def test_lists_of_names_that_are_no_text_are_named(tmp_path: Path) -> None:
    yolo(tmp_path)
    (tmp_path / "classes.txt").write_bytes(b"\xe9\xff\n")
    with pytest.raises(DataError, match=r"classes\.txt cannot be read as UTF-8 text"):
        guess(tmp_path)


@pytest.mark.parametrize("name", ["data.yaml", "classes.txt", "labels/0.txt", "annotations.json", "metadata.csv"])
def test_no_pipe_is_waited_for(tmp_path: Path, name: str) -> None:
    yolo(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    guess(tmp_path)


@pytest.mark.parametrize(
    "read", [voc, members, lambda path: list(entries(path, "images")), lambda path: list(lines(path))]
)
def test_readers_refuse_pipes(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(DataError, match="pipe"):
        read(tmp_path / "a")


def test_a_coco_file_nested_too_deeply_is_no_layout(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "0.png")
    picture(tmp_path / "b" / "0.png")
    (tmp_path / "annotations.json").write_text('{"images": ' + "[" * 100_000)
    assert guess(tmp_path).values["data"] == {"kind": "folders"}


def named_by_yaml(folder: Path, content: str) -> list[str]:
    yolo(folder)
    (folder / "data.yaml").write_text(content)
    names: list[str] = guess(folder).values["classes"]["names"]
    return names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("[no, yes]", ["no", "yes"]),  # truth values by YAML's rules
        ("[007, 1e3, null, 1.0]", ["007", "1e3", "null", "1.0"]),
        ("[2020-01-01, ~]", ["2020-01-01", "~"]),
        ("{'0': a, '1': b}", ["a", "b"]),
        ("{1: b, 0: a}", ["a", "b"]),
    ],
)
def test_names_of_yaml_stand_as_they_are_written(tmp_path: Path, names: str, expected: list[str]) -> None:
    assert named_by_yaml(tmp_path, f"train: images\nnames: {names}\n") == expected


def test_names_of_yaml_count_without_its_paths(tmp_path: Path) -> None:
    assert named_by_yaml(tmp_path, "nc: 2\nnames: [cat, dog]\n") == ["cat", "dog"]


@pytest.mark.parametrize("paths", ["", "train: images\n"])
def test_yaml_that_counts_other_classes_than_it_names(tmp_path: Path, paths: str) -> None:
    with pytest.raises(DataError, match=r"data\.yaml: 'nc' is 3, and 'names' has 2"):
        named_by_yaml(tmp_path, f"{paths}nc: 3\nnames: [cat, dog]\n")


def test_two_lists_of_names_that_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\ncat\n")
    with pytest.raises(DataError, match=r"data\.yaml and .*classes\.txt name the classes otherwise: 'cat', 'dog'"):
        named_by_yaml(tmp_path, "names: [cat, dog]\n")


def test_an_empty_line_among_names_shifts_no_number(tmp_path: Path) -> None:
    yolo(tmp_path)
    (tmp_path / "classes.txt").write_text("cat\n\ndog\n\n")
    with pytest.raises(DataError, match=r"classes\.txt, line 2 is empty"):
        guess(tmp_path)


def test_names_that_are_too_few_for_class_maps_are_said(tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / "images" / f"{number}.png")
        (tmp_path / "masks").mkdir(exist_ok=True)
        values = Image.new("L", (8, 8), 2)
        values.putpixel((0, 0), 0)
        values.save(tmp_path / "masks" / f"{number}.png")
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    remarks = guess(tmp_path).remarks
    assert any("classes.txt has 2 lines, too few for value 2" in remark for remark in remarks), remarks


def test_two_names_are_those_of_two_values(tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / "images" / f"{number}.png")
        (tmp_path / "masks").mkdir(exist_ok=True)
        values = Image.new("L", (8, 8), 255)
        values.putpixel((0, 0), 0)
        values.save(tmp_path / "masks" / f"{number}.png")
    (tmp_path / "classes.txt").write_text("sea\nland\n")
    assert guess(tmp_path).values["classes"] == {"names": ["sea", "land"], "values": [0, 255]}


@pytest.mark.parametrize(("maps", "message"), [("123", "1 of 4 images have no annotation"), ("xyz", "called as one")])
def test_pictures_whose_class_maps_are_missing_make_no_classes_of_folders(
    tmp_path: Path, maps: str, message: str
) -> None:
    for name in "0123":
        picture(tmp_path / "images" / f"{name}.png")
    (tmp_path / "masks").mkdir()
    for name in maps:
        values = Image.new("L", (8, 8), 2)
        values.putpixel((0, 0), 0)
        values.save(tmp_path / "masks" / f"{name}.png")
    with pytest.raises(DataError, match=message):
        originals_from(OwnBenchmark.model_validate(guess(tmp_path).values), tmp_path / "benchmark.toml").check(tmp_path)


@pytest.mark.parametrize("twin", ["cat ", " cat", "cat\u00a0"])
def test_folders_whose_names_differ_in_blanks_are_refused(tmp_path: Path, twin: str) -> None:
    for name in ("cat", twin, "dog"):
        for number in range(6):
            picture(tmp_path / name / f"{number}.png")
    own = OwnBenchmark.model_validate(guess(tmp_path).values)
    with pytest.raises(DataError, match="differ only in their case, or in what is not seen"):
        originals_from(own, tmp_path / "benchmark.toml").load(tmp_path, DataRequest(size=8))


@pytest.mark.parametrize("image", [b"\x89PNG\r\n" * 100, {"bytes": b"\x89PNG\r\n" * 100, "path": None}])
@pytest.mark.parametrize("names", [("data.parquet",), ("train.parquet", "test.parquet")])
def test_images_inside_a_parquet_file_are_not_taken_for_paths(
    tmp_path: Path, image: object, names: tuple[str, ...]
) -> None:
    """The hub's files have them so."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in names:
        parquet.write_table(arrow.Table.from_pylist([{"image": image, "label": 0}] * 4), tmp_path / name)
    with pytest.raises(DataError, match=rf"{names[0]}: column 'image' holds images themselves, .* save_to_disk"):
        guess(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
        ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"),
        ("birds/train-00000-of-00001.parquet",),
        ("default/test/0000.parquet", "default/train/0000.parquet"),
    ],
)
def test_a_copy_of_a_repository_of_the_hub_is_refused_with_what_to_do(tmp_path: Path, names: tuple[str, ...]) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        rows = [{"img": {"bytes": b"\x89PNG\r\n" * 100, "path": None}, "label": 0}] * 4
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / name)
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    with pytest.raises(DataError, match=r"\.parquet: column 'img' holds images themselves, .* save_to_disk"):
        guess(tmp_path)


def test_a_table_without_rows_is_no_open_sentence(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = arrow.schema([("image", arrow.string()), ("label", arrow.string())])
    parquet.write_table(arrow.Table.from_pylist([], schema=columns), tmp_path / "data.parquet")
    with pytest.raises(DataError, match=r"data\.parquet holds no rows; expected at least one$"):
        guess(tmp_path)


@pytest.mark.parametrize("kind", ["a pipe, socket or device", "a folder"])
def test_what_is_no_file_is_named_by_its_kind(tmp_path: Path, kind: str) -> None:
    for name in ("a.png", "b.png", "c.png"):
        picture(tmp_path / name)
    odd = tmp_path / "odd.png"
    os.mkfifo(odd) if kind != "a folder" else odd.mkdir()
    rows = [f"{name}.png,{label}" for name, label in (("a", "x"), ("b", "y"), ("c", "x"), ("odd", "y"))]
    (tmp_path / "data.csv").write_text("\n".join(["image,label", *rows]))
    own = OwnBenchmark.model_validate(guess(tmp_path).values)
    with pytest.raises(DataError, match=rf"^{odd} \(.*data\.csv, line 5\) is {kind}, expected a file: move it away"):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)


@pytest.mark.parametrize(
    ("chunks", "rows", "message"),
    [
        ((2, 4, 4, 3), 5, r"2 of 5 chunks of 'x' were never written"),
        ((3, 2, 2, 3), 9, r"4 of 16 chunks"),
        (None, 0, r"480 of 480 values"),
    ],
)
@pytest.mark.parametrize("read", [stored_shape, stored_column])
def test_rows_that_were_never_written_are_no_black_images(
    tmp_path: Path,
    chunks: tuple[int, ...] | None,
    rows: int,
    message: str,
    read: Callable[[str, str], object],
) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        array = file.create_dataset("x", (10, 4, 4, 3), np.uint8, chunks=chunks)
        if rows:
            array[:rows] = 0
    with pytest.raises(DataError, match=rf"a\.h5: {message}"):
        read(str(tmp_path / "a.h5"), "x")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((10, 4, 4, 3), np.uint8), chunks=chunks)
        file.create_dataset("filled", (10, 4, 4, 3), np.uint8, chunks=chunks, fillvalue=0)
    for name in ("x", "filled"):
        assert stored_shape(str(tmp_path / "b.h5"), name) == (10, 4, 4, 3)

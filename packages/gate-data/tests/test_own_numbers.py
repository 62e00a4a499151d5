"""Numbers, ids and names in tables and COCO files of strangers: exact, once each, and inside the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gate_data.boxes.files import read_coco
from gate_data.errors import DataError
from gate_data.own import guess, originals_of
from gate_data.readers import Row, table
from gate_data.readers.captions import coco_captions

Content = dict[str, Any]


def coco_file(folder: Path, ids: list[int], categories: tuple[int, int] = (1, 2)) -> Path:
    """An image for each id, and a box on each; categories in turn."""
    for index in range(len(ids)):
        Image.new("RGB", (10, 10)).save(folder / f"{index}.png")
    images = [
        {"id": image_id, "file_name": f"{index}.png", "width": 10, "height": 10} for index, image_id in enumerate(ids)
    ]
    objects = [
        {"id": index, "image_id": image_id, "category_id": categories[index % 2], "bbox": [1, 1, index % 7 + 1, 2]}
        for index, image_id in enumerate(ids)
    ]
    names = [{"id": category_id, "name": name} for category_id, name in zip(categories, "ab", strict=True)]
    path = folder / "coco.json"
    path.write_text(json.dumps({"images": images, "annotations": objects, "categories": names}))
    return path


def changed(path: Path, change: Callable[[Content], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("start", [2**53, 10**17])
def test_large_ids_stay_apart(tmp_path: Path, start: int) -> None:
    path = coco_file(tmp_path, [start + j for j in range(12)], (2**60, 2**60 + 1))
    read = read_coco(path)
    assert [len(row["box"]) for row in read.objects.rows] == [1] * 12
    assert [int(row["label"][0]) for row in read.objects.rows] == [0, 1] * 6
    assert read.classes == ("a", "b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda coco: coco["images"][3].update(id=0),
            r"entry 3: field 'id' is '0', expected another than that of .* 0",
        ),
        (lambda coco: coco["categories"][1].update(id=1), r"entry 1: field 'id' is '1', expected another than"),
        (lambda coco: coco["images"][3].update(id=1e17), r"entry 3: field 'id' is '1e\+17', expected a whole number"),
    ],
)
def test_ids_that_come_twice_or_are_not_exact_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = coco_file(tmp_path, list(range(6)))
    changed(path, change)
    with pytest.raises(DataError, match=message):
        read_coco(path)
    changed(path, lambda coco: [annotation.update(caption="a") for annotation in coco["annotations"]])
    if "categories" not in message and "entry 1" not in message:
        with pytest.raises(DataError, match=message):
            list(coco_captions(path))


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (3, 3), ("3", 3), (" 3 ", 3), ("3.0", 3), (3.0, 3), ("1e3", 1000), (2**53 + 1, 2**53 + 1),
        (str(10**17 + 1), 10**17 + 1), ("-5", -5), (1.5, None), ("1_0", None), ("٣", None), (float("nan"), None),
        (float("inf"), None), (1e300, None), ("", None), (None, None), ([1], None),
    ],
)  # fmt: skip
def test_whole_numbers_are_exact(value: object, read: int | None) -> None:
    row = Row(Path("a.csv"), 2, {"id": value})
    if read is None:
        with pytest.raises(DataError, match=r"a.csv, line 2: field 'id' .* expected a (whole )?number"):
            row.integer("id")
    else:
        assert row.integer("id") == read


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda coco: coco["images"][2].update(width=1e30), r"entry 2: field 'width' is '1e\+30', expected a"),
        (lambda coco: coco["images"][2].update(width=10**30), r"entry 2: field 'width' is '1000"),
        (lambda coco: coco["annotations"][2].update(iscrowd="no"), r"entry 2: field 'iscrowd' is 'no', expected a"),
        (lambda coco: coco["annotations"][2].update(category_id=[1]), r"entry 2: field 'category_id' is"),
    ],
)
def test_odd_values_of_coco_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = coco_file(tmp_path, list(range(6)))
    changed(path, change)
    with pytest.raises(DataError, match=message):
        read_coco(path)


def test_a_crowd_is_what_says_1(tmp_path: Path) -> None:
    path = coco_file(tmp_path, list(range(6)))
    changed(path, lambda coco: [annotation.update(iscrowd="0") for annotation in coco["annotations"]])
    assert not any(row["crowd"].any() for row in read_coco(path).objects.rows)
    changed(path, lambda coco: [row.update(iscrowd="1") for row in coco["annotations"][:2]])
    assert sum(int(row["crowd"].sum()) for row in read_coco(path).objects.rows) == 2


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/secret.png"])
def test_pictures_outside_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    path = coco_file(tmp_path, list(range(6)))
    changed(path, lambda record: record["images"][2].update(file_name=name))
    text = rf"entry 2: field 'file_name' is '{name}', expected a path inside"
    for has_size in (True, False):
        if not has_size:
            changed(path, lambda record: record["images"][2].pop("width"))
        with pytest.raises(DataError, match=text):
            read_coco(path)


def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    coco_file(tmp_path, list(range(2)))
    (tmp_path / "all.csv").write_text(f"image,label\n0.png,a\n1.png,b\n{'1' * 400},a\n")
    (tmp_path / "mine.toml").write_text('[benchmark]\nid = "a"\n[data]\nkind = "table"\ntable = "all.csv"\n')
    with pytest.raises(DataError, match=r"1 of 3 files are not there: .*all\.csv, line 4"):
        originals_of(tmp_path / "mine.toml").check(tmp_path)
    (tmp_path / "all.csv").write_text(f"image,label\n{'1' * 400},a\n1.png,b\n")
    with pytest.raises(DataError, match=r"cannot be looked at: .*File name too long"):
        guess(tmp_path / "all.csv")


def test_json_whose_pictures_are_no_list_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"images": {"0": {}}, "annotations": [], "categories": []}')
    assert guess(tmp_path).values["data"]["kind"] == "coco"


@pytest.mark.parametrize(
    ("table", "names", "message"),
    [
        ("image,label\n0.png,é\n1.png,e\u0301\n", "", r"classes .* differ only in their case, or in what is not seen"),
        ("image,label\n0.png,a\n1.png,a\u200b\n", "", r"classes 'a' and 'a\\u200b' differ only"),
        ("image,label,label\n0.png,a,b\n1.png,b,a\n", "", r"line 1: the field 'label' comes twice"),
        ("image,label\n0.png,a\n1.png,b\n", 'names = ["a", "b", "a"]', r"'classes.names': the class 'a' comes twice"),
        ("image,label\n0.png,a\n1.png,b\n", 'file = "names.txt"', r"names.txt: the class 'b' comes twice"),
    ],
)
def test_classes_that_are_one_are_not_two(tmp_path: Path, table: str, names: str, message: str) -> None:
    coco_file(tmp_path, list(range(2)))
    (tmp_path / "all.csv").write_text(table, encoding="utf-8")
    (tmp_path / "names.txt").write_text("a\nb\nb\n")
    path = tmp_path / "mine.toml"
    path.write_text(f'[benchmark]\nid = "a"\n[data]\nkind = "table"\ntable = "all.csv"\n[classes]\n{names}\n')
    with pytest.raises(DataError, match=message):
        originals_of(path).check(tmp_path)


def test_a_number_that_is_none_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"image": "0.png", "label": NaN}\n')
    (row,) = table(tmp_path / "a.jsonl", ["image", "label"])
    with pytest.raises(DataError, match=r"a.jsonl, line 1: field 'label' is 'nan', expected text"):
        row.text("label")


def test_a_whole_number_with_a_point_is_below_the_first_that_floats_merge() -> None:
    """2**53 + 1 with a point is read as 2**53, which was taken for it."""
    assert Row(Path("t.jsonl"), 1, {"id": 2.0**53 - 1}).integer("id") == 2**53 - 1
    assert Row(Path("t.jsonl"), 1, {"id": 2**53 + 1}).integer("id") == 2**53 + 1
    for value in (json.loads("9007199254740993.0"), "9007199254740993.0"):
        with pytest.raises(DataError, match="expected a whole number"):
            Row(Path("t.jsonl"), 1, {"id": value}).integer("id")

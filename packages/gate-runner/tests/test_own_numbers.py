"""Numbers, ids and names in tables and COCO files of strangers: exact, once each, and inside the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gate_runner.detection.files import read_coco
from gate_runner.errors import DataError
from gate_runner.readers import Row, boxes
from gate_runner.readers.captions import coco_captions

Content = dict[str, Any]


def coco_file(folder: Path, ids: list[int], categories: tuple[int, int] = (1, 2)) -> Path:
    """A picture for each id, and a box on each; categories in turn."""
    for place in range(len(ids)):
        Image.new("RGB", (10, 10)).save(folder / f"{place}.png")
    images = [{"id": one, "file_name": f"{place}.png", "width": 10, "height": 10} for place, one in enumerate(ids)]
    objects = [
        {"id": place, "image_id": one, "category_id": categories[place % 2], "bbox": [1, 1, place % 7 + 1, 2]}
        for place, one in enumerate(ids)
    ]
    names = [{"id": one, "name": name} for one, name in zip(categories, "ab", strict=True)]
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
    pictures, names = boxes.coco(path)
    assert [len(one.boxes) for one in pictures] == [1] * 12
    assert [one.boxes[0].label for one in pictures] == [0, 1] * 6
    assert names == ("a", "b")
    read = read_coco(path)
    assert [len(one["box"]) for one in read.objects.rows] == [1] * 12
    assert read.classes == ("a", "b")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda made: made["images"][3].update(id=0),
            r"entry 3: field 'id' is '0', expected another than that of .* 0",
        ),
        (lambda made: made["categories"][1].update(id=1), r"entry 1: field 'id' is '1', expected another than"),
        (lambda made: made["images"][3].update(id=1e17), r"entry 3: field 'id' is '1e\+17', expected a whole number"),
    ],
)
def test_ids_that_come_twice_or_are_not_exact_are_refused(tmp_path: Path, change: Any, said: str) -> None:
    path = coco_file(tmp_path, list(range(6)))
    changed(path, change)
    for read in (boxes.coco, read_coco):
        with pytest.raises(DataError, match=said):
            read(path)
    changed(path, lambda made: [one.update(caption="a") for one in made["annotations"]])
    if "categories" not in said and "entry 1" not in said:
        with pytest.raises(DataError, match=said):
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

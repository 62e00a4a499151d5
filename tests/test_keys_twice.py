"""A key that comes twice in an object of a stranger's JSON or YAML is refused: of two values the last would count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from eqben_builder.untrusted import parse_json
from gate_data.boxes.files import read_coco
from gate_data.coop.lists import read_split
from gate_data.own import guess
from gate_data.readers import table
from gate_data.readers.captions import coco_captions
from gate_data.readers.tables import read_json, records
from gate_runner.importing.folders import read_file
from knowledge_prompts.sources.generated import _answer_of
from oven_retrieval.text_files import json_objects
from wary_files import json_files
from wary_files.class_names import names_from_file

TWICE = '{"images": [{"id": 1, "id": 2}], "annotations": [], "train": [], "val": [], "test": [["a.jpg", 0, "b", 0]]}'
LISTS = '{"images": [{"id": 1}], "images": [{"id": 2}], "train": [], "train": [["a.jpg", 0, "b"]]}'


def rows(read: Any) -> Callable[[Path], object]:
    return lambda path: list(read(path))


READERS: dict[str, Callable[[Path], object]] = {
    "a table": rows(lambda path: table(path.rename(path.with_suffix(".jsonl")), ())),
    "a JSON file": read_json,
    "a list in a JSON file": rows(lambda path: records(path, "images")),
    "COCO's boxes": read_coco,
    "COCO's captions": rows(coco_captions),
    "CoOp's lists": lambda path: read_split(path, path.parent),
    "names of classes": lambda path: names_from_file(path, ["id"]),
    "scores of another tool": read_file,
    "a file of any package": json_files.read_json,
    "a suite's row": lambda path: parse_json(path.read_bytes(), str(path)),
    "entities": rows(json_objects),
    "an answer of a language model": lambda path: _answer_of(path, 1, path.read_bytes()),
}


@pytest.mark.parametrize("content", [TWICE, LISTS])
@pytest.mark.parametrize("reader", READERS)
def test_a_key_that_comes_twice_is_refused(reader: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / "content.json"
    path.write_text(content)
    with pytest.raises((ValueError, OSError), match=r"the key '(id|images|train)' comes twice in one object"):
        READERS[reader](path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("names: [a, b]\nnames: [b, a]", "the key 'names' comes twice in one mapping"),
        ("names: {0: a, 0: b}", "the key '0' comes twice in one mapping"),
        ("names: {0: a, 00: b}", "'names' has two names for one number"),
        ("names: [a, b]\nother: [{x: 1, x: 2}]", "the key 'x' comes twice in one mapping"),
    ],
)
def test_a_key_that_comes_twice_in_yolos_file_is_refused(names: str, message: str, tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / "images" / split).mkdir(parents=True)
        (tmp_path / "labels" / split).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / split / "1.png")
        (tmp_path / "labels" / split / "1.txt").write_text("0 .5 .5 .4 .4\n")
    (tmp_path / "data.yaml").write_text(f"train: images/train\nval: images/val\n{names}\n")
    with pytest.raises(ValueError, match=message):
        guess(tmp_path)


def test_what_comes_once_is_read(tmp_path: Path) -> None:
    path = tmp_path / "once.jsonl"
    path.write_text(json.dumps({"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}) + "\n")
    assert [row.values for row in table(path, ["a"])] == [{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}]

"""What a kept result depends on: every setting, every field of an own benchmark's file, every file that these name.

A field that is added to either without a decision here fails a test.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from PIL import Image
from pydantic import BaseModel

import gate_runner
from gate_data.own import OwnBenchmark, benchmark_text
from gate_runner.benchmarks import BENCHMARKS as KNOWN
from gate_runner.benchmarks.own import own_benchmark
from gate_runner.errors import DataError, UsageError
from gate_runner.executors.executor import EncoderInfo
from gate_runner.finetuning.request import FinetuneRequest
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.request import RunRequest, eval_units_of
from gate_runner.runs.results import Result, Score
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings import Settings
from gate_runner.settings.record import NAMES
from gate_runner.tasks.coop.points import units as coop_units

SIDE = 64
ROWS = 40


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of files are remembered at once, as they are of files that are older than two seconds."""
    monkeypatch.setattr("gate_data.remembered._SETTLING", -60.0)


# The same forty images by each kind of list: how each is written


def picture(at: int, side: int = 24) -> Image.Image:
    pixels = np.random.default_rng(at).integers(0, 80, (side, side, 3))
    pixels[..., 2 * (at % 2)] += 150
    return Image.fromarray(pixels.astype(np.uint8))


def split_of(at: int) -> str:
    return "train" if at < 24 else "validation" if at < 32 else "test"


def write_table(folder: Path) -> None:
    names = ("file", "other", "label", "tone", "split", "part", "camera", "site", "patient", "film",
             "pairs of training", "text", "words", "dark", "light", "tilt")  # fmt: skip
    with (folder / "rows.csv").open("w", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(names)
        for at in range(ROWS):
            for name, other in (("", 0), ("second", 100)):
                (folder / name).mkdir(exist_ok=True)
                image = picture(at + other)
                exif = image.getexif()
                exif[0x0110], exif[0x010F] = f"model {at // 2 % 2}", f"maker {at // 4 % 2}"
                image.save(folder / name / f"{at}.jpg", exif=exif)
            split = split_of(at)
            part = {"train": "train", "validation": "test", "test": "validation"}[split]
            rows.writerow([
                f"{at}.jpg", f"second/{at}.jpg", ("red", "blue")[at % 2], ("warm", "cold")[at // 2 % 2], split, part,
                f"camera {at // 2 % 2}", f"site {at // 4 % 2}", f"{split}{at // 2}", f"{split}{at // 4}",
                f"{split}{at // (4 if split == 'train' else 2)}", f"red or blue|red {at}", f"one square {at}",
                at % 2, at // 2 % 2, at // 4 % 2,
            ])  # fmt: skip
    shutil.copy(folder / "rows.csv", folder / "others.csv")
    edited(folder / "others.csv", "39.jpg,second/39.jpg,blue", "39.jpg,second/39.jpg,red")
    write_words(folder)


def write_words(folder: Path) -> None:
    for name, texts in (("of.json", ("a rose", "a sky")), ("on.json", ("a sky", "a rose"))):
        (folder / name).write_text(json.dumps(dict(zip(("red", "blue"), texts, strict=True))))
    for name, template in (("templates.json", "a {} square"), ("others.json", "no {} square")):
        (folder / name).write_text(json.dumps({"en": [template], "it": ["un {}"]}))
        prompts = {"classes": ["red", "blue"], "templates": [template]}
        (folder / f"prompts-{name}").write_text(json.dumps(prompts))
    for name, more in (("known.json", "is warm"), ("unknown.json", "is cold")):
        (folder / name).write_text(json.dumps({"red": [more], "blue": ["is there"]}))
    (folder / "names.txt").write_text("red\nblue\n")
    (folder / "eman.txt").write_text("blue\nred\n")
    for name in ("knowledge", "others"):
        (folder / name / "gpt3").mkdir(parents=True)
        texts = [{"classname": "red", "gpt3": [f"{name} of red"]}, {"classname": "blue", "gpt3": ["of blue"]}]
        (folder / name / "gpt3" / "GPT3_own.tsv").write_text(json.dumps(texts))
    corrections = "file,label,correction\n25.jpg,blue,red\n"
    (folder / "corrected.csv").write_text(corrections)


def write_folders(folder: Path) -> None:
    for at in range(ROWS):
        for camera in ("a", "b")[at // 4 % 2 : at // 4 % 2 + 1]:
            place = folder / "all" / split_of(at) / ("red", "blue")[at % 2]
            place.mkdir(parents=True, exist_ok=True)
            picture(at).save(place / f"{camera}{at}.png")
    for at in range(8):
        place = folder / "all" / "third" / ("red", "blue")[at % 2]
        place.mkdir(parents=True, exist_ok=True)
        picture(200 + at).save(place / f"{at}.png")
    for name in ("others", "copy"):
        shutil.copytree(folder / "all", folder / name)
    edited_picture(folder / "others" / "test" / "red" / "a32.png")


def write_maps(folder: Path) -> None:
    for name in ("images", "masks", "others", "colours"):
        (folder / name).mkdir()
    for at in range(ROWS):
        picture(at).save(folder / "images" / f"{at}.png")
        marks = np.random.default_rng(at).integers(0, 3, (24, 24)).astype(np.uint8)
        Image.fromarray(marks).save(folder / "masks" / f"{at}.png")
        Image.fromarray((2 - marks).astype(np.uint8)).save(folder / "others" / f"{at}.png")
        Image.fromarray(np.stack([marks * 9] * 3, axis=2)).save(folder / "colours" / f"{at}.png")


def write_boxes(folder: Path) -> None:
    for kind in ("images", "labels", "xml"):
        (folder / kind).mkdir()
    images, boxes, texts = [], [], []
    for at in range(ROWS):
        picture(at).save(folder / "images" / f"{at}.png")
        images.append({"id": at, "file_name": f"{at}.png", "width": 24, "height": 24})
        boxes.append(
            {"id": at, "image_id": at, "category_id": at % 2, "bbox": [2, 3, 10, 12], "area": 120, "iscrowd": 0}
        )
        texts.append({"id": at, "image_id": at, "caption": f"square number {at}"})
        (folder / "labels" / f"{at}.txt").write_text(f"{at % 2} 0.5 0.5 0.25 0.25\n")
        box = "<xmin>3</xmin><ymin>4</ymin><xmax>12</xmax><ymax>15</ymax>"
        name = ("red", "blue")[at % 2]
        (folder / "xml" / f"{at}.xml").write_text(
            f"<annotation><filename>{at}.png</filename><size><width>24</width><height>24</height></size>"
            f"<object><name>{name}</name><bndbox>{box}</bndbox></object></annotation>"
        )
    names = [{"id": 0, "name": "red"}, {"id": 1, "name": "blue"}]
    (folder / "boxes.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": names}))
    (folder / "texts.json").write_text(json.dumps({"images": images, "annotations": texts}))
    (folder / "list.txt").write_text("".join(f"{at}.png\n" for at in range(32)))
    (folder / "rest.txt").write_text("".join(f"{at}.png\n" for at in range(32, ROWS)))


def write_clips(folder: Path) -> None:
    for at in range(12):
        split, name = ("train", "test")[at >= 8], ("red", "blue")[at % 2]
        (folder / split / name).mkdir(parents=True, exist_ok=True)
        write_clip(folder / split / name / f"{at}.avi", at)


def write_clip(path: Path, at: int) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=8)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuvj420p"
        for number in range(12):
            frame = av.VideoFrame.from_image(picture(at + number, 32))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_shards(folder: Path) -> None:
    for split, rows in (("train", range(24)), ("test", range(24, ROWS))):
        (folder / split).mkdir()
        write_shard(folder / split / "0.tar", rows)
    (folder / "classnames.txt").write_text("red\nblue\n")


def write_shard(path: Path, rows: range) -> None:
    with tarfile.open(path, "w") as shard:
        for at in rows:
            for ending, content in (("png", png(at)), ("cls", str(at % 2).encode())):
                member = tarfile.TarInfo(f"s{at % 100:04}.{ending}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))


def png(at: int) -> bytes:
    held = io.BytesIO()
    picture(at).save(held, "png")
    return held.getvalue()


WRITERS: dict[str, Callable[[Path], None]] = {
    "table": write_table,
    "folders": write_folders,
    "maps": write_maps,
    "boxes": write_boxes,
    "clips": write_clips,
    "shards": write_shards,
}


def edited(file: Path, before: str, after: str) -> None:
    """Change a text file, which stays as long as it was wherever both texts are."""
    text = file.read_text()
    assert before in text, file
    file.write_text(text.replace(before, after, 1))


def edited_picture(file: Path) -> None:
    picture(1000).save(file)


# One benchmark's file for each

COLUMN = {"column": "split"}
TABLE = {"kind": "table", "table": "rows.csv", "image": "file"}
GIVEN = {"train": "train", "test": "test"}
ABC = {"names": ["a", "b", "c"]}
BENCHMARKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "table": ("table", "zero-shot", {"data": TABLE, "splits": COLUMN}),
    "trained": ("table", "image-classification", {"data": TABLE, "splits": COLUMN}),
    "drawn": ("table", "image-classification", {"data": TABLE, "splits": {"group": "patient"}}),
    "labels": ("table", "multi-label", {"data": {**TABLE, "labels": ["dark", "light"]}, "splits": COLUMN}),
    "tags": ("table", "multi-label", {"data": {**TABLE, "target": "text"}, "splits": COLUMN}),
    "pairs": ("table", "pair-scoring", {"data": {**TABLE, "image2": "other", "text2": "words"}}),
    "folders": (
        "folders",
        "image-classification",
        {"data": {"kind": "folders", "root": "all"}, "splits": {**GIVEN, "validation": "validation"}},
    ),
    "maps": (
        "maps",
        "segmentation",
        {"data": {"kind": "maps", "root": "images", "annotations": "masks/*.png"}, "classes": ABC},
    ),
    "coloured": (
        "maps",
        "segmentation",
        {
            "data": {"kind": "maps", "root": "images", "annotations": "colours/*.png"},
            "classes": {**ABC, "colours": [[0, 0, 0], [9, 9, 9], [18, 18, 18]]},
        },
    ),
    "words": (
        "maps",
        "zero-shot-segmentation",
        {"data": {"kind": "maps", "root": "images", "annotations": "masks/*.png"}, "classes": ABC},
    ),
    "coco": ("boxes", "detection", {"data": {"kind": "coco", "root": "images", "table": "boxes.json"}}),
    "cut out": ("boxes", "image-classification", {"data": {"kind": "coco", "root": "images", "table": "boxes.json"}}),
    "captions": ("boxes", "image-text", {"data": {"kind": "coco", "root": "images", "table": "texts.json"}}),
    "voc": (
        "boxes",
        "detection",
        {
            "data": {"kind": "voc", "root": "images", "annotations": "xml/*.xml"},
            "splits": {"train": "list.txt", "test": "rest.txt"},
        },
    ),
    "yolo": (
        "boxes",
        "detection",
        {"data": {"kind": "yolo", "root": "images"}, "classes": {"names": ["red", "blue"]}},
    ),
    "clips": ("clips", "video-classification", {"data": {"kind": "folders"}, "splits": GIVEN}),
    "shards": ("shards", "image-classification", {"data": {"kind": "webdataset"}, "splits": GIVEN}),
}


class Field(NamedTuple):
    """A field of a benchmark's file: two values, and whether a result by the first is one by the second."""

    name: str
    benchmark: str
    first: Any
    second: Any
    same: bool = False


FIELDS = [
    Field("benchmark.title", "table", "a", "b", same=True),
    Field("benchmark.licence", "table", "a", "b", same=True),
    Field("benchmark.citation", "table", "a", "b", same=True),
    Field("benchmark.task", "trained", "image-classification", "knn"),
    Field("benchmark.metrics", "trained", ["acc@1"], ["mean_per_class", "acc@1"]),
    Field("benchmark.metrics", "trained", ["acc@1"], ["acc@1", "mean_per_class"]),
    Field("data.root", "folders", "all", "others"),
    Field("data.root", "folders", "all", "copy", same=True),
    Field("data.table", "table", "rows.csv", "others.csv"),
    Field("data.roots", "folders", {"test": "all"}, {"test": "others"}),
    Field("data.annotations", "maps", "masks/*.png", "others/*.png"),
    Field("data.image", "table", "file", "other"),
    Field("data.image2", "pairs", "other", "file"),
    Field("data.labels", "labels", ["dark", "light"], ["dark", "tilt"]),
    Field("data.target", "table", "label", "tone"),
    Field("data.separator", "tags", "|", " or "),
    Field("data.text", "pairs", "text", "words"),
    Field("data.text2", "pairs", "words", "text"),
    Field("data.ignored", "maps", [255], [254]),
    Field("data.corrections", "trained", "", "corrected.csv"),
    Field("data.frames", "clips", 4, 2),
    Field("splits.train", "folders", "train", "third"),
    Field("splits.validation", "folders", "validation", "third"),
    Field("splits.test", "folders", "test", "third"),
    Field("splits.column", "table", "split", "part"),
    Field("splits.group", "drawn", "patient", "film"),
    Field("splits.group", "trained", "patient", "film"),
    Field("splits.group", "trained", "patient", "pairs of training"),
    Field("splits.validation_share", "drawn", 0.1, 0.3),
    Field("splits.test_share", "drawn", 0.2, 0.4),
    Field("splits.seed", "drawn", 0, 1),
    Field("slices.columns", "table", ["camera"], ["site"]),
    Field("slices.folders", "folders", [1], [2]),
    Field("slices.exif", "table", ["Model"], ["Make"]),
    Field("classes.names", "table", ["red", "blue"], ["blue", "red"]),
    Field("classes.file", "table", "names.txt", "eman.txt"),
    Field("classes.values", "maps", [0, 1, 2], [1, 0, 2]),
    Field("classes.colours", "coloured", [[0, 0, 0], [9, 9, 9], [18, 18, 18]], [[9, 9, 9], [0, 0, 0], [18, 18, 18]]),
    Field("classes.words", "table", "of.json", "on.json"),
    Field("classes.shown", "table", {"red": "a rose"}, {"red": "a sky"}),
    Field("classes.templates", "table", ["a {}"], ["no {}"]),
    Field("classes.templates", "table", ["templates.json#en"], ["templates.json#it"]),
    Field("classes.prompts", "table", "prompts-templates.json", "prompts-others.json"),
    Field("classes.knowledge", "table", ["known.json"], ["unknown.json"]),
    Field("classes.synonyms", "words", {"a": ["d"]}, {"a": ["e"]}),
    Field("classes.background", "words", "a", "b"),
    Field("training", "trained", {"lr": 0.1}, {"lr": 0.2}),
    Field("training", "trained", {"steps": 4}, {"steps": 5}),
]
APART = {
    "benchmark.id": "another result of the same folder",
    "benchmark.samples": "of a plug-in's task: other targets, which are in the digest of the data",
    "data.kind": "the same files, read as other samples, which are in the digest of the data",
}
"""Fields without a pair of values above, and why."""


class Contents(NamedTuple):
    """A file that is named, or belongs to what is named, and what is done to it."""

    benchmark: str
    fields: Mapping[str, Any]
    file: str
    change: Callable[[Path], None]


def replaced(before: str, after: str) -> Callable[[Path], None]:
    return lambda file: edited(file, before, after)


CONTENTS = [
    Contents("table", {}, "39.jpg", edited_picture),
    Contents("table", {}, "rows.csv", replaced("39.jpg,second/39.jpg,blue", "39.jpg,second/39.jpg,red")),
    Contents("table", {"classes.file": "names.txt"}, "names.txt", lambda file: file.write_text("blue\nred\n")),
    Contents("table", {"classes.words": "of.json"}, "of.json", replaced("rose", "sink")),
    Contents("table", {"classes.templates": ["templates.json#en"]}, "templates.json", replaced("square", "circle")),
    Contents(
        "table", {"classes.prompts": "prompts-templates.json"}, "prompts-templates.json", replaced("square", "circle")
    ),
    Contents("table", {"classes.knowledge": ["known.json"]}, "known.json", replaced("warm", "cold")),
    Contents("table", {"classes.knowledge": ["visual-descriptors=known.json"]}, "known.json", replaced("warm", "cold")),
    Contents(
        "table", {"classes.knowledge": ["knowledge"]}, "knowledge/gpt3/GPT3_own.tsv", replaced("of red", "no red")
    ),
    Contents("table", {"slices.exif": ["Model"]}, "39.jpg", lambda file: shutil.copy(file.with_name("37.jpg"), file)),
    Contents(
        "table",
        {"slices.columns": ["camera"]},
        "rows.csv",
        replaced("test,validation,camera 0", "test,validation,camera 1"),
    ),
    Contents("trained", {"splits.group": "patient"}, "rows.csv", replaced("train5,", "train6,")),
    Contents(
        "trained",
        {"data.corrections": "corrected.csv"},
        "corrected.csv",
        replaced("25.jpg,blue,red", "27.jpg,blue,red"),
    ),
    Contents("folders", {}, "all/train/red/0.png", edited_picture),
    Contents("folders", {}, "all/test/red/98.png", edited_picture),
    Contents("maps", {}, "masks/0.png", lambda file: shutil.copy(file.parents[1] / "others" / "0.png", file)),
    Contents("coco", {}, "boxes.json", replaced("[2, 3, 10, 12]", "[2, 3, 11, 12]")),
    Contents("coco", {}, "boxes.json", replaced('"image_id": 0, "category_id": 0', '"image_id": 0, "category_id": 1')),
    Contents("coco", {}, "images/0.png", edited_picture),
    Contents("cut out", {}, "boxes.json", replaced("[2, 3, 10, 12]", "[2, 3, 11, 12]")),
    Contents("captions", {}, "texts.json", replaced("square number 0", "circle number 0")),
    Contents("voc", {}, "xml/39.xml", replaced("<xmin>3", "<xmin>2")),
    Contents("voc", {}, "list.txt", replaced("31.png\n", "")),
    Contents("yolo", {}, "labels/39.txt", replaced("0.25 0.25", "0.25 0.35")),
    Contents("clips", {}, "test/red/8.avi", lambda file: write_clip(file, 1000)),
    Contents("shards", {}, "test/0.tar", lambda file: write_shard(file, range(100, 116))),
    Contents("shards", {"classes.words": "classnames.txt"}, "classnames.txt", replaced("red", "pink")),
]


def written(folder: Path, benchmark: str, fields: Mapping[str, Any]) -> Path:
    """The file of a benchmark with further fields."""
    _, task, base = BENCHMARKS[benchmark]
    values: dict[str, dict[str, Any]] = {"benchmark": {"id": "own", "task": task}, **deepcopy(base)}
    for name, value in fields.items():
        table, _, key = name.partition(".")
        values.setdefault(table, {}).update({key: value} if key else value)
    (folder / "benchmark.toml").write_text(benchmark_text(values))
    return folder / "benchmark.toml"


def unit_of(file: Path, settings: Settings | None = None) -> EvalUnit:
    request = RunRequest([own_benchmark(file)], "micro-clip", file.parent / "run", settings or Settings())
    return eval_units_of(request)[0]


def kept(unit: EvalUnit) -> Result:
    """A result as a run keeps it, without its scores."""
    data = unit.load(SIDE)
    return replace(unit.blank({}), status="ok", data={**unit.known_by(data, data.digest()), **unit.asked(SIDE)})


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All lists of the images, written once."""
    folder = tmp_path_factory.mktemp("lists")
    for name, write in WRITERS.items():
        (folder / name).mkdir()
        write(folder / name)
    return folder


@pytest.fixture
def mine(lists: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A copy of the files of a benchmark, in which nobody works."""

    def copied(benchmark: str) -> Path:
        folder = tmp_path / "mine"
        shutil.copytree(lists / BENCHMARKS[benchmark][0], folder)
        return folder

    return copied


def test_every_field_of_a_benchmarks_file_has_a_decision() -> None:
    names = {
        f"{name}.{inner}" if isinstance(kind, type) and issubclass(kind, BaseModel) else name
        for name, about in OwnBenchmark.model_fields.items()
        for kind in [about.annotation]
        for inner in (kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else [""])
    }
    assert names == {field.name for field in FIELDS} | APART.keys()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.name}: {field.second}")
def test_a_result_is_used_again_until_a_field_changes(mine: Callable[[str], Path], field: Field) -> None:
    folder = mine(field.benchmark)
    unit = unit_of(written(folder, field.benchmark, {field.name: field.first}))
    stored = kept(unit)
    unit_of(unit_file(unit)).check_data(stored, SIDE, {})
    file = written(folder, field.benchmark, {field.name: field.second})
    if field.same:
        unit_of(file).check_data(stored, SIDE, {})
        return
    with pytest.raises(UsageError, match=r"holds a result of own\S* seed 0 .*: choose another --output"):
        unit_of(file).check_data(stored, SIDE, {})


def unit_file(unit: EvalUnit) -> Path:
    return Path(unit.benchmark.sources["file"])


@pytest.mark.parametrize("contents", CONTENTS, ids=lambda contents: f"{contents.benchmark}: {contents.file}")
def test_a_result_is_used_again_until_a_file_that_is_named_changes(
    mine: Callable[[str], Path], contents: Contents
) -> None:
    folder = mine(contents.benchmark)
    file = written(folder, contents.benchmark, contents.fields)
    stored = kept(unit_of(file))
    unit_of(file).check_data(stored, SIDE, {})
    contents.change(folder / contents.file)
    with pytest.raises(UsageError, match=r"holds a result of own\S* seed 0 .*: choose another --output"):
        unit_of(file).check_data(stored, SIDE, {})


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_result_is_used_again_where_all_was_moved(
    mine: Callable[[str], Path], tmp_path: Path, benchmark: str
) -> None:
    folder = mine(benchmark)
    words = {"classes.knowledge": ["known.json", "knowledge"], "classes.templates": ["templates.json#en"]}
    file = written(folder, benchmark, words if benchmark == "table" else {})
    stored = kept(unit_of(file))
    (tmp_path / "elsewhere").mkdir()
    moved = folder.rename(tmp_path / "elsewhere" / "mine")
    unit_of(moved / "benchmark.toml").check_data(stored, SIDE, {})


# Settings


class Setting(NamedTuple):
    """A setting: how a result is known by it, two values, what else is set, and of which benchmark."""

    how: str
    first: Any = None
    second: Any = None
    others: Mapping[str, Any] = {}
    benchmark: str = "trained"


SWEPT = {"shots": "1", "init": "language"}
COOP = "coop"
SETTINGS = {
    # in the folder's identity: another value is refused by name
    "limit": Setting("identity", 20, 30),
    "items": Setting("identity", None, "adaptive", {"until": 2.0}),
    "until": Setting("identity", 2.0, 3.0, {"items": "adaptive"}),
    "skip_unreadable": Setting("identity", False, True),
    "drop_near": Setting("identity", False, True),
    "split": Setting("identity", "test", "valid"),
    "transform": Setting("identity", "model", "square"),
    "precision": Setting("identity", "auto", "float32"),
    "prompts": Setting("identity", "overrides", "names"),
    "knowledge_from": Setting("identity", "glip=a.yaml", "glip=b.yaml", {"prompts": "gpt3:1"}),
    "preset": Setting("identity", "encoder", "naclip"),
    "class_words": Setting("identity", None, __file__),
    "background": Setting("identity", "words", "threshold"),
    "background_threshold": Setting("identity", "preset", 0.5),
    "refine": Setting("identity", "preset", "pamr"),
    "proxy": Setting("identity", "micro-clip/random:1", "micro-clip/random:2"),
    "language_model": Setting("identity", None, "mine:words"),
    "tune": Setting("identity", "frozen", "full"),
    "recipe": Setting("identity", "quick", "gate", {"tune": "full"}),
    "recipe_fields": Setting("identity", {"steps": "4"}, {"steps": "5"}),
    "wise_ft": Setting("identity", None, 0.5, {"tune": "full"}),
    "class_weight": Setting("identity", "none", "balanced"),
    "folds": Setting("identity", None, 3),
    "keep_zero_shot": Setting("identity", (), ("zero-shot",), {"tune": "full"}),
    "save_encoders": Setting("identity", False, True, {"tune": "full"}),
    "short_classes": Setting("identity", "take", "skip", SWEPT),
    "views": Setting("identity", 1, 2),
    "choose_on": Setting("identity", "shots", "validation"),
    "probe": Setting("identity", "anchored", "elevater", SWEPT),
    "unlabelled": Setting("identity", False, True, SWEPT),
    # in the names of results: another value is another result of the same folder
    "seeds": Setting("name", (0,), (1,)),
    "readout": Setting("name", "last", "auto"),
    "patch_features": Setting("name", "class-token", "sclip", benchmark="words"),
    "shots": Setting("name", "1", "2", {"init": "language"}),
    "init": Setting("name", "language", "random", {"shots": "1"}),
    "projection": Setting("name", "1p", "2p", SWEPT),
    "knowledge": Setting("name", "none", "gpt3:1", SWEPT),
    "controls": Setting("name", True, False, {**SWEPT, "knowledge": "gpt3:1"}),
    "protocol": Setting("name", "few-shot", "base-to-new", benchmark=COOP),
    "methods": Setting("name", "zero_shot", "tip_adapter", benchmark=COOP),
    # a result has it, or is computed again
    "shift": Setting("kept", (), "grey"),
    "keep_predictions": Setting("kept", False, True, SWEPT),
    "save_heads": Setting("kept", False, True),
    # what is read by it is known by its contents
    "data_root": Setting("contents"),
    "source": Setting("contents"),
    "knowledge_folder": Setting("contents"),
    # results are the same, but for rounding
    "micro_batches": Setting("nothing", 1, 2),
    "checkpoint_blocks": Setting("nothing", False, True, {"tune": "full"}),
    "num_processes": Setting("nothing", 1, 2, {"tune": "full"}),
    "decode_workers": Setting("nothing", 0, 1),
    "batch_size": Setting("nothing", 128, 64),
    "device": Setting("nothing", "auto", "cpu"),
    "isolate": Setting("nothing", "none", "worker"),
    "time_limit": Setting("nothing", None, 60, {"isolate": "worker"}),
    "retries": Setting("nothing", 0, 1),
    "workers": Setting("nothing", None, 1),
    "recompute": Setting("nothing", False, True),
    "feature_cache": Setting("nothing", 0, 10**9),
    "executor": Setting("nothing", "local", "slurm", {"isolate": "worker"}),
    "executor_options": Setting("nothing", {}, {"a": "b"}),
}


def test_every_setting_has_a_decision() -> None:
    assert SETTINGS.keys() == set(NAMES)


def changed(name: str) -> list[Settings]:
    setting = SETTINGS[name]
    return [Settings(**{**setting.others, name: value}) for value in (setting.first, setting.second)]


def named(how: str) -> list[str]:
    return [name for name, setting in SETTINGS.items() if setting.how == how]


@pytest.mark.parametrize("name", named("identity"))
def test_a_folder_is_not_used_by_another_value_of_a_setting(name: str, tmp_path: Path) -> None:
    first, second = changed(name)
    known = EncoderInfo({"spec": "micro-clip"}, {})
    folder = RunFolder(tmp_path)
    folder.claim(known.identity(first), {})
    folder.check(known.identity(first))
    with pytest.raises(UsageError, match=rf"holds a run with(out)? {name}\b.* choose another --output"):
        folder.check(known.identity(second))


def units_of(benchmark: str, settings: Settings, folder: Path) -> set[tuple[str, int]]:
    """Names and seeds of the units of a run."""
    if benchmark == COOP:
        return set(coop_units(settings))
    request = RunRequest([own_benchmark(folder / "benchmark.toml")], "micro-clip", folder / "run", settings)
    return {(unit.name, unit.seed) for unit in eval_units_of(request)}


@pytest.mark.parametrize("name", named("name"))
def test_another_value_of_a_setting_is_another_result(mine: Callable[[str], Path], name: str) -> None:
    benchmark = SETTINGS[name].benchmark
    folder = Path()
    if benchmark != COOP:
        folder = mine(benchmark)
        written(folder, benchmark, {})
    first, second = (units_of(benchmark, settings, folder) for settings in changed(name))
    assert first != second
    known = EncoderInfo({"spec": "micro-clip"}, {})
    before, after = (known.identity(settings) for settings in changed(name))
    assert before == after  # results by both may lie in one folder


@pytest.mark.parametrize("name", named("nothing"))
def test_a_result_does_not_depend_on_a_setting(mine: Callable[[str], Path], name: str) -> None:
    folder = mine("trained")
    file = written(folder, "trained", {})
    first, second = changed(name)
    known = EncoderInfo({"spec": "micro-clip"}, {})
    assert known.identity(first) == known.identity(second)
    stored = kept(unit_of(file, first))
    unit_of(file, second).check_data(stored, SIDE, {})
    assert units_of("trained", first, folder) == units_of("trained", second, folder)


@pytest.mark.parametrize("name", named("kept"))
def test_a_result_that_lacks_what_a_setting_asks_for_is_computed_again(mine: Callable[[str], Path], name: str) -> None:
    folder = mine("trained")
    file = written(folder, "trained", {})
    first, second = changed(name)
    unit = unit_of(file, first)
    unit.save(replace(kept(unit), scores=(Score("acc@1", "higher", 1.0, 1.0, 1.0, 0.5),)), np.ones(8))
    assert unit_of(file, first).finished() is not None
    assert unit_of(file, second).finished() is None


# Files that settings name


def knowledge_files(folder: Path, text: str) -> None:
    (folder / "knowledge" / "gpt3").mkdir(parents=True, exist_ok=True)
    rows = [{"classname": str(digit), "gpt3": [f"{text} {digit}"]} for digit in range(10)]
    (folder / "knowledge" / "gpt3" / "GPT3_digits.tsv").write_text(json.dumps(rows))


def unit_of_digits(folder: Path, **settings: Any) -> EvalUnit:
    return eval_units_of(RunRequest([KNOWN["digits"]], "micro-clip", folder / "run", Settings(**settings)))[-1]


def asked_of(unit: EvalUnit) -> Result:
    return replace(unit.blank({}), status="ok", data=unit.asked(SIDE))


def test_a_sweeps_result_is_by_what_its_files_of_knowledge_hold(tmp_path: Path) -> None:
    knowledge_files(tmp_path, "drawn as")
    how: dict[str, Any] = {
        **SWEPT,
        "knowledge": "gpt3:1",
        "knowledge_folder": tmp_path / "knowledge",
        "controls": False,
    }
    stored = asked_of(unit_of_digits(tmp_path, **how))
    plain = asked_of(unit_of_digits(tmp_path, **{**how, "knowledge": "none"}))
    (tmp_path / "knowledge" / "gpt3" / "GPT3_birds.tsv").write_text("of another set")
    unit_of_digits(tmp_path, **how).check_data(stored, SIDE, {})
    knowledge_files(tmp_path, "lines as")
    unit_of_digits(tmp_path, **{**how, "knowledge": "none"}).check_data(plain, SIDE, {})  # which read nothing
    with pytest.raises(UsageError, match=r"contents of files of words, knowledge, .*: choose another --output"):
        unit_of_digits(tmp_path, **how).check_data(stored, SIDE, {})


def test_the_choice_of_knowledge_is_by_what_was_among_it(tmp_path: Path) -> None:
    first, second = (unit_of_digits(tmp_path, **SWEPT, knowledge=f"auto,{name}") for name in ("wordnet", "wiktionary"))
    assert first.name == second.name
    with pytest.raises(UsageError, match=r"holds a result of digits@1-shot\.frozen\.language-2p\.auto seed 0 that was"):
        second.check_data(asked_of(first), SIDE, {})


@pytest.mark.parametrize(
    ("name", "file", "before", "after", "others"),
    [
        ("class_words", "cls_own.txt", "cat, kitten\n", "cat, tomcat\n", {}),
        ("recipe", "own.toml", "lr = 0.1\n", "lr = 0.2\n", {"tune": "full"}),
    ],
)
def test_a_folder_is_by_what_the_file_of_a_setting_holds(
    tmp_path: Path, name: str, file: str, before: str, after: str, others: Mapping[str, Any]
) -> None:
    place = tmp_path / file
    place.write_text(before)
    first = Settings(**others, **{name: str(place)}).identity()
    assert Settings(**others, **{name: str(place)}).identity() == first
    place.write_text(after)
    assert Settings(**others, **{name: str(place)}).identity() != first


def test_every_field_of_a_training_on_captions_has_a_decision() -> None:
    """What they hold of data and weights is in a digest of its own."""
    request = FinetuneRequest(pairs="pairs", encoder="micro-clip", output=Path("out"))
    names = {field.name for field in fields(FinetuneRequest)}
    assert names - request.identity().keys() == {"output", "device", "num_processes", "checkpoint_blocks"}


@pytest.mark.parametrize("inside", ["", "deep/"])
def test_a_folder_is_by_what_the_knowledge_of_detectors_holds(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "known" / inside / "odinw.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("square: {gpt3: [red]}")
    named = Settings(prompts="gpt3:1", knowledge_from=f"glip={tmp_path / 'known' if inside else file}")
    before = named.identity()
    assert named.identity() == before
    file.write_text("square: {gpt3: [tan]}")
    assert named.identity() != before


def test_a_result_is_by_the_code_of_its_language_model_and_its_second_encoder(
    mine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mine("words")
    file = written(folder, "words", {})
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    code = "from vision_features.encoders import load_encoder\n\n\ndef make():\n    return load_encoder('micro-clip')\n"
    module = folder / "of_known_by.py"
    for how in (
        {"language_model": "of_known_by:make"},
        {"patch_features": ("proxyclip",), "proxy": "of_known_by:make"},
    ):
        module.write_text(code)
        sys.modules.pop("of_known_by", None)
        stored = kept(unit_of(file, Settings(**how)))
        unit_of(file, Settings(**how)).check_data(stored, SIDE, {})
        module.write_text(code + "# other\n")
        with pytest.raises(UsageError, match="shots or code that it or a setting names"):
            unit_of(file, Settings(**how)).check_data(stored, SIDE, {})


def test_a_result_is_by_the_benchmark_on_which_its_training_was_watched(
    mine: Callable[[str], Path], tmp_path: Path, lists: Path
) -> None:
    file = written(mine("trained"), "trained", {})
    watched = shutil.copytree(lists / "table", tmp_path / "watched")
    other = written(watched, "table", {"benchmark.id": "other"})
    how = Settings(tune="full", keep_zero_shot=(str(other),))
    stored = kept(unit_of(file, how))
    unit_of(file, how).check_data(stored, SIDE, {})
    edited_picture(watched / "39.jpg")
    with pytest.raises(UsageError, match=r"watched other, and the latter's is one on other data"):
        unit_of(file, how).check_data(stored, SIDE, {})


def test_a_result_is_by_where_its_data_came_from(tmp_path: Path) -> None:
    unit = unit_of_digits(tmp_path)
    stored = replace(asked_of(unit), source="local")
    with pytest.raises(UsageError, match="from source 'local', not 'built-in': choose another"):
        unit.check_data(stored, SIDE, {})


def test_the_same_command_after_a_change_shows_no_old_number(
    mine: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """End to end: run, run again, edit templates beside the benchmark's file, and run once more."""
    folder = mine("table")
    monkeypatch.chdir(folder.parent)  # files of words are looked for beside the benchmark's file
    file = written(folder, "table", {"classes.templates": ["templates.json#en"]})
    how: dict[str, Any] = {"output": folder / "run", "encoder": "micro-clip", "show": False}
    (first,) = gate_runner.run(str(file), **how)
    assert first.status == "ok", first.reason
    (again,) = gate_runner.run(str(file), **how)
    assert again == first
    edited(folder / "templates.json", "a {} square", "no {} circle")
    with pytest.raises(UsageError, match="holds a result of own seed 0 that was asked for otherwise"):
        gate_runner.run(str(file), **how)
    (other,) = gate_runner.run(str(file), **{**how, "output": folder / "other"})
    assert other.data["asked"] != first.data["asked"]


def test_absent_data_are_said_and_stored_results_are_shown(mine: Callable[[str], Path]) -> None:
    folder = mine("folders")
    file = written(folder, "folders", {})
    output = folder.parent / "run"
    gate_runner.run(str(file), output=output, encoder="micro-clip", show=False)
    shutil.rmtree(folder / "all")
    with pytest.raises(DataError, match="all/train"):
        gate_runner.run(str(file), output=output, encoder="micro-clip", show=False)
    assert "own" in gate_runner.report(output, pictures=0)

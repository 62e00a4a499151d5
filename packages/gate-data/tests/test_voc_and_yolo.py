"""Pascal VOC's and YOLO's files as tools write them: difficult objects, no size, equal rows, names that look alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate_data.boxes.files import listed_voc, listed_yolo, read_coco, voc
from gate_data.errors import DataError
from gate_data.own import OwnBenchmark, guess
from gate_data.own.annotated import read_boxes
from gate_data.own.originals import originals_from

BOX = "<bndbox><xmin>3</xmin><ymin>5</ymin><xmax>12</xmax><ymax>24</ymax></bndbox>"
SIZE = "<size><width>40</width><height>40</height></size>"


def of_voc(folder: Path, objects: str, head: str = SIZE) -> Path:
    Image.new("RGB", (40, 40)).save(folder / "0.png")
    (folder / "0.xml").write_text(f"<annotation>\n{head}\n{objects}\n</annotation>")
    return folder / "0.xml"


def test_difficult_objects_are_neither_found_nor_missed(tmp_path: Path) -> None:
    file = of_voc(
        tmp_path,
        f"<object><name>a</name><difficult>1</difficult>{BOX}</object>"
        f"<object><name>b</name><difficult>0</difficult>{BOX}</object><object><name>b</name>{BOX}</object>",
    )
    listed = listed_voc([(tmp_path / "0.png", file)])
    (rows,) = listed.objects.rows
    assert rows["crowd"].tolist() == [True, False, False]
    assert listed.objects.counts(2).tolist() == [0, 2]
    assert listed.note == "1 difficult objects count as neither found nor missed"


@pytest.mark.parametrize(
    "head", ["", "<filename>IMG.JPG</filename>", "<size><width>0</width><height>0</height><depth>0</depth></size>"]
)
def test_the_header_says_a_size_that_the_file_does_not(tmp_path: Path, head: str) -> None:
    file = of_voc(tmp_path, f"<object><name>a</name>{BOX}</object>", head)
    listed = listed_voc([(tmp_path / "0.png", file)])
    assert listed.objects.sizes.tolist() == [[40, 40]]
    assert listed.objects.rows.columns["box"].tolist() == [[2, 4, 10, 20]]


@pytest.mark.parametrize(
    ("objects", "head", "message"),
    [
        (f"<object>{BOX}</object>", SIZE, r"0\.xml, line 3: field 'name' is missing"),
        (f"<object><name>a</name>{BOX.replace('>12<', '>1<')}</object>", SIZE, r"line 3: field 'xmax' is '1'"),
        (f"<object><name>a</name>{BOX}<difficult>2</difficult></object>", SIZE, r"line 3: field 'difficult' is '2'"),
        ("", "<size><width>0</width><height>40</height></size>", r"line 2: field 'width' is '0'"),
        ("", "<size><width>x</width><height>40</height></size>", r"line 2: field 'width' is 'x'"),
        (f"<object><name>a</name><name>b</name>{BOX}</object>", SIZE, r"line 3: object has 'name' twice"),
        (f"<object><name>a</name>{BOX}{BOX}</object>", SIZE, r"line 3: object has 'bndbox' twice"),
        (f"<object><name>a</name>{BOX.replace('ymin', 'xmin')}</object>", SIZE, r"line 3: bndbox has 'xmin' twice"),
        ("", SIZE + SIZE, r"line 1: annotation has 'size' twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, objects: str, head: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        voc(of_voc(tmp_path, objects, head))


def test_classes_of_boxes_that_differ_in_case_are_refused(tmp_path: Path) -> None:
    for number, name in enumerate("aAaa"):
        Image.new("RGB", (40, 40)).save(tmp_path / f"{number}.png")
        (tmp_path / f"{number}.xml").write_text(f"<annotation><object><name>{name}</name>{BOX}</object></annotation>")
    values = guess(tmp_path).values
    own = OwnBenchmark.model_validate({**values, "benchmark": {**values["benchmark"], "task": "detection"}})
    with pytest.raises(DataError, match=r"classes '[aA]' and '[aA]' differ only in their case"):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)


def test_equal_rows_of_yolo_are_one_object(tmp_path: Path) -> None:
    Image.new("RGB", (80, 40)).save(tmp_path / "0.png")
    (tmp_path / "0.txt").write_text("0 0.5 0.5 0.2 0.4\n0 .50 0.5 0.2 0.4\n1 0.5 0.5 0.2 0.4\n0 0.5 0.5 0.2 0.5\n")
    listed = listed_yolo([(tmp_path / "0.png", tmp_path / "0.txt")], ("a", "b"))
    assert listed.objects.counts(2).tolist() == [2, 1]
    assert listed.note == "1 row left out, equal to another"


def test_a_name_with_a_line_separator_is_one_name(tmp_path: Path) -> None:
    for folder in ("images", "labels"):
        (tmp_path / folder).mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{number}.png")
        (tmp_path / "labels" / f"{number}.txt").write_text(f"{number % 2} .5 .5 .2 .2\n")
    (tmp_path / "classes.txt").write_text("left\u2028hand\nright\n", encoding="utf-8")
    assert guess(tmp_path).values["classes"]["names"] == ["left\u2028hand", "right"]


def of_coco(root: Path, form: str, *, areas: bool, sizes: bool = True, count: int = 12) -> Path:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        Image.new("RGB", (100, 80)).save(root / f"{number}.png")
        left, top = (int(value) for value in rng.integers(0, 40, 2))
        wide, high = (int(value) for value in rng.integers(20, 40, 2))
        box = [left, top, wide, high] if form == "sides" else [left, top, left + wide, top + high]
        rows.append({"id": number, "image_id": number, "category_id": 1, "bbox": box})
        rows[-1] |= {"area": wide * high} if areas else {}
    side = {"width": 100, "height": 80} if sizes else {}
    images = [{"id": number, "file_name": f"{number}.png", **side} for number in range(count)]
    content = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "a"}]}
    (root / "a.json").write_text(json.dumps(content))
    return root / "a.json"


@pytest.mark.parametrize(("areas", "sizes"), [(True, True), (True, False), (False, True)])
def test_corners_in_a_coco_file_are_refused(tmp_path: Path, areas: bool, sizes: bool) -> None:
    with pytest.raises(DataError, match=r"a\.json: boxes such as \[.*\] look like left, top, right and bottom"):
        read_coco(of_coco(tmp_path, "corners", areas=areas, sizes=sizes))


@pytest.mark.parametrize(("areas", "sizes"), [(True, True), (True, False), (False, True), (False, False)])
def test_sides_in_a_coco_file_are_no_corners(tmp_path: Path, areas: bool, sizes: bool) -> None:
    assert read_coco(of_coco(tmp_path, "sides", areas=areas, sizes=sizes)).clipped == 0


@pytest.mark.parametrize("count", [1, 3])
def test_boxes_in_shares_of_the_sides_are_refused(tmp_path: Path, count: int) -> None:
    shares = "<bndbox><xmin>.1</xmin><ymin>.2</ymin><xmax>.5</xmax><ymax>1</ymax></bndbox>"
    file = of_voc(tmp_path, f"<object><name>a</name>{shares}</object>" * count)
    with pytest.raises(DataError, match=r"all boxes, such as \[.*lie in the first pixel; expected pixels"):
        listed_voc([(tmp_path / "0.png", file)])
    objects = [{"id": at, "image_id": 1, "category_id": 1, "bbox": [0.1, 0.2, 0.4, 0.8]} for at in range(count)]
    images = [{"id": 1, "file_name": "0.png", "width": 40, "height": 40}]
    content = {"images": images, "annotations": objects, "categories": [{"id": 1, "name": "a"}]}
    (tmp_path / "coco.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"coco\.json: all boxes, such as \[0\.1, 0\.2, 0\.4, 0\.8\]"):
        read_coco(tmp_path / "coco.json")
    objects[0]["bbox"] = [0.1, 0.2, 0.4, 2.8]
    (tmp_path / "coco.json").write_text(json.dumps(content))
    assert read_coco(tmp_path / "coco.json").objects.counts(1).tolist() == [count]


def poses(folder: Path, dims: int, *, yaml: bool, rows: int = 12) -> None:
    """Boxes of 0.4 x 0.4 around the middle with 12 keypoints in them, as Ultralytics writes them."""
    rng = np.random.default_rng(0)
    for at in range(rows):
        for name in ("images", "labels"):
            (folder / name).mkdir(exist_ok=True)
        Image.new("RGB", (50, 50)).save(folder / "images" / f"{at}.png")
        points = np.column_stack([rng.uniform(0.31, 0.69, (12, 2)), np.full(12, 2)])[:, :dims]
        points[at % 12] = 0
        cells = " ".join(f"{number:.4f}" for number in points.ravel())
        (folder / "labels" / f"{at}.txt").write_text(f"0 0.5 0.5 0.4 0.4 {cells}\n")
    if yaml:
        (folder / "data.yaml").write_text(f"train: images\nval: images\nkpt_shape: [12, {dims}]\nnames: [tiger]\n")
    else:
        (folder / "classes.txt").write_text("tiger\n")


@pytest.mark.parametrize("dims", [2, 3])
def test_keypoints_behind_a_box_are_no_outline(tmp_path: Path, dims: int) -> None:
    poses(tmp_path, dims, yaml=False)
    values = guess(tmp_path).values
    own = OwnBenchmark.model_validate(values)
    with pytest.raises(DataError, match=r"0\.txt, line 1 looks like a box with keypoints"):
        originals_from(own, tmp_path / "benchmark.toml").check(tmp_path)


def test_yolos_file_of_keypoints_is_refused(tmp_path: Path) -> None:
    poses(tmp_path, 2, yaml=True, rows=3)
    with pytest.raises(DataError, match=r"data\.yaml: 'kpt_shape' says that each line has keypoints"):
        guess(tmp_path)


def test_outlines_of_equally_many_points_are_read(tmp_path: Path) -> None:
    rng, pairs = np.random.default_rng(0), []
    for at in range(20):
        Image.new("RGB", (50, 50)).save(tmp_path / f"{at}.png")
        middle, turn = rng.uniform(0.3, 0.7, 2), rng.uniform(0, 2 * np.pi) + np.arange(8) * np.pi / 4
        points = middle + 0.2 * np.column_stack([np.cos(turn), np.sin(turn)])
        (tmp_path / f"{at}.txt").write_text("0 " + " ".join(f"{share:.5f}" for share in points.ravel()))
        pairs.append((tmp_path / f"{at}.png", tmp_path / f"{at}.txt"))
    assert listed_yolo(pairs, ("a",)).objects.counts(1).tolist() == [20]


@pytest.mark.parametrize(
    ("rows", "remark"), [("0.5 0.5 0.4 0.4 0.6 0.6", "7 fields"), ("0.4 0.4 0.6 0.4 0.6 0.6 0.4 0.6", "9 f")]
)
def test_outlines_that_may_be_boxes_with_keypoints_are_remarked(tmp_path: Path, rows: str, remark: str) -> None:
    Image.new("RGB", (50, 50)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text(f"0 {rows}\n")
    pair = (tmp_path / "a.png", tmp_path / "a.txt")
    assert [text for text in listed_yolo([pair], ("a",)).remarks if f"all rows have {remark}" in text]
    (tmp_path / "b.txt").write_text(f"0 {rows}\n0 0.5 0.5 0.4 0.4\n")
    assert not listed_yolo([(tmp_path / "a.png", tmp_path / "b.txt")], ("a",)).remarks


def named_again(folder: Path) -> None:
    """COCO's file with a row of ``images`` for each annotation, as converters of tables write it."""
    images, rows = [], []
    for at in range(20):
        Image.fromarray(np.random.default_rng(at).integers(0, 255, (30, 40, 3), np.uint8)).save(folder / f"{at}.png")
        for box in ([5, 5, 8, 8], [15, 5, 8, 8], [15, 5, 8, 8]):
            images.append({"id": len(images), "file_name": f"{at}.png", "width": 40, "height": 30})
            rows.append({"id": len(rows), "image_id": len(images) - 1, "category_id": 1, "bbox": box, "area": 64})
    content = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "a"}]}
    (folder / "a.json").write_text(json.dumps(content))


def test_an_image_that_is_named_again_is_one_image_with_all_its_boxes(tmp_path: Path) -> None:
    named_again(tmp_path)
    own = OwnBenchmark.model_validate(guess(tmp_path).values)
    lists = read_boxes(own, tmp_path)[""]
    assert len(lists.files) == len(set(lists.files)) == 20
    assert {tuple(map(tuple, rows["box"].tolist())) for rows in lists.objects.rows} == {((5, 5, 8, 8), (15, 5, 8, 8))}
    assert "40 rows name an image again, such as" in lists.note
    parts = originals_from(own, tmp_path / "benchmark.toml").parts
    assert parts is not None
    content = parts(tmp_path)
    assert not {sample.source for sample in content.train} & {sample.source for sample in content.test}


def test_images_in_the_lists_of_two_splits_are_named(tmp_path: Path) -> None:
    for name in ("images", "labels"):
        (tmp_path / name).mkdir()
    for at in range(12):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{at}.png")
        (tmp_path / "labels" / f"{at}.txt").write_text("0 .5 .5 .2 .2\n")
    for split, rows in (("train", range(8)), ("val", [7, 8, 9, 9])):
        (tmp_path / f"{split}.txt").write_text("".join(f"images/{at}.png\n" for at in rows))
    (tmp_path / "data.yaml").write_text("train: train.txt\nval: val.txt\nnames: [a]\n")
    parts = originals_from(OwnBenchmark.model_validate(guess(tmp_path).values), tmp_path / "benchmark.toml").parts
    assert parts is not None
    content = parts(tmp_path)
    assert len(content.test) == 3
    assert "test: 1 row names an image again" in content.note
    assert "1 file is tested on and trained or validated on, such as" in content.note

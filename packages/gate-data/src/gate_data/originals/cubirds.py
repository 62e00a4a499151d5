"""Caltech-UCSD Birds 200-2011 for few-shot, cut to its boxes, with Meta-Dataset's classes."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, by_class_split, from_lists
from gate_data.readers import Cut, Files, Row, pairs, place
from gate_data.tables import read_table

_EXPECTED = "CUB_200_2011/images.txt, image_class_labels.txt, classes.txt, bounding_boxes.txt and images/"


def parts(folder: Path) -> Parts:
    """140, 30 and 30 classes, without 43 pictures that are also in ImageNet."""
    held = read_table("class_splits")["splits"]["cubirds"]
    names = {number: name for _, number, name in pairs(folder / "classes.txt")}
    labels = {image: (line, number) for line, image, number in pairs(folder / "image_class_labels.txt")}
    boxes = {image: (line, box) for line, image, box in pairs(folder / "bounding_boxes.txt")}
    files = Files(folder / "images")
    classes: dict[str, list[Sample]] = {name: [] for name in names.values()}
    for line, image, name in pairs(folder / "images.txt"):
        where = f"{folder / 'images.txt'}, line {line}"
        file = files.get(name, where)
        for values, listed in ((labels, "image_class_labels.txt"), (boxes, "bounding_boxes.txt")):
            if image not in values:
                raise DataError(f"{where}: image {image} is not in {listed}")
        at, number = labels[image]
        if number not in names:
            raise DataError(f"{folder / 'image_class_labels.txt'}, line {at}: class {number!r} is in no list")
        if name.partition("/")[0] != names[number]:
            raise DataError(f"{where}: {name} is of class {number}, which classes.txt calls {names[number]}")
        if int(name.rpartition("_")[2].partition(".")[0]) not in held["in_imagenet"]:
            classes[names[number]].append(Sample(_cut(folder, file, *boxes[image])))
    by_number = {int(number): name for number, name in names.items()}
    chosen = {part: [by_number.get(number, str(number)) for number in held[part]] for part in ("validation", "test")}
    return by_class_split(classes, chosen)


def _cut(folder: Path, file: object, line: int, box: str) -> Cut:
    """``x y width height`` as floats, of which the whole parts count."""
    values = dict(zip("xywh", box.split(), strict=False))
    row = Row(folder / "bounding_boxes.txt", line, values)
    x, y, width, height = (int(row.number(side, 0)) for side in "xywh")
    return Cut(str(file), (x, y, x + width, y + height))


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("CUB_200_2011", "cubirds/CUB_200_2011"), "image_class_labels.txt"),
    parts,
    few_shot=True,
    fit="whole",
)

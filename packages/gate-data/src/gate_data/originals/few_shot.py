"""Few-shot: splits have classes of their own, which are Meta-Dataset's but for Mini-ImageNet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Arrays, Parts, Sample, Side, of_card
from gate_data.readers.arrays import read_matlab
from gate_data.readers.decode import decode
from gate_data.readers.folders import Files, files_in, files_of_classes, first_of
from gate_data.readers.source import Cut, Member
from gate_data.readers.tables import by_id, fields, records, table
from gate_data.tables import read_table
from wary_files import archives, pickles

if TYPE_CHECKING:  # whoever only lists files does without torch
    from torch import Tensor

_SPLITS = read_table("class_splits")["splits"]
_HELD = ("validation", "test")


def _by_class(classes: Mapping[str, Sequence[Sample]], held: Mapping[str, Sequence[str]]) -> Parts:
    """Whole classes go to validation and test, all others train."""
    apart = [*held["validation"], *held["test"]]
    names = {"train": [name for name in classes if name not in set(apart)], **held}
    if empty := [name for name in apart if not classes.get(name)]:
        raise DataError(f"class {empty[0]!r} of the published split has no images")
    order = {name: index for index, name in enumerate([*names["train"], *apart])}
    train, validation, test = (
        [sample._replace(target=order[name]) for name in names[part] for sample in classes[name]]
        for part in ("train", "validation", "test")
    )
    return Parts(train, test, validation, tuple(order))


@of_card("aircraft")
def aircraft(folder: Path) -> Parts:
    """70, 15 and 15 of 100 variants, cut to their boxes, which takes the photographer's banner away."""
    corners = ("xmin", "ymin", "xmax", "ymax")  # the first pixel is (1, 1)
    boxes = {row.text("image"): row for row in fields(folder / "images_box.txt", "image", *corners)}
    files = Files(folder / "images")
    classes: dict[str, list[Sample]] = {}
    for part in ("train", "val", "test"):
        for row in fields(folder / f"images_variant_{part}.txt", "image", "variant"):
            name = row.text("image")
            if name not in boxes:
                raise DataError(f"{row.where}: {name} has no box in images_box.txt")
            left, top, right, bottom = (boxes[name].integer(corner, 1) for corner in corners)
            cut = Cut(str(files.get(f"{name}.jpg", row.where)), (left - 1, top - 1, right, bottom))
            classes.setdefault(row.text("variant"), []).append(Sample(cut))
    return _by_class(dict(sorted(classes.items())), _SPLITS["aircraft"])


@of_card("cubirds")
def cubirds(folder: Path) -> Parts:
    """140, 30 and 30 classes, cut to their boxes, without 43 images that are also in ImageNet."""
    held = _SPLITS["cubirds"]
    names = {row.text("number"): row.text("name") for row in fields(folder / "classes.txt", "number", "name")}
    numbers = {row.text("image"): row for row in fields(folder / "image_class_labels.txt", "image", "class")}
    boxes = {row.text("image"): row for row in fields(folder / "bounding_boxes.txt", "image", *"xywh")}
    files = Files(folder / "images")
    classes: dict[str, list[Sample]] = {name: [] for name in names.values()}
    for row in fields(folder / "images.txt", "image", "file"):
        image, name = row.text("image"), row.text("file")
        file = files.get(name, row.where)
        for listed in (numbers, boxes):
            if image not in listed:
                raise DataError(f"{row.where}: image {image} is not in {next(iter(listed.values())).file.name}")
        number = numbers[image].text("class")
        if number not in names:
            raise DataError(f"{numbers[image].where}: class {number!r} is in no list")
        if name.partition("/")[0] != names[number]:
            raise DataError(f"{row.where}: {name} is of class {number}, which classes.txt calls {names[number]}")
        if int(name.rpartition("_")[2].partition(".")[0]) not in held["in_imagenet"]:
            x, y, width, height = (int(boxes[image].number(side, 0)) for side in "xywh")  # the whole parts count
            classes[names[number]].append(Sample(Cut(str(file), (x, y, x + width, y + height))))
    by_number = {int(number): name for number, name in names.items()}
    return _by_class(classes, {part: [by_number.get(number, str(number)) for number in held[part]] for part in _HELD})


@of_card("dtextures")
def dtextures(folder: Path) -> Parts:
    """33, 7 and 7 of 47 textures with 120 images each."""
    classes = files_of_classes(folder / "images", (".jpg",))  # one class holds a stray .directory file
    return _by_class({name: [Sample(file) for file in files] for name, files in classes.items()}, _SPLITS["dtextures"])


@of_card("fungi")
def fungi(folder: Path) -> Parts:
    """994, 200 and 200 categories, of which several share a name; the images of both lists are pooled."""
    lists = (folder / "train.json", folder / "val.json")
    rows = [row for path in lists for row in records(path, "categories")]
    names = {row.integer("id"): f"{row.integer('id'):04}.{row.text('name')}" for row in rows}
    classes: dict[str, list[Sample]] = {names[number]: [] for number in sorted(names)}
    files = Files(folder)
    for path in lists:
        images = by_id(records(path, "images"))
        for row in records(path, "annotations"):
            image = images[row.known("image_id", images, "an image")]
            sample = Sample(files.get(image.text("file_name"), image.where))
            classes[names[row.known("category_id", names, "a category")]].append(sample)
    held = {part: _SPLITS["fungi"][part] for part in _HELD}
    if missing := [number for numbers in held.values() for number in numbers if number not in names]:
        raise DataError(f"{folder / 'train.json'} has no category {missing[0]}; expected 0 to 1393")
    return _by_class(
        {name: samples for name, samples in classes.items() if samples},
        {part: [names[number] for number in numbers] for part, numbers in held.items()},
    )


@of_card("vgg")
def vgg(folder: Path) -> Parts:
    """71, 15 and 16 of 102 flowers, which the archive numbers and does not name."""
    files, labels = flowers(folder)
    if len(labels) < (count := len(files_in(folder / "jpg", (".jpg",)))):
        raise DataError(f"{folder / 'imagelabels.mat'} has {len(labels)} labels, expected {count}")
    names = [f"flower {number:03}" for number in range(1, 103)]
    classes: dict[str, list[Sample]] = {name: [] for name in names}
    for number, label in enumerate(labels, start=1):
        file = files.get(f"image_{number:05}.jpg", f"{folder / 'imagelabels.mat'}, label {number}")
        classes[names[label]].append(Sample(file))
    held = {part: [names[number - 1] for number in _SPLITS["vgg"][part]] for part in _HELD}
    return _by_class(classes, held)


def flowers(folder: Path) -> tuple[Files, list[int]]:
    """Oxford's flowers: their folder, and the class, from 0, of each image in the order of their numbers."""
    path = folder / "imagelabels.mat"
    labels = np.asarray(read_matlab(str(path), "labels")).ravel()
    wrong = labels[~np.isin(labels, np.arange(1, 103))]
    if len(wrong) or not len(labels):
        raise DataError(f"{path} has {f'the label {wrong[0]}' if len(wrong) else 'no labels'}, expected 1 to 102")
    return Files(folder / "jpg"), [int(label) - 1 for label in labels]


_CACHES = (
    ("mini-imagenet-cache-train.pkl",),
    ("mini-imagenet-cache-val.pkl", "mini-imagenet-cache-validation.pkl"),
    ("mini-imagenet-cache-test.pkl",),
)


@of_card("mini")
def mini(folder: Path) -> Parts | Arrays:
    """64, 16 and 20 classes of 600 images, by the lists of Ravi and Larochelle, or from cached arrays of 84 px."""
    classes: dict[str, int] = {}
    if not (folder / "train.csv").is_file():
        train, validation, test = (_cached(first_of(folder, names), classes) for names in _CACHES)
        return Arrays(train, test, tuple(classes), "images of 84 px", validation)
    files, lists = Files(folder / "images"), []
    for name in ("train.csv", "val.csv", "test.csv"):
        rows = list(table(folder / name, ["filename", "label"]))
        lists.append(
            [
                Sample(files.get(row.text("filename"), row.where), classes.setdefault(row.text("label"), len(classes)))
                for row in rows
            ]
        )
    return Parts(lists[0], lists[2], lists[1], tuple(classes))


def _cached(path: Path, classes: dict[str, int]) -> Side:
    """The images of a pickle in the order of its classes, which are numbered after those that there are."""
    with path.open("rb") as file:
        content = pickles.load(file, str(path))
    pixels, rows = (content.get(name) for name in ("image_data", "class_dict")) if isinstance(content, dict) else (0, 0)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (84, 84, 3):
        raise DataError(f"{path}: image_data is not uint8 [n, 84, 84, 3]")
    if not isinstance(rows, dict) or not rows:
        raise DataError(f"{path}: class_dict is not a dictionary of classes")
    for name, own in rows.items():
        if not isinstance(own, list) or not own or not all(type(row) is int and 0 <= row < len(pixels) for row in own):
            raise DataError(f"{path}: class {name!r} has rows outside 0 to {len(pixels) - 1}, or none")
    labels = [classes.setdefault(f"{name}", len(classes)) for name, own in rows.items() for _ in own]
    chosen = [row for own in rows.values() for row in own]
    return Side(pixels.transpose(0, 3, 1, 2)[chosen], np.array(labels))


_SMALL = ("images_background_small1.zip", "images_background_small2.zip")
_FULL = ("images_background.zip", "images_evaluation.zip")
_HELD_ALPHABETS = (
    "Alphabet_of_the_Magi",
    "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Tagalog",
)
"""Meta-Dataset's."""


def _drawn(samples: Sequence[Sample]) -> Tensor:
    """Drawings of 105 px, white on black."""
    import torch

    grey = 255 - np.stack([np.asarray(decode(sample.source).convert("L")) for sample in samples])  # type: ignore[arg-type]  # a member, not frames
    return torch.from_numpy(grey)[:, None].expand(-1, 3, -1, -1)


@of_card("omniglot", images=_drawn)
def _omniglot(folder: Path) -> Parts:
    """Characters as classes, 20 drawings of each.

    With the full files, the test classes are those of ``images_evaluation.zip``, and five alphabets validate:
    Meta-Dataset's. With the two small files, which share two alphabets, the test's are those that only the second has,
    and the first of the others validates. No alphabet is in two splits.
    """
    zips = _zips(folder)
    first, second = map(_alphabets, zips)
    held = [name for name in first if name in _HELD_ALPHABETS] if zips[0].name == _FULL[0] else sorted(first)[:1]
    lists: list[list[Sample]] = []
    signs: list[str] = []
    for alphabets in (
        {name: first[name] for name in sorted(first) if name not in held},
        {name: first[name] for name in held},
        {name: second[name] for name in second if name not in first},
    ):
        lists.append([])
        for alphabet, characters in alphabets.items():
            for sign, drawings in characters.items():
                lists[-1] += [Sample(drawing, len(signs)) for drawing in drawings]
                signs.append(f"{alphabet}/{sign}")
    if not all(lists):
        raise DataError(
            f"{zips[0]} holds {len(first)} alphabets, and {zips[1]} {len(lists[2])} signs of others; expected at least "
            "2 alphabets in the first, and one in the second that the first lacks"
        )
    return Parts(lists[0], lists[2], lists[1], tuple(signs))


def _zips(folder: Path) -> list[Path]:
    names = _FULL if all((folder / name).is_file() for name in _FULL) else _SMALL
    return [folder / name for name in names]


def _alphabets(path: Path) -> dict[str, dict[str, list[Member]]]:
    """Alphabet to character to its drawings in the zip file."""
    drawings: dict[str, dict[str, list[Member]]] = defaultdict(lambda: defaultdict(list))
    for member in sorted(archives.members(path)):
        parts = member.split("/")
        if member.endswith(".png") and len(parts) == 4:
            drawings[parts[1]][parts[2]].append(Member(str(path), member))
    if not drawings:
        raise DataError(f"{path} holds no drawings; expected members like SET/ALPHABET/character01/0001_01.png")
    return drawings


def _check_omniglot(folder: Path) -> None:
    """Read every member of the zip files once."""
    for path in _zips(folder):
        archives.check(path)


omniglot = replace(_omniglot, check=_check_omniglot)

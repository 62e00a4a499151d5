"""Few-shot: splits have classes of their own, which are Meta-Dataset's but for Mini-ImageNet."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Originals, Parts, Sample, Side, few_classes, from_lists, original
from gate_data.readers import archives, pickles
from gate_data.readers.arrays import read_matlab
from gate_data.readers.decode import decode
from gate_data.readers.folders import Files, files_in, files_of_classes, first_of, place
from gate_data.readers.maps import ranked
from gate_data.readers.source import Cut, Member
from gate_data.readers.tables import Row, pairs, records, table
from gate_data.request import DataRequest
from gate_data.tables import read_table

if TYPE_CHECKING:
    from gate_data.data import Data, Split

_SPLITS = read_table("class_splits")["splits"]


def _by_class(classes: Mapping[str, Sequence[Sample]], held: Mapping[str, Sequence[str]]) -> Parts:
    """Whole classes go to validation and test, all others train."""
    names: dict[str, Sequence[str]] = {"train": (), "validation": held["validation"], "test": held["test"]}
    apart = {name for part in names.values() for name in part}
    if empty := [name for part in names.values() for name in part if not classes.get(name)]:
        raise DataError(f"class {empty[0]!r} of the published split has no pictures")
    names["train"] = [name for name in classes if name not in apart]
    order = {name: index for index, name in enumerate(name for part in names.values() for name in part)}
    train, validation, test = (
        [sample._replace(target=order[name]) for name in part for sample in classes[name]] for part in names.values()
    )
    return Parts(train, test, validation, tuple(order))


@original(
    "fgvc-aircraft-2013b/data/images/, images_box.txt and images_variant_train.txt, _val.txt, _test.txt",
    ("fgvc-aircraft-2013b/data", "aircraft/data", "aircraft"),
    "images_box.txt",
    few_shot=True,
    fit="whole",
)
def aircraft(folder: Path) -> Parts:
    """70, 15 and 15 of 100 variants, cut to their boxes, which takes the photographer's banner away."""
    boxes = {name: (line, box) for line, name, box in pairs(folder / "images_box.txt")}
    files = Files(folder / "images")
    classes: dict[str, list[Sample]] = {}
    for part in ("train", "val", "test"):
        path = folder / f"images_variant_{part}.txt"
        for line, name, variant in pairs(path):
            if name not in boxes:
                raise DataError(f"{path}, line {line}: {name} has no box in images_box.txt")
            file = files.get(f"{name}.jpg", f"{path}, line {line}")
            at, box = boxes[name]  # xmin ymin xmax ymax, the first pixel being (1, 1)
            row = Row(folder / "images_box.txt", at, dict(zip(_CORNERS, box.split(), strict=False)))
            left, top, right, bottom = (row.integer(corner, 1) for corner in _CORNERS)
            classes.setdefault(variant, []).append(Sample(Cut(str(file), (left - 1, top - 1, right, bottom))))
    return _by_class(dict(sorted(classes.items())), _SPLITS["aircraft"])


_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@original(
    "CUB_200_2011/images.txt, image_class_labels.txt, classes.txt, bounding_boxes.txt and images/",
    ("CUB_200_2011", "cubirds/CUB_200_2011"),
    "image_class_labels.txt",
    few_shot=True,
    fit="whole",
)
def cubirds(folder: Path) -> Parts:
    """140, 30 and 30 classes, cut to their boxes, without 43 pictures that are also in ImageNet."""
    held = _SPLITS["cubirds"]
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
            at, box = boxes[image]  # x y width height as floats, of which the whole parts count
            row = Row(folder / "bounding_boxes.txt", at, dict(zip("xywh", box.split(), strict=False)))
            x, y, width, height = (int(row.number(side, 0)) for side in "xywh")
            classes[names[number]].append(Sample(Cut(str(file), (x, y, x + width, y + height))))
    by_number = {int(number): name for number, name in names.items()}
    chosen = {part: [by_number.get(number, str(number)) for number in held[part]] for part in ("validation", "test")}
    return _by_class(classes, chosen)


@original("dtd/images/banded/ …", ("dtd/dtd", "dtd"), "images/banded", few_shot=True)
def dtextures(folder: Path) -> Parts:
    """33, 7 and 7 of 47 textures with 120 pictures each."""
    classes = files_of_classes(folder / "images", (".jpg",))  # one class holds a stray .directory file
    return _by_class({name: [Sample(file) for file in files] for name, files in classes.items()}, _SPLITS["dtextures"])


@original(
    "fungi/images/, train.json and val.json", ("fungi", "fgvcx_fungi", "fungi_train_val"), "train.json", few_shot=True
)
def fungi(folder: Path) -> Parts:
    """994, 200 and 200 categories, of which several share a name; the pictures of both lists are pooled."""
    lists = (folder / "train.json", folder / "val.json")
    rows = [row for path in lists for row in records(path, "categories")]
    names = {row.integer("id"): f"{row.integer('id'):04}.{row.text('name')}" for row in rows}
    classes: dict[str, list[Sample]] = {names[number]: [] for number in sorted(names)}
    files = Files(folder)
    for path in lists:
        images = {row.integer("id"): row for row in records(path, "images")}
        for row in records(path, "annotations"):
            image, label = row.integer("image_id"), row.integer("category_id")
            if image not in images:
                raise row.error("image_id", "the id of an image of this file")
            if label not in names:
                raise row.error("category_id", "the id of a category of this file")
            classes[names[label]].append(Sample(files.get(images[image].text("file_name"), images[image].where)))
    held = {part: _SPLITS["fungi"][part] for part in ("validation", "test")}
    if missing := [number for numbers in held.values() for number in numbers if number not in names]:
        raise DataError(f"{folder / 'train.json'} has no category {missing[0]}; expected 0 to 1393")
    return _by_class(
        {name: own for name, own in classes.items() if own},
        {part: [names[number] for number in numbers] for part, numbers in held.items()},
    )


@original(
    "flowers-102/jpg/image_00001.jpg … and imagelabels.mat",
    ("flowers-102", "vgg", "102flowers"),
    ("jpg", "imagelabels.mat"),
    few_shot=True,
)
def vgg(folder: Path) -> Parts:
    """71, 15 and 16 of 102 flowers, which the archive numbers and does not name; label i, from 1, is of picture i."""
    path = folder / "imagelabels.mat"
    labels = np.asarray(read_matlab(str(path), "labels")).ravel()
    count = len(files_in(folder / "jpg", (".jpg",)))
    if len(labels) < count or labels.min() < 1 or labels.max() > 102:
        raise DataError(
            f"{path} has {len(labels)} labels from {labels.min()} to {labels.max()}, expected {count} from 1 to 102"
        )
    files = Files(folder / "jpg")
    classes: dict[str, list[Sample]] = {f"flower {number:03}": [] for number in range(1, 103)}
    for number, label in enumerate(labels, start=1):
        classes[f"flower {int(label):03}"].append(
            Sample(files.get(f"image_{number:05}.jpg", f"{path}, label {number}"))
        )
    held = {part: [f"flower {number:03}" for number in _SPLITS["vgg"][part]] for part in ("validation", "test")}
    return _by_class(classes, held)


_MINI = (
    "mini-imagenet/train.csv, val.csv, test.csv (filename,label) and images/, "
    "or mini-imagenet-cache-{train,val,test}.pkl"
)
_CACHES = (
    ("mini-imagenet-cache-train.pkl",),
    ("mini-imagenet-cache-val.pkl", "mini-imagenet-cache-validation.pkl"),
    ("mini-imagenet-cache-test.pkl",),
)


def _mini_lists(folder: Path) -> Parts:
    """64, 16 and 20 classes of 600 images, by the lists of Ravi and Larochelle."""
    files = Files(folder / "images")
    classes: dict[str, int] = {}
    lists = []
    for name in ("train.csv", "val.csv", "test.csv"):
        rows = table(folder / name, ["filename", "label"])
        pairs = [(row, files.get(row.text("filename"), row.where)) for row in rows]
        for row, _ in pairs:
            classes.setdefault(row.text("label"), len(classes))
        lists.append([Sample(file, classes[row.text("label")]) for row, file in pairs])
    return Parts(lists[0], lists[2], lists[1], tuple(classes))


def _load_mini(folder: Path, request: DataRequest) -> Data:
    """From the lists where they are there, else from the cached arrays of 84 px."""
    from gate_data.data import Data

    if (folder / "train.csv").is_file():
        return _LISTED.load(folder, request)
    splits: list[Split] = []
    classes: list[str] = []
    counts = []
    for names in _CACHES:
        pixels, rows = _cached(first_of(folder, names))
        samples = [Sample(str(row), label) for label, own in enumerate(rows.values()) for row in own]
        chosen = few_classes(samples, request.limit)
        images = pixels[[int(str(sample.source)) for sample in chosen]].transpose(0, 3, 1, 2)
        splits.append(Side(images, _ranks(chosen)).split())
        classes.extend(rows)
        counts.append(len(samples))
    note = request.compared("images of 84 px", counts[0] + counts[1], counts[2], len(classes))
    return Data(splits[0], splits[1], splits[2], tuple(classes), note)


def _ranks(samples: Sequence[Sample]) -> np.ndarray:
    """The classes of a split, counted from 0."""
    rank = ranked({sample.target for sample in samples})
    return np.array([rank[sample.target] for sample in samples])


def _cached(path: Path) -> tuple[np.ndarray, Mapping[str, Any]]:
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
    return pixels, rows


def _check_mini(folder: Path) -> None:
    if (folder / "train.csv").is_file():
        _LISTED.check(folder)


_LISTED = from_lists(
    _MINI,
    place(
        _MINI,
        ("mini-imagenet", "mini_imagenet", "miniImageNet"),
        ("train.csv", "images"),
        *itertools.product(*_CACHES),
    ),
    _mini_lists,
    few_shot=True,
)
mini = replace(_LISTED, check=_check_mini, load=_load_mini)

_SMALL = ("images_background_small1.zip", "images_background_small2.zip")
_FULL = ("images_background.zip", "images_evaluation.zip")
_OMNIGLOT = f"omniglot/{_FULL[0]} and {_FULL[1]}, or omniglot/{_SMALL[0]} and {_SMALL[1]}"
_HELD_ALPHABETS = (
    "Alphabet_of_the_Magi",
    "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Tagalog",
)
"""Meta-Dataset's."""

_Alphabets = Mapping[str, Mapping[str, Sequence[Member]]]
"""Alphabet to character to its drawings in the zip file."""


def _check_omniglot(folder: Path) -> None:
    """Read every member of the zip files once."""
    for path in _zips(folder):
        archives.check(path)


def _zips(folder: Path) -> tuple[Path, Path]:
    first, second = _FULL if all((folder / name).is_file() for name in _FULL) else _SMALL
    return folder / first, folder / second


def _load_omniglot(folder: Path, request: DataRequest) -> Data:
    """Characters as classes, 20 drawings of 105 px each, white on black.

    With the full files, the test classes are those of ``images_evaluation.zip``, and five alphabets validate:
    Meta-Dataset's. With the two small files, which share two alphabets, the test's are those that only the second has,
    and the first of the others validates. No alphabet is in two splits.
    """
    from gate_data.data import Data

    zips = _zips(folder)
    first, second = map(_drawings, zips)
    test = {name: second[name] for name in second if name not in first}
    held = [name for name in first if name in _HELD_ALPHABETS] if zips[0].name == _FULL[0] else sorted(first)[:1]
    validation = {name: first[name] for name in held}
    train = {name: first[name] for name in sorted(first) if name not in validation}
    if not (train and validation and test):
        raise DataError(f"{zips[0]} and {zips[1]} hold too few alphabets: {len(first)} and {len(second)}")
    parts = (train, validation, test)
    names = tuple(f"{alphabet}/{sign}" for part in parts for alphabet in part for sign in part[alphabet])
    counts = [sum(len(own) for signs in part.values() for own in signs.values()) for part in parts]
    note = request.compared("", counts[0] + counts[1], counts[2], len(names))
    splits = [_drawn(part, request.limit) for part in parts]
    return Data(splits[0], splits[1], splits[2], names, note)


def _drawings(path: Path) -> _Alphabets:
    drawings: dict[str, dict[str, list[Member]]] = defaultdict(lambda: defaultdict(list))
    for member in sorted(archives.members(path)):
        parts = member.split("/")
        if member.endswith(".png") and len(parts) == 4:
            drawings[parts[1]][parts[2]].append(Member(str(path), member))
    if not drawings:
        raise DataError(f"{path} holds no drawings; expected members like SET/ALPHABET/character01/0001_01.png")
    return drawings


def _drawn(alphabets: _Alphabets, limit: int | None) -> Split:
    import torch

    from gate_data.data import Split, as_targets

    signs = [members for signs in alphabets.values() for members in signs.values()]
    chosen = few_classes([Sample(member, label) for label, own in enumerate(signs) for member in own], limit)
    grey = 255 - np.stack([np.asarray(decode(sample.source).convert("L")) for sample in chosen])  # type: ignore[arg-type]  # a member, not frames
    return Split(torch.from_numpy(grey)[:, None].expand(-1, 3, -1, -1), as_targets(_ranks(chosen).tolist()))


omniglot = Originals(_OMNIGLOT, place(_OMNIGLOT, ("omniglot",), _FULL, _SMALL), _check_omniglot, _load_omniglot)

"""Data sets of images in files: folders of classes, and lists beside the images.

Three of them have no split of their own: the first images in a drawn order train, so many of each class as in
ELEVATER, and others are tested. Scores on these splits are near ELEVATER's and not the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, as_samples
from gate_data.originals.classification import read_food
from gate_data.originals.icinw.elevater import class_names, elevater_set
from gate_data.readers import Cut, Files, fields, files_of_classes, first_of, lines, table
from gate_data.readers.decode import open_picture
from gate_data.readers.source import File, Source
from gate_data.readers.splits import shuffled
from gate_data.readers.tables import Row


def without_banner(file: File) -> Cut:
    """An image of an aircraft without the 20 rows at its foot that carry its photographer's name."""
    with open_picture(file) as opened:
        width, height = opened.size
    return Cut(file, (0, 0, width, max(1, height - 20)))


def drawn_by_class(classes: Mapping[str, Sequence[Source]], train: int, test: int | None) -> Parts:
    """So many of each class to train on, and so many others (None: all) to test, in a drawn order."""
    lists: tuple[list[Sample], list[Sample]] = ([], [])
    for label, (name, sources) in enumerate(classes.items()):
        if len(sources) <= train:
            raise DataError(f"{name} has {len(sources)} images, expected more than {train}")
        drawn = [Sample(source, label) for source in shuffled(sources)]
        lists[0].extend(drawn[:train])
        lists[1].extend(drawn[train : None if test is None else train + test])
    return Parts(*lists)


def _folders(folder: Path, count: int) -> dict[str, list[str]]:
    by_class = files_of_classes(folder)
    if len(by_class) != count:
        raise DataError(f"{folder} holds {len(by_class)} folders of classes, expected {count}")
    return by_class


def _drawn(classes: int, train: int, test: int | None, rank: Callable[[str], str]) -> Callable[[Path], Parts]:
    """The reader of folders of classes without a split, whose classes are in the order of `rank`."""

    def read(folder: Path) -> Parts:
        by_class = _folders(folder, classes)
        return drawn_by_class({f"{folder / name}": by_class[name] for name in sorted(by_class, key=rank)}, train, test)

    return read


def _split(classes: int) -> Callable[[Path], Parts]:
    """The reader of folders of classes in ``train`` and ``test``."""

    def read(folder: Path) -> Parts:
        train = _folders(folder / "train", classes)
        return Parts(as_samples(train), as_samples(files_of_classes(folder / "test"), list(train)))

    return read


def _caltech_rank(name: str) -> str:
    """By name without case, but ``Faces_easy`` first: it is the "centered face" of CLIP, whose names these are."""
    folded = name.casefold()
    return {"faces": "faces_easy", "faces_easy": "faces"}.get(folded, folded)


caltech_101 = elevater_set("caltech-101")(_drawn(102, 30, None, _caltech_rank))
country211 = elevater_set("country211")(_split(211))
eurosat_clip = elevater_set("eurosat_clip")(_drawn(10, 500, 500, str.casefold))
rendered_sst2 = elevater_set("rendered-sst2")(_split(2))
resisc45_clip = elevater_set("resisc45_clip")(_drawn(45, 70, 560, str.casefold))
food_101 = elevater_set("food-101")(read_food)


@elevater_set("dtd")
def dtd(folder: Path) -> Parts:
    """The first of ten partitions; classes are the sorted names of folders."""
    files = Files(folder / "images")
    index_of = {name.replace(" ", "_"): index for index, name in enumerate(class_names("dtd"))}
    train, test = (
        [
            Sample(files.get(f"{row.text('class')}/{row.text('file')}", row.where), row.one_of("class", index_of))
            for row in fields(folder / "labels" / f"{side}1.txt", "class", "file", separator="/")
        ]
        for side in ("train", "test")
    )
    return Parts(train, test)


@elevater_set("fgvc-aircraft-2013b-variants102")
def fgvc_aircraft_2013b_variants102(folder: Path) -> Parts:
    """The variants' train and test lists; images without their banner."""
    files = Files(folder / "images")
    variants = [line for _, line in lines(folder / "variants.txt")]
    index_of = {name: index for index, name in enumerate(variants)}
    train, test = (
        [
            Sample(without_banner(files.get(f"{row.text('image')}.jpg", row.where)), row.one_of("variant", index_of))
            for row in fields(folder / f"images_variant_{side}.txt", "image", "variant")
        ]
        for side in ("train", "test")
    )
    return Parts(train, test, classes=tuple(variants))


@elevater_set("oxford-iiit-pets")
def oxford_iiit_pets(folder: Path) -> Parts:
    """Lines are a name and three numbers, of which the first is the class, from 1."""
    files = Files(folder / "images")
    train, test = (
        [
            Sample(files.get(f"{row.text('image')}.jpg", row.where), row.integer("class", 1, 37) - 1)
            for row in fields(folder / "annotations" / f"{side}.txt", "image", "class", "species")
        ]
        for side in ("trainval", "test")
    )
    return Parts(train, test)


@elevater_set("gtsrb")
def gtsrb(folder: Path) -> Parts:
    """The contest's training images by track, and the final test, whose labels come in a table of their own."""

    def rows(path: Path, pictures: Path) -> list[Sample]:
        files = Files(pictures)
        named = ((row.text("Filename"), row) for row in table(path, ["Filename", "ClassId"], ";"))
        return [
            Sample(files.get(name, row.where), row.integer("ClassId", 0, 42), group=f"{pictures.name}/{name[:5]}")
            for name, row in named
        ]

    tracks = sorted((folder / "Training").glob("*/GT-*.csv"))
    if len(tracks) != 43:
        raise DataError(f"{folder / 'Training'} holds tables of {len(tracks)} classes, expected 43")
    images = folder / "Final_Test" / "Images"
    for truth in (folder / "GT-final_test.csv", folder.parent / "GT-final_test.csv", images / "GT-final_test.csv"):
        if truth.is_file():
            return Parts([sample for path in tracks for sample in rows(path, path.parent)], rows(truth, images))
    raise DataError(f"{folder}: GT-final_test.csv, with the test's labels, is not there")


@elevater_set("hateful-memes")
def hateful_memes(folder: Path) -> Parts:
    """Images alone; the test is the development set."""
    files = Files(folder)
    train, test = (
        [
            Sample(files.get(row.text("img"), row.where), row.integer("label", 0, 1))
            for row in table(path, ["img", "label"])
        ]
        for path in (folder / "train.jsonl", first_of(folder, ("dev_seen.jsonl", "dev.jsonl")))
    )
    return Parts(train, test)


@elevater_set("kitti-distance")
def kitti_distance(folder: Path) -> Parts:
    """VTAB's classes, by the nearest car, van or truck, and its split by drives."""
    places = [parent / "mapping" for parent in (folder, folder.parent, folder / "devkit_object")]
    maps = next((place for place in places if place.is_dir()), None)
    if maps is None:
        raise DataError(f"{folder}: mapping/train_rand.txt of the development kit is not there")
    listed = maps / "train_rand.txt"
    order = [
        Row(listed, at, {"number": number.strip()}).integer("number", 1)
        for at, line in lines(listed)
        for number in line.split(",")
        if number.strip()
    ]
    drives = [line.split() for _, line in lines(maps / "train_mapping.txt")]
    of_drive: dict[str, list[int]] = defaultdict(list)
    for image, number in enumerate(order):
        if not 1 <= number <= len(drives) or len(drives[number - 1]) < 2:
            raise DataError(
                f"{maps / 'train_rand.txt'}: entry {image + 1} is {number}, train_mapping.txt has {len(drives)} lines"
            )
        of_drive[drives[number - 1][1]].append(image)
    tested, held = _drives(list(of_drive))
    pictures, labels = Files(folder / "image_2"), folder / "label_2"

    def side(chosen: Iterable[str]) -> list[Sample]:
        images = sorted(image for drive in chosen for image in of_drive[drive])
        names = [f"{image:06}" for image in images]
        return [
            Sample(pictures.get(f"{name}.png", str(maps)), nearest_vehicle(labels / f"{name}.txt")) for name in names
        ]

    return Parts(side(of_drive.keys() - tested - held), side(tested))


def _drives(names: list[str]) -> tuple[set[str], set[str]]:
    """Drives to test on and to validate on, a tenth each, drawn as TFDS draws them."""
    state, share = np.random.RandomState(123), max(1, len(names) // 10)
    tested = {str(drive) for drive in state.choice(sorted(names), share, replace=False)}
    held = {str(drive) for drive in state.choice(sorted(set(names) - tested), share, replace=False)}
    return tested, held


def nearest_vehicle(path: Path) -> int:
    """The class of an image of a street: 0 to 8 m, 1 to 20 m, 2 farther, 3 no car, van or truck."""
    nearest = 1000.0
    for number, line in lines(path) if path.stat().st_size else ():
        cells = line.split()
        if len(cells) != 15:
            raise DataError(f"{path}, line {number}: {len(cells)} fields, expected 15")
        if cells[0] in ("Car", "Van", "Truck"):
            nearest = min(nearest, Row(path, number, {"z": cells[13]}).number("z"))
    return next(label for label, most in enumerate((8.0, 20.0, 999.0, np.inf)) if nearest <= most)


@elevater_set("voc-2007-classification")
def voc_2007_classification(folder: Path) -> Parts:
    """Lists of each class say 1, -1, or 0 where it is only there as difficult, which counts as absent."""
    files, names = Files(folder / "JPEGImages"), class_names("voc-2007-classification")

    def side(split: str) -> list[Sample]:
        labels: dict[str, list[int]] = {}
        for label, name in enumerate(names):
            for row in fields(folder / "ImageSets" / "Main" / f"{name}_{split}.txt", "image", "mark"):
                marks = labels.setdefault(row.text("image"), [0] * len(names))
                marks[label] = int(row.integer("mark", -1, 1) == 1)
        return [
            Sample(files.get(f"{image}.jpg", f"{folder}: {split}"), tuple(marks)) for image, marks in labels.items()
        ]

    return Parts(side("train"), side("test"))

"""Data sets with lists beside their pictures: textures, dishes, aircraft, pets, signs, memes, distances and objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.originals.icinw.form import class_names, originals, places_by_name
from gate_data.readers import Cut, Files, first_of, lines, pairs, place, read_json, table
from gate_data.readers.decode import open_picture

BANNER = 20
"""Rows at the foot of each picture of an aircraft that carry its photographer's name."""


def _dtd(folder: Path) -> Parts:
    """The first of ten partitions; classes are the sorted names of folders."""
    files, names = Files(folder / "images"), {name: at for at, name in enumerate(class_names("dtd"))}

    def side(name: str) -> list[Sample]:
        path, samples = folder / "labels" / f"{name}1.txt", []
        for number, line in lines(path):
            kind = line.partition("/")[0].replace("_", " ")
            if kind not in names:
                raise DataError(f"{path}, line {number}: class {kind!r} is none of the {len(names)}")
            samples.append(Sample(files.get(line, f"{path}, line {number}"), names[kind]))
        return samples

    return Parts(side("train"), side("test"))


def _food(folder: Path) -> Parts:
    """Names of classes are matched, since ELEVATER has cheesecake before cheese plate."""
    files = Files(folder / "images")
    listed = {name: read_json(folder / "meta" / f"{name}.json") for name in ("train", "test")}
    sides = []
    for name, by_food in listed.items():
        path = folder / "meta" / f"{name}.json"
        if not isinstance(by_food, dict) or not all(isinstance(own, list) for own in by_food.values()):
            raise DataError(f"{path} is no object of lists, class to pictures")
        places = dict(zip(by_food, places_by_name("food-101", list(by_food), str(path)), strict=True))
        sides.append(
            [
                Sample(files.get(f"{picture}.jpg", str(path)), places[food])
                for food in sorted(by_food)
                for picture in by_food[food]
            ]
        )
    return Parts(sides[0], sides[1])


def _aircraft(folder: Path) -> Parts:
    """The variants' train and test lists; pictures without their banner."""
    files = Files(folder / "images")
    variants = [line for _, line in lines(folder / "variants.txt")]
    index_of = dict(zip(variants, places_by_name(_AIRCRAFT, variants, str(folder / "variants.txt")), strict=True))

    def side(name: str) -> list[Sample]:
        path, samples = folder / f"images_variant_{name}.txt", []
        for number, image, variant in pairs(path):
            where = f"{path}, line {number}"
            if variant not in index_of:
                raise DataError(f"{where}: variant {variant!r} is not in variants.txt")
            file = str(files.get(f"{image}.jpg", where))
            with open_picture(file) as opened:
                width, height = opened.size
            samples.append(Sample(Cut(file, (0, 0, width, max(1, height - BANNER))), index_of[variant]))
        return samples

    return Parts(side("train"), side("test"))


def _pets(folder: Path) -> Parts:
    """Lines are a name and three numbers, of which the first is the class, from 1."""
    files = Files(folder / "images")

    def side(name: str) -> list[Sample]:
        path, samples = folder / "annotations" / f"{name}.txt", []
        for number, image, remainder in pairs(path):
            where = f"{path}, line {number}"
            label = remainder.split()[0]
            if not label.isdecimal() or not 1 <= int(label) <= 37:
                raise DataError(f"{where}: class {label[:20]!r}, expected 1 to 37")
            samples.append(Sample(files.get(f"{image}.jpg", where), int(label) - 1))
        return samples

    return Parts(side("trainval"), side("test"))


def _gtsrb(folder: Path) -> Parts:
    """The contest's training pictures by track, and the final test, whose labels come in a table of their own."""

    def rows(path: Path, pictures: Path) -> list[Sample]:
        files, samples = Files(pictures), []
        for row in table(path, ["Filename", "ClassId"], ";"):
            name = row.text("Filename")
            samples.append(
                Sample(files.get(name, row.where), row.integer("ClassId", 0, 42), group=f"{pictures.name}/{name[:5]}")
            )
        return samples

    tracks = sorted((folder / "Training").glob("*/GT-*.csv"))
    if len(tracks) != 43:
        raise DataError(f"{folder / 'Training'} holds tables of {len(tracks)} classes, expected 43")
    images = folder / "Final_Test" / "Images"
    for truth in (folder / "GT-final_test.csv", folder.parent / "GT-final_test.csv", images / "GT-final_test.csv"):
        if truth.is_file():
            return Parts([sample for path in tracks for sample in rows(path, path.parent)], rows(truth, images))
    raise DataError(f"{folder}: GT-final_test.csv, with the test's labels, is not there")


def _memes(folder: Path) -> Parts:
    """Pictures alone; the test is the development set."""

    def side(path: Path) -> list[Sample]:
        files = Files(folder)
        return [
            Sample(files.get(row.text("img"), row.where), row.integer("label", 0, 1))
            for row in table(path, ["img", "label"])
        ]

    return Parts(side(folder / "train.jsonl"), side(first_of(folder, ("dev_seen.jsonl", "dev.jsonl"))))


def _kitti(folder: Path) -> Parts:
    """VTAB's classes, by the nearest car, van or truck, and its split by drives."""
    maps = next(
        (
            parent / "mapping"
            for parent in (folder, folder.parent, folder / "devkit_object")
            if (parent / "mapping").is_dir()
        ),
        None,
    )
    if maps is None:
        raise DataError(f"{folder}: mapping/train_rand.txt of the development kit is not there")
    order = [int(parent) for _, line in lines(maps / "train_rand.txt") for parent in line.split(",") if parent.strip()]
    drives = [line.split() for _, line in lines(maps / "train_mapping.txt")]
    of_drive: dict[str, list[int]] = defaultdict(list)
    for image, number in enumerate(order):
        if not 1 <= number <= len(drives) or len(drives[number - 1]) < 2:
            raise DataError(
                f"{maps / 'train_rand.txt'}: entry {image + 1} is {number}, train_mapping.txt has {len(drives)} lines"
            )
        of_drive[drives[number - 1][1]].append(image)
    tested, held = _drives(list(of_drive))
    train = [image for drive, images in of_drive.items() if drive not in tested | held for image in images]
    test = [image for drive, images in of_drive.items() if drive in tested for image in images]
    pictures, labels = Files(folder / "image_2"), folder / "label_2"

    def side(images: Iterable[int]) -> list[Sample]:
        return [
            Sample(pictures.get(f"{image:06}.png", str(maps)), nearest_vehicle(labels / f"{image:06}.txt"))
            for image in sorted(images)
        ]

    return Parts(side(train), side(test))


def _drives(names: list[str]) -> tuple[set[str], set[str]]:
    """Drives to test on and to validate on, a tenth each, drawn as TFDS draws them."""
    state, share = np.random.RandomState(123), max(1, len(names) // 10)
    tested = {str(drive) for drive in state.choice(sorted(names), share, replace=False)}
    held = {str(drive) for drive in state.choice(sorted(set(names) - tested), share, replace=False)}
    return tested, held


def nearest_vehicle(path: Path) -> int:
    """The class of a picture of a street: 0 to 8 m, 1 to 20 m, 2 farther, 3 no car, van or truck.

    Args:
        path: of KITTI's label file; each line has a type first and z, in metres, fourteenth.
    """
    nearest = 1000.0
    for number, line in lines(path) if path.stat().st_size else ():
        fields = line.split()
        if len(fields) != 15:
            raise DataError(f"{path}, line {number}: {len(fields)} fields, expected 15")
        if fields[0] in ("Car", "Van", "Truck"):
            nearest = min(nearest, float(fields[13]))
    return next(label for label, most in enumerate((8.0, 20.0, 999.0, np.inf)) if nearest <= most)


def _voc(folder: Path) -> Parts:
    """Lists of each class say 1, -1, or 0 where it is only there as difficult, which counts as absent."""
    files, names = Files(folder / "JPEGImages"), class_names("voc-2007-classification")

    def side(split: str) -> list[Sample]:
        labels: dict[str, list[int]] = {}
        for label, name in enumerate(names):
            path = folder / "ImageSets" / "Main" / f"{name}_{split}.txt"
            for number, image, mark in pairs(path):
                if mark.strip() not in ("1", "-1", "0"):
                    raise DataError(f"{path}, line {number}: {mark[:20]!r}, expected 1, -1 or 0")
                labels.setdefault(image, [0] * len(names))[label] = int(mark.strip() == "1")
        return [Sample(files.get(f"{image}.jpg", f"{folder}: {split}"), tuple(own)) for image, own in labels.items()]

    return Parts(side("train"), side("test"))


_AIRCRAFT = "fgvc-aircraft-2013b-variants102"
_SAID = {
    "dtd": "dtd/images/ and dtd/labels/train1.txt, test1.txt",
    "food-101": "food-101/images/ and food-101/meta/train.json, test.json",
    _AIRCRAFT: "fgvc-aircraft-2013b/data/images/, variants.txt and images_variant_train.txt, _test.txt",
    "oxford-iiit-pets": "oxford-iiit-pet/images/ and annotations/trainval.txt, test.txt",
    "gtsrb": "GTSRB/Training/00000/GT-00000.csv …, GTSRB/Final_Test/Images/ and GT-final_test.csv",
    "hateful-memes": "hateful_memes/img/, train.jsonl and dev_seen.jsonl (or dev.jsonl)",
    "kitti-distance": "kitti/training/image_2/ and label_2/, and mapping/ of the development kit",
    "voc-2007-classification": "VOCdevkit/VOC2007/JPEGImages/ and ImageSets/Main/",
}
DTD = originals("dtd", _SAID["dtd"], place(_SAID["dtd"], ("dtd/dtd", "dtd"), "labels/train1.txt"), _dtd)
FOOD_101 = originals(
    "food-101",
    _SAID["food-101"],
    place(_SAID["food-101"], ("food-101/food-101", "food-101", "food101"), ("images", "meta/train.json")),
    _food,
)
FGVC_AIRCRAFT_2013B_VARIANTS102 = originals(
    _AIRCRAFT,
    _SAID[_AIRCRAFT],
    place(_SAID[_AIRCRAFT], ("fgvc-aircraft-2013b/data", "aircraft/data", "aircraft"), "variants.txt"),
    _aircraft,
)
OXFORD_IIIT_PETS = originals(
    "oxford-iiit-pets",
    _SAID["oxford-iiit-pets"],
    place(_SAID["oxford-iiit-pets"], ("oxford-iiit-pet", "oxford-iiit-pets", "pets"), "annotations/trainval.txt"),
    _pets,
)
GTSRB = originals("gtsrb", _SAID["gtsrb"], place(_SAID["gtsrb"], ("GTSRB", "gtsrb/GTSRB"), "Training"), _gtsrb)
HATEFUL_MEMES = originals(
    "hateful-memes",
    _SAID["hateful-memes"],
    place(_SAID["hateful-memes"], ("hateful_memes", "hateful-memes"), ("img", "train.jsonl")),
    _memes,
)
KITTI_DISTANCE = originals(
    "kitti-distance",
    _SAID["kitti-distance"],
    place(_SAID["kitti-distance"], ("kitti/training", "Kitti/raw/training", "training"), "label_2"),
    _kitti,
)
VOC_2007_CLASSIFICATION = originals(
    "voc-2007-classification",
    _SAID["voc-2007-classification"],
    place(_SAID["voc-2007-classification"], ("VOCdevkit/VOC2007", "VOC2007"), "ImageSets/Main"),
    _voc,
)

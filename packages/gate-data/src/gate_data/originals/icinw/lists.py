"""Data sets of pictures in files: folders of classes, and lists beside the pictures.

Three of them have no split of their own: the first pictures in a drawn order train, so many of each class as in
ELEVATER, and others are tested. Scores on these splits are near ELEVATER's and not the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, as_samples
from gate_data.originals.classification import FOOD, FOOD_PLACE, food_lists
from gate_data.originals.icinw.elevater import class_names, elevater_set, places_by_name
from gate_data.readers import Cut, Files, files_of_classes, first_of, lines, pairs, table
from gate_data.readers.decode import open_picture
from gate_data.readers.source import File, Source
from gate_data.readers.splits import shuffled


def without_banner(file: File) -> Cut:
    """A picture of an aircraft without the 20 rows at its foot that carry its photographer's name."""
    with open_picture(file) as opened:
        width, height = opened.size
    return Cut(file, (0, 0, width, max(1, height - 20)))


def drawn_by_class(classes: Mapping[str, Sequence[Source]], train: int, test: int | None) -> Parts:
    """So many of each class to train on, and so many others (None: all) to test, in a drawn order."""
    lists: tuple[list[Sample], list[Sample]] = ([], [])
    for label, (name, sources) in enumerate(classes.items()):
        if len(sources) <= train:
            raise DataError(f"{name} has {len(sources)} pictures, expected more than {train}")
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


caltech_101 = elevater_set(
    "caltech-101",
    "caltech-101/101_ObjectCategories/ with a folder for each of 102 classes",
    ("caltech-101/101_ObjectCategories", "caltech101/101_ObjectCategories", "101_ObjectCategories"),
    "accordion",
)(_drawn(102, 30, None, _caltech_rank))
country211 = elevater_set(
    "country211",
    "country211/train/ and test/, with a folder for each of 211 countries",
    ("country211",),
    "train/AD",
)(_split(211))
eurosat_clip = elevater_set(
    "eurosat_clip",
    "2750/ (or EuroSAT_RGB/) with a folder for each of 10 classes",
    ("2750", "EuroSAT_RGB", "eurosat/2750", "EuroSAT/2750"),
    "AnnualCrop",
)(_drawn(10, 500, 500, str.casefold))
rendered_sst2 = elevater_set(
    "rendered-sst2",
    "rendered-sst2/train/ and test/, with folders negative and positive",
    ("rendered-sst2",),
    "train/negative",
)(_split(2))
resisc45_clip = elevater_set(
    "resisc45_clip",
    "NWPU-RESISC45/ with a folder for each of 45 classes",
    ("NWPU-RESISC45", "resisc45/NWPU-RESISC45"),
    "airplane",
)(_drawn(45, 70, 560, str.casefold))


@elevater_set("dtd", "dtd/images/ and dtd/labels/train1.txt, test1.txt", ("dtd/dtd", "dtd"), "labels/train1.txt")
def dtd(folder: Path) -> Parts:
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


@elevater_set("food-101", FOOD, *FOOD_PLACE)
def food_101(folder: Path) -> Parts:
    """Names of classes are matched, since ELEVATER has cheesecake before cheese plate."""
    files = Files(folder / "images")
    sides = []
    for side, listed in food_lists(folder).items():
        path = str(folder / "meta" / f"{side}.json")
        places = dict(zip(listed, places_by_name("food-101", list(listed), path), strict=True))
        names = [(food, name) for food in sorted(listed) for name in listed[food]]
        sides.append([Sample(files.get(f"{name}.jpg", path), places[food]) for food, name in names])
    return Parts(sides[0], sides[1])


_AIRCRAFT = "fgvc-aircraft-2013b-variants102"


@elevater_set(
    _AIRCRAFT,
    "fgvc-aircraft-2013b/data/images/, variants.txt and images_variant_train.txt, _test.txt",
    ("fgvc-aircraft-2013b/data", "aircraft/data", "aircraft"),
    "variants.txt",
)
def fgvc_aircraft_2013b_variants102(folder: Path) -> Parts:
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
            samples.append(Sample(without_banner(files.get(f"{image}.jpg", where)), index_of[variant]))
        return samples

    return Parts(side("train"), side("test"))


@elevater_set(
    "oxford-iiit-pets",
    "oxford-iiit-pet/images/ and annotations/trainval.txt, test.txt",
    ("oxford-iiit-pet", "oxford-iiit-pets", "pets"),
    "annotations/trainval.txt",
)
def oxford_iiit_pets(folder: Path) -> Parts:
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


@elevater_set(
    "gtsrb",
    "GTSRB/Training/00000/GT-00000.csv …, GTSRB/Final_Test/Images/ and GT-final_test.csv",
    ("GTSRB", "gtsrb/GTSRB"),
    "Training",
)
def gtsrb(folder: Path) -> Parts:
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


@elevater_set(
    "hateful-memes",
    "hateful_memes/img/, train.jsonl and dev_seen.jsonl (or dev.jsonl)",
    ("hateful_memes", "hateful-memes"),
    ("img", "train.jsonl"),
)
def hateful_memes(folder: Path) -> Parts:
    """Pictures alone; the test is the development set."""

    def side(path: Path) -> list[Sample]:
        files = Files(folder)
        return [
            Sample(files.get(row.text("img"), row.where), row.integer("label", 0, 1))
            for row in table(path, ["img", "label"])
        ]

    return Parts(side(folder / "train.jsonl"), side(first_of(folder, ("dev_seen.jsonl", "dev.jsonl"))))


@elevater_set(
    "kitti-distance",
    "kitti/training/image_2/ and label_2/, and mapping/ of the development kit",
    ("kitti/training", "Kitti/raw/training", "training"),
    "label_2",
)
def kitti_distance(folder: Path) -> Parts:
    """VTAB's classes, by the nearest car, van or truck, and its split by drives."""
    places = [parent / "mapping" for parent in (folder, folder.parent, folder / "devkit_object")]
    maps = next((place for place in places if place.is_dir()), None)
    if maps is None:
        raise DataError(f"{folder}: mapping/train_rand.txt of the development kit is not there")
    order = [int(number) for _, line in lines(maps / "train_rand.txt") for number in line.split(",") if number.strip()]
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
    """The class of a picture of a street: 0 to 8 m, 1 to 20 m, 2 farther, 3 no car, van or truck."""
    nearest = 1000.0
    for number, line in lines(path) if path.stat().st_size else ():
        fields = line.split()
        if len(fields) != 15:
            raise DataError(f"{path}, line {number}: {len(fields)} fields, expected 15")
        if fields[0] in ("Car", "Van", "Truck"):
            nearest = min(nearest, float(fields[13]))
    return next(label for label, most in enumerate((8.0, 20.0, 999.0, np.inf)) if nearest <= most)


@elevater_set(
    "voc-2007-classification",
    "VOCdevkit/VOC2007/JPEGImages/ and ImageSets/Main/",
    ("VOCdevkit/VOC2007", "VOC2007"),
    "ImageSets/Main",
)
def voc_2007_classification(folder: Path) -> Parts:
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

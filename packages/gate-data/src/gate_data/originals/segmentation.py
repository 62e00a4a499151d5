"""Scenes and streets with a class map for every image: ADE20K, Cityscapes, COCO-Stuff, NYU, PASCAL Context."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gate_data.cards import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, maps
from gate_data.original_files import Parts, Sample, of_card, with_note
from gate_data.readers import IGNORED, ClassMap, Files, Stored, by_stem, classes_in, files_in, first_of, lines
from gate_data.readers.arrays import stored_shape
from gate_data.readers.maps import ranked
from gate_data.readers.source import described
from gate_data.tables import read_table


def paired(images: Path, annotations: Path, strip: str = "", ending: str = "") -> list[Sample]:
    """Images and the class maps of the same name."""
    files_in(images)
    pictures = {stem.removesuffix(strip): image for stem, image in by_stem([images]).items()}
    maps_by_stem = by_stem([annotations], (".png", ".mat"))
    truths = {stem.removesuffix(ending): file for stem, file in maps_by_stem.items() if stem.endswith(ending)}
    for files, others, lacking in (
        (truths, pictures, f"image {images}/*{strip}"),
        (pictures, truths, f"annotation {annotations}/*{ending}"),
    ):
        if alone := next((files[stem] for stem in files if stem not in others), None):
            raise DataError(f"{described(alone)} has no {lacking} of the same name")
    return [Sample(image, truths[stem]) for stem, image in pictures.items()]


def _listed(images: Files, truths: Files, path: Path) -> list[Sample]:
    """Images, and MATLAB's class maps of the same name, that a list names."""
    return [
        Sample(images.get(f"{stem}.jpg", f"{path}, line {line}"), truths.get(f"{stem}.mat", f"{path}, line {line}"))
        for line, stem in lines(path)
    ]


_THINGS = 150


@of_card("ade20k", maps=ClassMap({value: value - 1 for value in range(1, _THINGS + 1)}, ignored=(0,)))
def ade20k(folder: Path) -> Parts:
    """As the SceneParse150 challenge has it; its validation set, whose annotations are public, is the test split."""
    train, test = (
        paired(folder / "images" / side, folder / "annotations" / side) for side in ("training", "validation")
    )
    path = folder / "objectInfo150.txt"
    if not path.is_file():
        return Parts(train, test, classes=tuple(f"class {number}" for number in range(1, _THINGS + 1)))
    names = [line.split("\t")[-1].partition(",")[0].strip() for _, line in lines(path)][1:]
    if len(names) != _THINGS:
        raise DataError(f"{path} names {len(names)} classes, expected {_THINGS}")
    return Parts(train, test, classes=tuple(names))


_STREET = {
    "road": 7, "sidewalk": 8, "building": 11, "wall": 12, "fence": 13, "pole": 17, "traffic light": 19,
    "traffic sign": 20, "vegetation": 21, "terrain": 22, "sky": 23, "person": 24, "rider": 25, "car": 26, "truck": 27,
    "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33,
}  # fmt: skip


_STREET_MAP = ClassMap(ranked(_STREET.values()), ignored=set(range(34)) - set(_STREET.values()))


@of_card("cityscapes", maps=_STREET_MAP)
def cityscapes(folder: Path) -> Parts:
    """2,975 and 500 images; the official test's maps are not public, so that ``val`` is the test split.

    Whole cities are held out, for neighbouring frames are alike.
    """

    def side(name: str) -> list[Sample]:
        images, truths = folder / "leftImg8bit" / name, folder / "gtFine" / name
        return [
            sample._replace(group=city)
            for city in classes_in(images)
            for sample in paired(images / city, truths / city, "_leftImg8bit", "_gtFine_labelIds")
        ]

    return Parts(side("train"), side("val"), classes=tuple(_STREET))


def cityscapes_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's rows, which do not say of which city they are: validation is drawn by image."""
    del count
    return with_note(maps(tables, hub, tuple(_STREET)), "images validate, not cities: rows do not name theirs")


_STUFF = read_table("coco_stuff")
_STUFF_CLASSES = tuple(_STUFF["classes"])
_STUFF_RANKS = {number: rank for rank, number in enumerate(_STUFF["ids"])}


@of_card("coco-10k", maps=ClassMap(_STUFF_RANKS, ignored=(0,), key="S"))
def coco_10k(folder: Path) -> Parts:
    """9,000 and 1,000 images with MATLAB's maps of 171 things and stuffs."""
    images, truths = Files(folder / "images"), Files(folder / "annotations")
    train, test = (_listed(images, truths, folder / "imageLists" / f"{side}.txt") for side in ("train", "test"))
    return Parts(train, test, classes=_STUFF_CLASSES)


@of_card("coco-164k", maps=ClassMap({number - 1: rank for number, rank in _STUFF_RANKS.items()}, ignored=(255,)))
def coco_164k(folder: Path) -> Parts:
    """118,287 and 5,000 images with images of ids."""
    train, test = (paired(folder / "images" / side, folder / "annotations" / side) for side in ("train2017", "val2017"))
    return Parts(train, test, classes=_STUFF_CLASSES)


def coco_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's rows of either set, with the values of the authors' own maps."""
    del count
    return maps(tables, hub, _STUFF_CLASSES)


_NYU_FILE, _ROWS = "nyu_depth_v2_labeled.mat", 1449
_ROOMS = read_table("nyu")
_BLOCK = 20
"""Neighbouring rows are of one room: so many stay on one side."""


def _nyu(folder: Path, key: str) -> Parts:
    """Rows of one HDF5 file of images, classes and depths."""
    path = str(folder / _NYU_FILE)
    for name, shape in (("images", (_ROWS, 3, 640, 480)), (key, (_ROWS, 640, 480))):
        if stored_shape(path, name) != shape:
            raise DataError(f"{path}: {name} has the shape {stored_shape(path, name)}, expected {shape}")
    training = set(_ROOMS["train"])
    samples = [
        Sample(Stored(path, "images", row, (2, 1, 0)), Stored(path, key, row, (1, 0)), group=f"rows {row // _BLOCK}")
        for row in range(_ROWS)
    ]
    train, test = (
        [samples[row] for row in range(_ROWS) if (row + 1 in training) is fitted] for fitted in (True, False)
    )
    return Parts(train, test, classes=tuple(_ROOMS["classes"]) if key == "labels" else ())


_ROOM_MAP = ClassMap({number: label - 1 for number, label in enumerate(_ROOMS["class_of_id"]) if label}, ignored=(0,))
nyu = of_card("nyu", maps=_ROOM_MAP)(partial(_nyu, key="labels"))
nyu_depth = of_card("nyu", target="depth")(partial(_nyu, key="depths"))

_CONTEXT = read_table("pascal_context")


_CONTEXT_RANKS = {number: rank for rank, number in enumerate(_CONTEXT["ids"])}


@of_card("pascal", maps=ClassMap(_CONTEXT_RANKS, ignored=(0,), others=IGNORED, key="LabelMap"))
def pascal(folder: Path) -> Parts:
    """4,998 and 5,105 images, VOC 2010's ``train`` and ``val``: 59 of the 459 things that were drawn in them."""
    voc = first_of(folder, ("VOCdevkit/VOC2010/JPEGImages", "VOC2010/JPEGImages")).parent
    images, truths = Files(voc / "JPEGImages"), Files(first_of(folder, ("trainval", f"{voc}/trainval")))
    train, test = (_listed(images, truths, voc / "ImageSets" / "Main" / f"{side}.txt") for side in ("train", "val"))
    return Parts(train, test, classes=tuple(_CONTEXT["classes"]))

"""Class maps of the tables of zero-shot segmentation that GATE's sets lack: VOC 2012, Context with background, objects.

With ADE20K, Cityscapes, COCO-Stuff and PASCAL Context's 59 classes they are the eight sets of those tables.
"""

from __future__ import annotations

from pathlib import Path

from gate_data.cards import SHEETS
from gate_data.original_files import Parts, Sample, original
from gate_data.originals.segmentation import paired
from gate_data.originals.segmentation import pascal as context59
from gate_data.readers import ClassMap, Files, lines
from gate_data.tables import read_table

VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_BORDER = 255
_VOC_FILES = "VOCdevkit/VOC2012/ with JPEGImages/, SegmentationClass/ and ImageSets/Segmentation/{train,val}.txt"
_VOC_FOLDERS = ("VOCdevkit/VOC2012", "voc2012/VOCdevkit/VOC2012", "VOC2012", "pascal-voc/VOCdevkit/VOC2012")
_VOC_HOLDS = (("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"),)


def _voc(folder: Path, classes: tuple[str, ...]) -> Parts:
    """1,464 and 1,449 images: the lists ``train`` and ``val`` of segmentation."""
    images, truths = Files(folder / "JPEGImages"), Files(folder / "SegmentationClass")

    def side(name: str) -> list[Sample]:
        path = folder / "ImageSets" / "Segmentation" / f"{name}.txt"
        return [
            Sample(images.get(f"{stem}.jpg", f"{path}, line {line}"), truths.get(f"{stem}.png", f"{path}, line {line}"))
            for line, stem in lines(path)
        ]

    return Parts(side("train"), side("val"), classes=classes)


@original(
    _VOC_FILES,
    _VOC_FOLDERS,
    *_VOC_HOLDS,
    target="map",
    fit="whole",
    maps=ClassMap({value: value for value in range(21)}, ignored=(_BORDER,)),
)
def voc21(folder: Path) -> Parts:
    """Twenty things and the background; borders of things (255) count nowhere."""
    return _voc(folder, ("background", *VOC))


@original(
    _VOC_FILES,
    _VOC_FOLDERS,
    *_VOC_HOLDS,
    target="map",
    fit="whole",
    maps=ClassMap({value: value - 1 for value in range(1, 21)}, ignored=(0, _BORDER)),
)
def voc20(folder: Path) -> Parts:
    """Twenty things; background and borders count nowhere."""
    return _voc(folder, VOC)


_CONTEXT = read_table("pascal_context")


@original(
    context59.expected,
    context59.find,
    target="map",
    fit="whole",
    maps=ClassMap({number: rank for rank, number in enumerate(_CONTEXT["ids"], start=1)}, others=0, key="LabelMap"),
)
def context60(folder: Path) -> Parts:
    """PASCAL Context's 59 classes, and all else as the background."""
    assert context59.parts is not None
    parts = context59.parts(folder)
    return Parts(parts.train, parts.test, classes=("background", *_CONTEXT["classes"]))


_STUFF = read_table("coco_stuff")
_LAST_THING = 90
"""Id of COCO's last thing; those above are stuff."""
_THINGS = [
    (number, name) for number, name in zip(_STUFF["ids"], _STUFF["classes"], strict=True) if number <= _LAST_THING
]


@original(
    SHEETS["coco-164k"].files,
    SHEETS["coco-164k"].folders,
    *SHEETS["coco-164k"].holds,
    target="map",
    fit="whole",
    maps=ClassMap(
        {number - 1: rank for rank, (number, _) in enumerate(_THINGS, start=1)}, ignored=(_BORDER,), others=0
    ),
)
def coco_object(folder: Path) -> Parts:
    """COCO-Stuff's maps with 80 things; stuff is the background, and what has no label (255) counts nowhere.

    The published tables convert these maps beforehand; here they are read as COCO-Stuff hands them out.
    """
    train, test = (paired(folder / "images" / side, folder / "annotations" / side) for side in ("train2017", "val2017"))
    return Parts(train, test, classes=("background", *(name for _, name in _THINGS)))

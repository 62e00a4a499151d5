"""Cityscapes: street scenes of 19 classes; whole cities are held out, for neighbouring frames are alike."""

from __future__ import annotations

from pathlib import Path

from gate_data.cards.sheet import Hub
from gate_data.hub.tables import Tables, maps
from gate_data.original_files import Parts, from_lists, with_note
from gate_data.originals.ade20k import paired
from gate_data.readers import ClassMap, classes_in, place

_EXPECTED = "cityscapes/leftImg8bit/{train,val}/CITY/ and gtFine/{train,val}/CITY/*_gtFine_labelIds.png"
_CLASSES = {
    "road": 7, "sidewalk": 8, "building": 11, "wall": 12, "fence": 13, "pole": 17, "traffic light": 19,
    "traffic sign": 20, "vegetation": 21, "terrain": 22, "sky": 23, "person": 24, "rider": 25, "car": 26, "truck": 27,
    "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33,
}  # fmt: skip


def parts(folder: Path) -> Parts:
    """2,975 and 500 pictures; the maps of the official test are not public, so that ``val`` is the test split."""
    lists = []
    for split in ("train", "val"):
        images, truths = folder / "leftImg8bit" / split, folder / "gtFine" / split
        lists.append(
            [
                sample._replace(group=city)
                for city in classes_in(images)
                for sample in paired(images / city, truths / city, "_leftImg8bit", "_gtFine_labelIds")
            ]
        )
    return Parts(lists[0], lists[1], classes=tuple(_CLASSES))


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's rows, which do not say of which city they are: validation is drawn by picture."""
    del count
    return with_note(maps(tables, hub, tuple(_CLASSES)), "pictures validate, not cities: rows do not name theirs")


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("cityscapes", "Cityscapes"), ("leftImg8bit", "gtFine")),
    parts,
    target="map",
    grouped=True,
    fit="whole",
    maps=ClassMap(
        {value: label for label, value in enumerate(_CLASSES.values())},
        ignored=set(range(34)) - set(_CLASSES.values()),
    ),
)

"""PASCAL Context: 59 of the 459 things that were drawn in VOC 2010's pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import IGNORED, ClassMap, Files, lines
from gate_data.tables import read_table

_EXPECTED = "VOCdevkit/VOC2010/{JPEGImages,ImageSets/Main}/ and trainval/*.mat"
_TABLE = read_table("pascal_context")


class Place(NamedTuple):
    """VOC 2010's folder, and that of the maps."""

    voc: Path
    maps: Path


def find(root: Path) -> Place:
    """Both folders, side by side or one in the other."""
    for folder in (root / "pascal-context", root / "pascal", root):
        for voc in (folder / "VOCdevkit" / "VOC2010", folder / "VOC2010"):
            for maps in (folder / "trainval", voc / "trainval"):
                if (voc / "JPEGImages").is_dir() and (voc / "ImageSets" / "Main").is_dir() and maps.is_dir():
                    return Place(voc, maps)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(layout: Place) -> Parts:
    """4,998 and 5,105 pictures: VOC 2010's ``train`` and ``val``."""
    images, maps = Files(layout.voc / "JPEGImages"), Files(layout.maps)
    lists = []
    for split in ("train", "val"):
        path = layout.voc / "ImageSets" / "Main" / f"{split}.txt"
        lists.append(
            [
                Sample(
                    images.get(f"{stem}.jpg", f"{path}, line {line}"), maps.get(f"{stem}.mat", f"{path}, line {line}")
                )
                for line, stem in lines(path)
            ]
        )
    return Parts(lists[0], lists[1], classes=tuple(_TABLE["classes"]))


ORIGINALS = from_lists(
    _EXPECTED,
    find,
    parts,
    target="map",
    fit="whole",
    maps=ClassMap(
        {number: rank for rank, number in enumerate(_TABLE["ids"])}, ignored=(0,), others=IGNORED, key="LabelMap"
    ),
)

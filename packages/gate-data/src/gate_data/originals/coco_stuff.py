"""COCO-Stuff, 171 things and stuffs: the 10k set with MATLAB maps, and the 164k set with pictures of ids."""

from __future__ import annotations

from pathlib import Path

from gate_data.cards.sheet import Hub
from gate_data.hub.tables import Tables, maps
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.originals.ade20k import paired
from gate_data.readers import ClassMap, Files, lines, place
from gate_data.tables import read_table

_EXPECTED_10K = "cocostuff-10k-v1.1/images/, annotations/*.mat and imageLists/train.txt, test.txt"
_EXPECTED_164K = "coco/images/{train2017,val2017}/ and annotations/{train2017,val2017}/*.png (stuffthingmaps)"
_TABLE = read_table("coco_stuff")
_CLASSES = tuple(_TABLE["classes"])
_RANKS = {number: rank for rank, number in enumerate(_TABLE["ids"])}


def parts_10k(folder: Path) -> Parts:
    """9,000 and 1,000 pictures."""
    images, truths = Files(folder / "images"), Files(folder / "annotations")
    lists = []
    for split in ("train", "test"):
        path = folder / "imageLists" / f"{split}.txt"
        lists.append(
            [
                Sample(
                    images.get(f"{stem}.jpg", f"{path}, line {line}"), truths.get(f"{stem}.mat", f"{path}, line {line}")
                )
                for line, stem in lines(path)
            ]
        )
    return Parts(lists[0], lists[1], classes=_CLASSES)


def parts_164k(folder: Path) -> Parts:
    """118,287 and 5,000 pictures."""
    train, val = (
        paired(folder / "images" / split, folder / "annotations" / split) for split in ("train2017", "val2017")
    )
    return Parts(train, val, classes=_CLASSES)


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's rows of either set, with the values of the authors' own maps."""
    del count
    return maps(tables, hub, _CLASSES)


TEN = from_lists(
    _EXPECTED_10K,
    place(_EXPECTED_10K, ("cocostuff-10k-v1.1", "cocostuff10k", "coco-10k"), ("imageLists/train.txt", "annotations")),
    parts_10k,
    target="map",
    fit="whole",
    maps=ClassMap(_RANKS, ignored=(0,), key="S"),
)
ALL = from_lists(
    _EXPECTED_164K,
    place(_EXPECTED_164K, ("coco", "cocostuff", "coco-164k"), ("images/val2017", "annotations/val2017")),
    parts_164k,
    target="map",
    fit="whole",
    maps=ClassMap({number - 1: rank for number, rank in _RANKS.items()}, ignored=(255,)),
)

"""Flickr30k: pictures with five captions each, in Karpathy's split or Flickr30k Entities'."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gate_data.cards.sheet import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, picture, texts
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, lines
from gate_data.readers.captions import Captioned, karpathy, numbered

_EXPECTED = (
    "flickr30k-images/ with dataset_flickr30k.json, or with results_20130124.token (or Kaggle's results.csv) and "
    "Flickr30k Entities' train.txt, val.txt, test.txt"
)
_IMAGES = ("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images")
_CAPTIONS = ("dataset_flickr30k.json", "results_20130124.token", "results.csv", "flickr30k_images/results.csv")
_SPLITS = ("train", "val", "test")
CAPTIONS = 5


class Place(NamedTuple):
    """Folders, and the file of captions."""

    folder: Path
    images: Path
    captions: Path


def find(root: Path) -> Place:
    """The pictures and the first list of captions that is there."""
    for folder in (root / "flickr30k", root / "flickr30k_entities", root):
        images = next((folder / name for name in _IMAGES if (folder / name).is_dir()), None)
        captions = next((folder / name for name in _CAPTIONS if (folder / name).is_file()), None)
        if images is not None and captions is not None:
            return Place(folder, images, captions)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(layout: Place) -> Parts:
    """29,000, 1,014 and 1,000 pictures (Entities: 29,783, 1,000 and 1,000)."""
    files = Files(layout.images)
    if layout.captions.suffix == ".json":
        captioned, note = list(karpathy(layout.captions)), ""
    else:
        captioned, note = _by_lists(layout), "split of Flickr30k Entities"
    lists: dict[str, list[Sample]] = {split: [] for split in _SPLITS}
    for entry in captioned:
        if entry.split not in lists:
            raise DataError(
                f"{layout.captions}: {entry.file} is in the split {entry.split!r}, expected train, val or test"
            )
        if len(entry.captions) != CAPTIONS:
            raise DataError(f"{layout.captions}: {entry.file} has {len(entry.captions)} captions, expected {CAPTIONS}")
        lists[entry.split].append(Sample(files.get(entry.file, str(layout.captions)), 0, entry.captions))
    return Parts(lists["train"], lists["test"], lists["val"], note=note)


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's one split, each row of which says where it belongs in Karpathy's."""
    del count
    number = {split: index for index, split in enumerate(_SPLITS)}
    lists: list[list[Sample]] = [[], [], []]
    for row in tables["test"].rows:
        captions = texts(row, hub.target, CAPTIONS)
        lists[row.one_of("split", number)].append(Sample(picture(row, hub.image), 0, captions))
    return Parts(lists[0], lists[2], lists[1])


def _by_lists(layout: Place) -> list[Captioned]:
    """Entities' lists name picture stems; pictures in none of them are left out."""
    captioned = {picture.file: picture for picture in numbered(layout.captions)}
    pictures = []
    for name in _SPLITS:
        path = layout.folder / f"{name}.txt"
        for line, stem in lines(path):
            if f"{stem}.jpg" not in captioned:
                raise DataError(f"{path}, line {line}: {stem}.jpg has no captions in {layout.captions.name}")
            pictures.append(captioned[f"{stem}.jpg"]._replace(split=name))
    return pictures


ORIGINALS = from_lists(_EXPECTED, find, parts)

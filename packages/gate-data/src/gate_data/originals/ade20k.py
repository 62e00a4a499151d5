"""ADE20K as the SceneParse150 challenge distributes it: 150 classes, a map of them for every image."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import ClassMap, by_stem, files_in, lines, place

_EXPECTED = "ADEChallengeData2016/images/ and annotations/, each with training/ and validation/"
_CLASSES = 150


def parts(folder: Path) -> Parts:
    """The validation set, whose annotations are public, is the test split."""
    lists = [paired(folder / "images" / split, folder / "annotations" / split) for split in ("training", "validation")]
    return Parts(lists[0], lists[1], classes=_names(folder / "objectInfo150.txt"))


def paired(images: Path, annotations: Path, strip: str = "", ending: str = "") -> list[Sample]:
    """Pictures and the class maps of the same name."""
    files_in(images)
    pictures, truths = by_stem([images]), by_stem([annotations], (".png", ".mat"))
    for stem, truth in truths.items():
        stem_of_map = stem.removesuffix(ending) + strip
        if stem.endswith(ending) and stem_of_map not in pictures:
            raise DataError(f"{truth} has no picture {images / stem_of_map}")
    pairs = []
    for stem, image in pictures.items():
        stem_of_map = stem.removesuffix(strip) + ending
        if stem_of_map not in truths:
            raise DataError(f"{image} has no annotation {annotations / stem_of_map}")
        pairs.append(Sample(image, truths[stem_of_map]))
    return pairs


def _names(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return tuple(f"class {number}" for number in range(1, _CLASSES + 1))
    names = [line.split("\t")[-1].partition(",")[0].strip() for _, line in lines(path)][1:]
    if len(names) != _CLASSES:
        raise DataError(f"{path} names {len(names)} classes, expected {_CLASSES}")
    return tuple(names)


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("ADEChallengeData2016", "ade20k/ADEChallengeData2016"), "annotations/training"),
    parts,
    target="map",
    fit="whole",
    maps=ClassMap({value: value - 1 for value in range(1, _CLASSES + 1)}, ignored=(0,)),
)

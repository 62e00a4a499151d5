"""Caltech-UCSD Birds 200-2011 for few-shot: classes of birds never seen in training."""

from __future__ import annotations

from pathlib import Path

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data
from gate_runner.benchmarks.originals.splits import few_shot_split, folder
from gate_runner.errors import DataError

EXPECTED = "CUB_200_2011/images.txt, image_class_labels.txt, classes.txt and CUB_200_2011/images/"


def finds_files(root: Path) -> bool:
    """Whether ``CUB_200_2011`` lies under the root."""
    return _place(root) is not None


def check(root: Path) -> None:
    """Read the lists and look for their files.

    Raises:
        DataError: a line cannot be read, or its file is missing; the message names list and line.
    """
    _birds(_of(root))


def load(request: DataRequest) -> Data:
    """100, 50 and 50 classes.

    Of classes 1, 2, 3, 4 and so on, every odd one is for training, and of the even ones every first for validation and
    every second for the test: the split of "A Closer Look at Few-shot Classification" (Chen et al., ICLR 2019).

    Args:
        request: root, size and limit.

    Returns:
        Three splits over disjoint classes, whose images stay in their files.

    Raises:
        DataError: see `check`.
    """
    assert request.root is not None
    birds = _birds(_of(request.root))
    names = list(birds)
    parts = [
        {name: birds[name] for place, name in enumerate(names) if place % 4 in kept} for kept in ((0, 2), (1,), (3,))
    ]
    splits = [few_shot_split(part, request.size, request.limit) for part in parts]
    return Data(splits[0], splits[1], splits[2], tuple(name for part in parts for name in part))


def _place(root: Path) -> Path | None:
    return folder(root, ("CUB_200_2011", "cubirds/CUB_200_2011"), "image_class_labels.txt")


def _of(root: Path) -> Path:
    if (place := _place(root)) is None:
        raise DataError(f"cubirds: {root} does not hold {EXPECTED}")
    return place


def _birds(place: Path) -> dict[str, list[Path]]:
    """Class name to files, classes in the order of their numbers."""
    names = _pairs(place / "classes.txt")
    files = _pairs(place / "images.txt")
    classes: dict[str, list[Path]] = {name.partition(".")[2] or name: [] for name in names.values()}
    for line, (image, label) in enumerate(_pairs(place / "image_class_labels.txt").items(), start=1):
        if label not in names or image not in files:
            missing = f"class {label!r}" if label not in names else f"image {image!r}"
            raise DataError(f"{place / 'image_class_labels.txt'}, line {line}: {missing} is in no list")
        path = place / "images" / files[image]
        if not path.is_file():
            raise DataError(f"{place / 'images.txt'}: image {image} is {path}, which is not there")
        name = names[label]
        classes[name.partition(".")[2] or name].append(path)
    if len(classes) < 4:
        raise DataError(f"{place / 'classes.txt'} names {len(classes)} classes, expected 200")
    return classes


def _pairs(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise DataError(f"{path} is not there")
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        key, _, value = line.strip().partition(" ")
        if not value:
            raise DataError(f"{path}, line {number}: expected two words, found {line!r}")
        found[key] = value
    return found

"""Mini-ImageNet: one folder of images and the three lists of Ravi and Larochelle."""

from __future__ import annotations

import csv
from pathlib import Path

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data
from gate_runner.benchmarks.originals.splits import few_shot_split, folder
from gate_runner.errors import DataError

EXPECTED = "mini-imagenet/train.csv, val.csv, test.csv (filename,label) and mini-imagenet/images/"
_NAMES = ("mini-imagenet", "mini_imagenet", "miniImageNet")
_LISTS = ("train.csv", "val.csv", "test.csv")


def finds_files(root: Path) -> bool:
    """Whether the lists and the images lie under the root."""
    return _place(root) is not None


def check(root: Path) -> None:
    """Read the lists and look for their files.

    Raises:
        DataError: a line is not ``filename,label``, or its file is missing; the message names list and line.
    """
    for name in _LISTS:
        _listed(_of(root), name)


def load(request: DataRequest) -> Data:
    """64, 16 and 20 classes of 600 images.

    Args:
        request: root, size and limit.

    Returns:
        Three splits over disjoint classes, whose images stay in their files.

    Raises:
        DataError: see `check`; also a class that is in two lists.
    """
    assert request.root is not None
    place = _of(request.root)
    parts = [_listed(place, name) for name in _LISTS]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        if shared := sorted(set(parts[first]) & set(parts[second])):
            raise DataError(f"{place}: class {shared[0]!r} is in {_LISTS[first]} and in {_LISTS[second]}")
    splits = [few_shot_split(part, request.size, request.limit) for part in parts]
    return Data(splits[0], splits[1], splits[2], tuple(name for part in parts for name in part))


def _place(root: Path) -> Path | None:
    place = folder(root, _NAMES, "images")
    return place if place is not None and all((place / name).is_file() for name in _LISTS) else None


def _of(root: Path) -> Path:
    if (place := _place(root)) is None:
        raise DataError(f"mini: {root} does not hold {EXPECTED}")
    return place


def _listed(place: Path, name: str) -> dict[str, list[Path]]:
    classes: dict[str, list[Path]] = {}
    with (place / name).open(newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            filename, label = row.get("filename"), row.get("label")
            if not filename or not label:
                raise DataError(f"{place / name}, line {reader.line_num}: expected filename,label, found {row}")
            path = place / "images" / filename
            if not path.is_file():
                raise DataError(f"{place / name}, line {reader.line_num}: {path} is not there")
            classes.setdefault(label, []).append(path)
    if not classes:
        raise DataError(f"{place / name} lists no images")
    return classes

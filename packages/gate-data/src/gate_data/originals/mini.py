"""Mini-ImageNet: the lists of Ravi and Larochelle over one folder of images, or the cached arrays of 84 px."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gate_data.data import Data, Split, as_targets
from gate_data.errors import DataError
from gate_data.original_files import Originals, Parts, Sample, few_classes, from_lists
from gate_data.readers import Files, first_of, pickles, table
from gate_data.request import DataRequest

_EXPECTED = (
    "mini-imagenet/train.csv, val.csv, test.csv (filename,label) and images/, "
    "or mini-imagenet-cache-{train,val,test}.pkl"
)
_NAMES = ("mini-imagenet", "mini_imagenet", "miniImageNet", "")
_CACHES = (
    ("mini-imagenet-cache-train.pkl",),
    ("mini-imagenet-cache-val.pkl", "mini-imagenet-cache-validation.pkl"),
    ("mini-imagenet-cache-test.pkl",),
)


def find(root: Path) -> Path:
    """The folder of the lists and images, or of the three arrays."""
    for folder in (root / name for name in _NAMES):
        if (folder / "train.csv").is_file() and (folder / "images").is_dir():
            return folder
        if all(any((folder / name).is_file() for name in names) for names in _CACHES):
            return folder
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(folder: Path) -> Parts:
    """64, 16 and 20 classes of 600 images."""
    files = Files(folder / "images")
    classes: dict[str, int] = {}
    lists = []
    for name in ("train.csv", "val.csv", "test.csv"):
        rows = table(folder / name, ["filename", "label"])
        pairs = [(row, files.get(row.text("filename"), row.where)) for row in rows]
        for row, _ in pairs:
            classes.setdefault(row.text("label"), len(classes))
        lists.append([Sample(file, classes[row.text("label")]) for row, file in pairs])
    return Parts(lists[0], lists[2], lists[1], tuple(classes))


def load(folder: Path, request: DataRequest) -> Data:
    """From the lists where they are there, else from the arrays."""
    if (folder / "train.csv").is_file():
        return _LISTS.load(folder, request)
    splits: list[Split] = []
    classes: list[str] = []
    counts = []
    for names in _CACHES:
        pixels, rows = _cached(first_of(folder, names))
        samples = [Sample(str(row), label) for label, own in enumerate(rows.values()) for row in own]
        chosen = few_classes(samples, request.limit)
        label = {old: new for new, old in enumerate(sorted({sample.target for sample in chosen}))}
        images = torch.from_numpy(pixels[[int(str(sample.source)) for sample in chosen]].transpose(0, 3, 1, 2))
        splits.append(Split(images, as_targets([label[sample.target] for sample in chosen])))
        classes.extend(rows)
        counts.append(len(samples))
    note = request.compared("images of 84 px", counts[0] + counts[1], counts[2], len(classes))
    return Data(splits[0], splits[1], splits[2], tuple(classes), note)


def _cached(path: Path) -> tuple[np.ndarray, Mapping[str, Any]]:
    with path.open("rb") as file:
        content = pickles.load(file, str(path))
    pixels, rows = (content.get(name) for name in ("image_data", "class_dict")) if isinstance(content, dict) else (0, 0)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (84, 84, 3):
        raise DataError(f"{path}: image_data is not uint8 [n, 84, 84, 3]")
    if not isinstance(rows, dict) or not rows:
        raise DataError(f"{path}: class_dict is not a dictionary of classes")
    for name, own in rows.items():
        if not isinstance(own, list) or not own or not all(type(row) is int and 0 <= row < len(pixels) for row in own):
            raise DataError(f"{path}: class {name!r} has rows outside 0 to {len(pixels) - 1}, or none")
    return pixels, rows


def _check(folder: Path) -> None:
    if (folder / "train.csv").is_file():
        _LISTS.check(folder)


_LISTS = from_lists(_EXPECTED, find, parts, few_shot=True)
ORIGINALS = Originals(_EXPECTED, find, _check, load, parts)

"""CIFAR-100 from its Python or binary version, as an archive or unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gate_data.data import Data, Split, as_targets
from gate_data.errors import DataError
from gate_data.original_files import Originals
from gate_data.readers import archives, held_out, pickles, spread
from gate_data.readers.source import read_bytes
from gate_data.request import DataRequest

_EXPECTED = "cifar-100-python.tar.gz or cifar-100-binary.tar.gz, or what they unpack to"
_VERSIONS = {"cifar-100-python": ("train", "test", "meta"), "cifar-100-binary": ("train.bin", "test.bin")}
_ROW = 2 + 3 * 32 * 32


class Version(NamedTuple):
    """A folder or an archive, and which version it holds."""

    path: Path
    name: str

    def content(self, file: str) -> bytes:
        """The bytes of one of its files."""
        if self.path.is_dir():
            return read_bytes(str(self.path / file))
        member = f"{self.name}/{file}"
        return archives.read_packed(self.path, [member])[member]


def find(root: Path) -> Version:
    """One of the versions under the root or under ``cifar100`` in it."""
    for place in (root / "cifar100", root):
        for version, files in _VERSIONS.items():
            if all((place / version / name).is_file() for name in files):
                return Version(place / version, version)
            if (archive := place / f"{version}.tar.gz").is_file():
                return Version(archive, version)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def load(place: Version, request: DataRequest) -> Data:
    """50,000 images, of which a tenth of each class validates, and the 10,000 of the test set, of 32 px."""
    images, labels = _rows(place, "train")
    tested, test_labels = _rows(place, "test")

    def split(pixels: np.ndarray, known: list[int], rows: list[int]) -> Split:
        chosen = [rows[place] for place in spread([known[row] for row in rows], request.limit)]
        return Split(torch.from_numpy(pixels[chosen]), as_targets([known[row] for row in chosen]))

    train, validation = held_out(labels, 0.1)
    test = split(tested, test_labels, list(range(len(test_labels))))
    note = request.compared("", len(labels), len(test_labels))
    return Data(split(images, labels, train), split(images, labels, validation), test, _names(place), note)


def _rows(place: Version, name: str) -> tuple[np.ndarray, list[int]]:
    if place.name == "cifar-100-binary":
        raw = np.frombuffer(place.content(f"{name}.bin"), dtype=np.uint8)
        if len(raw) == 0 or len(raw) % _ROW:
            raise DataError(f"{place.path}: {name}.bin has {len(raw)} bytes, which is no multiple of {_ROW}")
        table = raw.reshape(-1, _ROW)
        labels, pixels = table[:, 1], table[:, 2:]
    else:
        stored = _stored(place, name, ("data", "fine_labels"))
        labels = pickles.whole_numbers(stored["fine_labels"], f"{place.path}: {name}: fine_labels")
        if not isinstance(stored["data"], np.ndarray):
            raise DataError(f"{place.path}: {name}: data is a list, expected an array")
        pixels = stored["data"]
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072) or not len(labels):
            raise DataError(f"{place.path}: {name} holds {pixels.dtype} {pixels.shape} for {len(labels)} labels")
    for wrong in (labels.min(initial=0), labels.max(initial=0)):
        if not 0 <= wrong <= 99:
            raise DataError(f"{place.path}: {name} has the label {wrong}, expected 0 to 99")
    return pixels.reshape(-1, 3, 32, 32).copy(), [int(label) for label in labels]


def _names(place: Version) -> tuple[str, ...]:
    if place.name == "cifar-100-binary":
        if place.path.is_dir() and not (place.path / "fine_label_names.txt").is_file():
            return tuple(f"class {label}" for label in range(100))
        names = place.content("fine_label_names.txt").decode().split()
    else:
        names = [str(name) for name in _stored(place, "meta", ("fine_label_names",))["fine_label_names"]]
    if len(names) != 100:
        raise DataError(f"{place.path} names {len(names)} classes, expected 100")
    return tuple(names)


def _stored(place: Version, name: str, fields: tuple[str, ...]) -> dict[str, Any]:
    found = pickles.load(place.content(name), f"{place.path}: {name}")
    if not isinstance(found, dict):
        raise DataError(f"{place.path}: {name} holds a {type(found).__name__}, expected a dict")
    for field in fields:
        if not isinstance(found.get(field), list | np.ndarray):
            raise DataError(f"{place.path}: {name} has no list {field!r}")
    return found


ORIGINALS = Originals(_EXPECTED, find, lambda place: (_names(place), None)[1], load)

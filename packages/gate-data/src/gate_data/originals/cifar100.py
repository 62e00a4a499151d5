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
    for folder in (root / "cifar100", root):
        for version, files in _VERSIONS.items():
            if all((folder / version / name).is_file() for name in files):
                return Version(folder / version, version)
            if (archive := folder / f"{version}.tar.gz").is_file():
                return Version(archive, version)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def load(version: Version, request: DataRequest) -> Data:
    """50,000 images, of which a tenth of each class validates, and the 10,000 of the test set, of 32 px."""
    images, labels = _rows(version, "train")
    tested, test_labels = _rows(version, "test")

    def split(pixels: np.ndarray, labels: list[int], rows: list[int]) -> Split:
        chosen = [rows[index] for index in spread([labels[row] for row in rows], request.limit)]
        return Split(torch.from_numpy(pixels[chosen]), as_targets([labels[row] for row in chosen]))

    train, validation = held_out(labels, 0.1)
    test = split(tested, test_labels, list(range(len(test_labels))))
    note = request.compared("", len(labels), len(test_labels))
    return Data(split(images, labels, train), split(images, labels, validation), test, _names(version), note)


def _rows(version: Version, name: str) -> tuple[np.ndarray, list[int]]:
    if version.name == "cifar-100-binary":
        raw = np.frombuffer(version.content(f"{name}.bin"), dtype=np.uint8)
        if len(raw) == 0 or len(raw) % _ROW:
            raise DataError(f"{version.path}: {name}.bin has {len(raw)} bytes, which is no multiple of {_ROW}")
        table = raw.reshape(-1, _ROW)
        labels, pixels = table[:, 1], table[:, 2:]
    else:
        stored = _stored(version, name, ("data", "fine_labels"))
        labels = pickles.whole_numbers(stored["fine_labels"], f"{version.path}: {name}: fine_labels")
        if not isinstance(stored["data"], np.ndarray):
            raise DataError(f"{version.path}: {name}: data is a list, expected an array")
        pixels = stored["data"]
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072) or not len(labels):
            raise DataError(f"{version.path}: {name} holds {pixels.dtype} {pixels.shape} for {len(labels)} labels")
    for wrong in (labels.min(initial=0), labels.max(initial=0)):
        if not 0 <= wrong <= 99:
            raise DataError(f"{version.path}: {name} has the label {wrong}, expected 0 to 99")
    return pixels.reshape(-1, 3, 32, 32).copy(), [int(label) for label in labels]


def _names(version: Version) -> tuple[str, ...]:
    if version.name == "cifar-100-binary":
        if version.path.is_dir() and not (version.path / "fine_label_names.txt").is_file():
            return tuple(f"class {label}" for label in range(100))
        names = version.content("fine_label_names.txt").decode().split()
    else:
        names = [str(name) for name in _stored(version, "meta", ("fine_label_names",))["fine_label_names"]]
    if len(names) != 100:
        raise DataError(f"{version.path} names {len(names)} classes, expected 100")
    return tuple(names)


def _stored(version: Version, name: str, fields: tuple[str, ...]) -> dict[str, Any]:
    content = pickles.load(version.content(name), f"{version.path}: {name}")
    if not isinstance(content, dict):
        raise DataError(f"{version.path}: {name} holds a {type(content).__name__}, expected a dict")
    for field in fields:
        if not isinstance(content.get(field), list | np.ndarray):
            raise DataError(f"{version.path}: {name} has no list {field!r}")
    return content


ORIGINALS = Originals(_EXPECTED, find, lambda version: (_names(version), None)[1], load)

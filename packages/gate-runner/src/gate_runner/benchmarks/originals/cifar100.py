"""CIFAR-100 from its Python or binary version, as an archive or unpacked."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split, as_targets
from gate_runner.benchmarks.originals.splits import held_out
from gate_runner.errors import DataError

EXPECTED = "cifar-100-python.tar.gz or cifar-100-binary.tar.gz, or what they unpack to"
_VERSIONS = {"cifar-100-python": ("train", "test", "meta"), "cifar-100-binary": ("train.bin", "test.bin")}
_ROW = 2 + 3 * 32 * 32


def finds_files(root: Path) -> bool:
    """Whether one of the versions lies under the root or under ``cifar100`` in it."""
    return _found(root) is not None


def check(root: Path) -> None:
    """Read the class names, which tells a damaged archive from a whole one.

    Raises:
        DataError: the file is damaged; the message names it.
    """
    path, version = _of(root)
    _names(path, version)


def load(request: DataRequest) -> Data:
    """50,000 images, of which a tenth of each class validates, and the 10,000 of the test set, of 32 px.

    Args:
        request: root and limit.

    Returns:
        Three splits.

    Raises:
        DataError: files are missing or damaged; the message names them.
    """
    assert request.root is not None
    path, version = _of(request.root)
    images, labels = _rows(path, version, "train")
    train, validation = held_out(labels, 0.1)

    def split(rows: list[int]) -> Split:
        return Split(torch.from_numpy(images[rows]), as_targets([labels[row] for row in rows]))

    test_images, test_labels = _rows(path, version, "test")
    test = Split(torch.from_numpy(test_images), as_targets(test_labels))
    return Data(split(train), split(validation), test, _names(path, version)).limited(request.limit)


def _found(root: Path) -> tuple[Path, str] | None:
    for place in (root / "cifar100", root):
        for version, files in _VERSIONS.items():
            if all((place / version / name).is_file() for name in files):
                return place / version, version
            if (archive := place / f"{version}.tar.gz").is_file():
                return archive, version
    return None


def _of(root: Path) -> tuple[Path, str]:
    if (found := _found(root)) is None:
        raise DataError(f"cifar100: {root} does not hold {EXPECTED}")
    return found


def _content(path: Path, version: str, name: str) -> bytes:
    if path.is_dir():
        return (path / name).read_bytes()
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile(f"{version}/{name}")
            if member is None:
                raise DataError(f"{path}: {version}/{name} is not a file")
            return member.read()
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise DataError(f"{path}: {version}/{name} cannot be read: {error}") from error


def _rows(path: Path, version: str, name: str) -> tuple[np.ndarray, list[int]]:
    if version == "cifar-100-binary":
        raw = np.frombuffer(_content(path, version, f"{name}.bin"), dtype=np.uint8)
        if len(raw) == 0 or len(raw) % _ROW:
            raise DataError(f"{path}: {name}.bin has {len(raw)} bytes, which is no multiple of {_ROW}")
        table = raw.reshape(-1, _ROW)
        labels, pixels = table[:, 1], table[:, 2:]
    else:
        stored = _unpickled(path, version, name)
        try:
            pixels, labels = np.asarray(stored["data"]), np.asarray(stored["fine_labels"])
        except KeyError as error:
            raise DataError(f"{path}: {name} has no field {error}") from error
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072):
            raise DataError(f"{path}: {name} holds {pixels.dtype} {pixels.shape} for {len(labels)} labels")
    if labels.max() > 99:
        raise DataError(f"{path}: {name} has the label {labels.max()}, expected 0 to 99")
    return pixels.reshape(-1, 3, 32, 32).copy(), [int(label) for label in labels]


def _names(path: Path, version: str) -> tuple[str, ...]:
    if version == "cifar-100-binary":
        if path.is_dir() and not (path / "fine_label_names.txt").is_file():
            return tuple(f"class {label}" for label in range(100))
        names = _content(path, version, "fine_label_names.txt").decode().split()
    else:
        names = [str(name) for name in _unpickled(path, version, "meta")["fine_label_names"]]
    if len(names) != 100:
        raise DataError(f"{path} names {len(names)} classes, expected 100")
    return tuple(names)


def _unpickled(path: Path, version: str, name: str) -> Mapping[str, Any]:
    try:
        found = _Restricted(io.BytesIO(_content(path, version, name)), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: {name} is not CIFAR-100's pickle: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: {name} holds a {type(found).__name__}, expected a dict")
    return found


class _Restricted(pickle.Unpickler):
    """Arrays and plain values only: a pickle could otherwise run anything."""

    _ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed class or function."""
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not allowed")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)

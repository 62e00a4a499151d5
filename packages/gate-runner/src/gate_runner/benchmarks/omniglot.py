"""Omniglot from its original zip files, read in place: few-shot over characters of alphabets never seen in training."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split, as_targets
from gate_runner.errors import DataError

_SMALL = ("images_background_small1.zip", "images_background_small2.zip")
_FULL = ("images_background.zip", "images_evaluation.zip")
EXPECTED = f"omniglot/{_FULL[0]} and {_FULL[1]}, or omniglot/{_SMALL[0]} and {_SMALL[1]}"

Alphabets = dict[str, dict[str, list[str]]]
"""Alphabet to character to the names of its drawings in the zip file."""


def finds_files(root: Path) -> bool:
    """Whether one of the two pairs of zip files lies under ``root`` or ``root/omniglot``."""
    return _pair(root) is not None


def check(root: Path) -> None:
    """Read every member of the zip files once.

    Raises:
        DataError: a file is truncated or damaged; the message names it.
    """
    for path in _pair(root) or ():
        try:
            with zipfile.ZipFile(path) as file:
                damaged = file.testzip()
        except (zipfile.BadZipFile, zlib.error, OSError) as error:
            raise DataError(f"{path} is not a whole zip file: {error}") from error
        if damaged is not None:
            raise DataError(f"{path}: {damaged} is damaged (its checksum differs)")


def load(request: DataRequest) -> Data:
    """Characters as classes, 20 drawings of 105 px each.

    With the full files, the test classes are those of ``images_evaluation.zip``. With the two small files, which share
    two alphabets, they are those of the alphabets that only the second has. Every fifth of the other alphabets, in
    alphabetical order, is for validation. No alphabet is in two splits.

    Args:
        request: root and limit.

    Returns:
        Three splits over disjoint alphabets.

    Raises:
        DataError: a file is missing, truncated or holds what is not an image; the message names it.
    """
    if request.root is None or (pair := _pair(request.root)) is None:
        raise DataError(f"omniglot: {request.root} does not hold {EXPECTED}")
    first, second = _listing(pair[0]), _listing(pair[1])
    test = {name: second[name] for name in second if name not in first}
    pool = sorted(first)
    validation = {name: first[name] for name in pool[::5]}
    train = {name: first[name] for name in pool if name not in validation}
    if not (train and validation and test):
        raise DataError(f"{pair[0]} and {pair[1]} hold too few alphabets: {len(first)} and {len(second)}")
    splits = [_read(pair[0], train), _read(pair[0], validation), _read(pair[1], test)]
    names = tuple(
        f"{alphabet}/{sign}" for part in (train, validation, test) for alphabet in part for sign in part[alphabet]
    )
    return Data(splits[0], splits[1], splits[2], names).limited(request.limit)


def _pair(root: Path) -> tuple[Path, Path] | None:
    for folder in (root / "omniglot", root):
        for names in (_FULL, _SMALL):
            paths = [folder / name for name in names]
            if all(path.is_file() for path in paths):
                return paths[0], paths[1]
    return None


def _listing(path: Path) -> Alphabets:
    try:
        with zipfile.ZipFile(path) as file:
            members = sorted(file.namelist())
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} is not a whole zip file: {error}") from error
    found: Alphabets = defaultdict(lambda: defaultdict(list))
    for member in members:
        parts = member.split("/")
        if member.endswith(".png") and len(parts) == 4:
            found[parts[1]][parts[2]].append(member)
    if not found:
        raise DataError(f"{path} holds no drawings; expected members like SET/ALPHABET/character01/0001_01.png")
    return found


def _read(path: Path, alphabets: Alphabets) -> Split:
    pictures, labels = [], []
    signs = [members for signs in alphabets.values() for members in signs.values()]
    with zipfile.ZipFile(path) as file:
        for label, members in enumerate(signs):
            for member in members:
                try:
                    image = Image.open(io.BytesIO(file.read(member))).convert("L")
                except (zipfile.BadZipFile, zlib.error, UnidentifiedImageError, OSError) as error:
                    raise DataError(f"{path}: {member} cannot be read: {error}") from error
                pictures.append(np.asarray(image))
                labels.append(label)
    grey = torch.from_numpy(np.stack(pictures))
    return Split(grey[:, None].expand(-1, 3, -1, -1), as_targets(labels))

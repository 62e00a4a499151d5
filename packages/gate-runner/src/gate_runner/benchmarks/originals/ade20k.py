"""ADE20K as the SceneParse150 challenge distributes it: 150 classes, a map of them for every image."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int16
from PIL import Image, UnidentifiedImageError

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split
from gate_runner.benchmarks.originals.splits import folder, shuffled
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError

EXPECTED = "ADEChallengeData2016/images/ and annotations/, each with training/ and validation/"
MAP_SIDE = 256
"""Of the class maps, in pixels, whatever the encoder: GATE's."""
_CLASSES = 150
_IGNORED = -100
_MOST = (2000, 200, 2000)


def finds_files(root: Path) -> bool:
    """Whether ``ADEChallengeData2016`` lies under the root."""
    return _place(root) is not None


def check(root: Path) -> None:
    """Look whether every image has its annotation.

    Raises:
        DataError: one has none; the message names it.
    """
    for split in ("training", "validation"):
        _listed(_of(root), split)


def load(request: DataRequest) -> Data:
    """The validation set, whose annotations are public, is the test split; part of the training set validates.

    Whole images are scaled to a square, their maps to 256 px by the nearest pixel. Annotation 0 is "no class" and
    counts nowhere. Without a limit, 2,000 images train and 200 validate, drawn once and for all, since the features of
    every patch are kept in memory.

    Args:
        request: root, size and limit.

    Returns:
        Three splits whose images stay in their files; maps are int16.

    Raises:
        DataError: files are missing, or an annotation is no map of classes 0 to 150; the message names the file.
    """
    assert request.root is not None
    place = _of(request.root)
    training = shuffled(_listed(place, "training"))
    sizes = [most if request.limit is None else request.limit for most in _MOST]
    chosen = [
        training[sizes[1] : sizes[1] + sizes[0]],
        training[: sizes[1]],
        shuffled(_listed(place, "validation"))[: sizes[2]],
    ]
    if not chosen[0]:
        raise DataError(f"{place}: {len(training)} training images are too few to hold {sizes[1]} out")
    splits = [
        Split(Pictures.of([image for image, _ in part], request.size, "whole"), torch.from_numpy(_maps(part)))
        for part in chosen
    ]
    note = "" if len(chosen[0]) + len(chosen[1]) == len(training) else f"{len(chosen[0])} of {len(training)} train"
    return Data(splits[0], splits[1], splits[2], _names(place), note)


def _place(root: Path) -> Path | None:
    return folder(root, ("ADEChallengeData2016", "ade20k/ADEChallengeData2016"), "annotations/training")


def _of(root: Path) -> Path:
    if (place := _place(root)) is None:
        raise DataError(f"ade20k: {root} does not hold {EXPECTED}")
    return place


def _listed(place: Path, split: str) -> list[tuple[Path, Path]]:
    images = sorted((place / "images" / split).glob("*.jpg"))
    if not images:
        raise DataError(f"{place / 'images' / split} holds no .jpg files")
    there = {path.stem for path in (place / "annotations" / split).glob("*.png")}
    for image in images:
        if image.stem not in there:
            raise DataError(f"{image} has no annotation {place / 'annotations' / split / image.stem}.png")
    return [(image, place / "annotations" / split / f"{image.stem}.png") for image in images]


def _maps(part: list[tuple[Path, Path]]) -> Int16[np.ndarray, "n h w"]:
    with ThreadPoolExecutor() as pool:
        maps = list(pool.map(_map, [path for _, path in part]))
    return np.stack(maps) if maps else np.empty((0, MAP_SIDE, MAP_SIDE), dtype=np.int16)


def _map(path: Path) -> Int16[np.ndarray, "h w"]:
    try:
        with Image.open(path) as image:
            image.load()
            small = np.asarray(image.resize((MAP_SIDE, MAP_SIDE), Image.Resampling.NEAREST)).astype(np.int16)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise DataError(f"{path} cannot be read as an annotation: {error}") from error
    if small.ndim != 2 or small.max() > _CLASSES:
        raise DataError(
            f"{path} has the shape {small.shape} and values up to {small.max()}, expected one channel, 0 to 150"
        )
    return np.where(small == 0, np.int16(_IGNORED), small - np.int16(1))


def _names(place: Path) -> tuple[str, ...]:
    path = place / "objectInfo150.txt"
    if not path.is_file():
        return tuple(f"class {number}" for number in range(1, _CLASSES + 1))
    names = [line.split("\t")[-1].partition(",")[0].strip() for line in path.read_text().splitlines()[1:] if line]
    if len(names) != _CLASSES:
        raise DataError(f"{path} names {len(names)} classes, expected {_CLASSES}")
    return tuple(names)

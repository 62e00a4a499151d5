"""iWildCam 2022: how many animals pass a camera trap in a short sequence of pictures."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split
from gate_runner.benchmarks.originals.splits import folder, shuffled
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError

EXPECTED = "iwildcam2022/metadata/ with train_sequence_counts.csv and iwildcam2022_train_annotations.json, and train/"
FRAMES = 8
_COUNTS, _IMAGES = "train_sequence_counts.csv", "iwildcam2022_train_annotations.json"
_SHARES = (0.7, 0.1)


def finds_files(root: Path) -> bool:
    """Whether the counts and the list of images lie under the root."""
    return _places(root) is not None


def check(root: Path) -> None:
    """Read the counts.

    Raises:
        DataError: a line is not ``seq_id,count``; the message names it.
    """
    _counts(_of(root)[0])


def load(request: DataRequest) -> Data:
    """The sequences of the training set that were counted (the test set's counts are not public).

    Cameras are dealt to the splits, 70, 10 and 20 % of them, so that no camera is in two. A sequence gives 8 frames,
    spread evenly over it; a shorter one repeats some.

    Args:
        request: root, size and limit.

    Returns:
        Three splits over disjoint cameras, whose pictures stay in their files.

    Raises:
        DataError: files are missing or fields are; the message names them.
    """
    assert request.root is not None
    metadata, pictures = _of(request.root)
    counts = _counts(metadata)
    sequences: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    camera: dict[str, str] = {}
    path = metadata / _IMAGES
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["images"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no JSON object with 'images': {error!r}") from error
    for row, image in enumerate(listed):
        try:
            sequence = str(image["seq_id"])
            if sequence in counts:
                file = pictures / Path(image["file_name"]).name
                sequences[sequence].append((int(image["seq_frame_num"]), file))
                camera[sequence] = str(image["location"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}, image {row}: {error!r}") from error
    if not sequences:
        raise DataError(f"{path} lists no image of the sequences in {_COUNTS}")
    cameras = shuffled(sorted(set(camera.values())))
    first, second = (round(float(share) * len(cameras)) for share in np.cumsum(_SHARES))
    dealt = [set(cameras[:first]), set(cameras[first:second]), set(cameras[second:])]
    if not all(dealt):
        raise DataError(f"{path}: {len(cameras)} cameras are too few for three splits")

    def split(mine: set[str]) -> Split:
        names = shuffled(sorted(name for name in sequences if camera[name] in mine))[: request.limit]
        clips = tuple(_frames([file for _, file in sorted(sequences[name])]) for name in names)
        values = torch.tensor([float(counts[name]) for name in names])
        return Split(Pictures(clips, request.size, "whole", video=True), values)

    return Data(split(dealt[0]), split(dealt[1]), split(dealt[2]), ())


def _places(root: Path) -> tuple[Path, Path] | None:
    for inner, train in (("metadata/metadata", "train/train"), ("metadata", "train")):  # Kaggle's zip nests them twice
        place = folder(root, ("iwildcam2022", "iwildcam2022-fgvc9", "iwildcam"), f"{inner}/{_COUNTS}")
        if place is not None and (place / inner / _IMAGES).is_file() and (place / train).is_dir():
            return place / inner, place / train
    return None


def _of(root: Path) -> tuple[Path, Path]:
    if (places := _places(root)) is None:
        raise DataError(f"iwildcam: {root} does not hold {EXPECTED}")
    return places


def _counts(metadata: Path) -> dict[str, int]:
    found = {}
    with (metadata / _COUNTS).open(newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            try:
                found[row["seq_id"]] = int(row["count"])
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{metadata / _COUNTS}, line {reader.line_num}: expected seq_id,count") from error
    if not found:
        raise DataError(f"{metadata / _COUNTS} holds no counts")
    return found


def _frames(files: list[Path]) -> tuple[Path, ...]:
    chosen = np.linspace(0, len(files) - 1, FRAMES).round().astype(int)
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is not there")
    return tuple(files[int(index)] for index in chosen)

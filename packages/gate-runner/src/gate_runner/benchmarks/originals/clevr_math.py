"""CLEVR-Math: sums and differences asked about CLEVR's images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split, as_targets
from gate_runner.benchmarks.originals.splits import folder, shuffled
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError

EXPECTED = "clevr-math/clevr-math-train.json, -val.json, -test.json and CLEVR_v1.0/images/ in it or beside it"
_FILES = ("clevr-math-train.json", "clevr-math-val.json", "clevr-math-test.json")
_ANSWERS = tuple(str(number) for number in range(11))
_MOST = (4000, 500, 2000)


class _Question(NamedTuple):
    image: Path
    text: str
    answer: int


def finds_files(root: Path) -> bool:
    """Whether the three lists of questions lie under the root."""
    return _place(root) is not None


def check(root: Path) -> None:
    """Look for the images' folder.

    Raises:
        DataError: it is not there; the message says where it was looked for.
    """
    _images(root, _of(root))


def load(request: DataRequest) -> Data:
    """The three published splits; the answers are 0 to 10.

    Without a limit, 4,000 of 556,082 questions train, 500 validate and 2,000 test, drawn once and for all, since the
    features of every patch are kept in memory.

    Args:
        request: root, size and limit.

    Returns:
        Three splits whose images stay in their files.

    Raises:
        DataError: a file is no list of questions, an answer is out of range or an image is missing; the message names
            the file and the question's index.
    """
    assert request.root is not None
    place = _of(request.root)
    images = _images(request.root, place)
    splits, counts = [], []
    for name, most in zip(_FILES, _MOST, strict=True):
        raw = _questions(place / name)
        counts.append(len(raw))
        rows = shuffled(range(len(raw)))[: most if request.limit is None else request.limit]
        asked = [_question(place / name, row, raw[row], images) for row in rows]
        splits.append(
            Split(
                Pictures.of([one.image for one in asked], request.size, "whole"),
                as_targets([one.answer for one in asked]),
                tuple(one.text for one in asked),
            )
        )
    note = "" if len(splits[0]) == counts[0] else f"{len(splits[0])} of {counts[0]} questions train"
    return Data(splits[0], splits[1], splits[2], _ANSWERS, note)


def _place(root: Path) -> Path | None:
    place = folder(root, ("clevr-math", "clevr_math"), _FILES[0])
    return place if place is not None and all((place / name).is_file() for name in _FILES) else None


def _of(root: Path) -> Path:
    if (place := _place(root)) is None:
        raise DataError(f"clevr-math: {root} does not hold {EXPECTED}")
    return place


def _images(root: Path, place: Path) -> Path:
    for images in (place / "CLEVR_v1.0" / "images", root / "CLEVR_v1.0" / "images"):
        if images.is_dir():
            return images
    raise DataError(f"clevr-math: CLEVR_v1.0/images is neither in {place} nor in {root}")


def _questions(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["questions"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no JSON object with 'questions': {error!r}") from error
    if not isinstance(found, list) or not found:
        raise DataError(f"{path}: 'questions' is {type(found).__name__}, expected a list that is not empty")
    return found


def _question(path: Path, row: int, raw: Any, images: Path) -> _Question:
    try:
        text, answer = str(raw["question"]), int(raw["answer"])
        image = images / Path(raw["split"]).name / Path(raw["image_filename"]).name
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}, question {row}: {error!r}") from error
    if not 0 <= answer < len(_ANSWERS):
        raise DataError(f"{path}, question {row}: answer {answer}, expected 0 to {len(_ANSWERS) - 1}")
    if not image.is_file():
        raise DataError(f"{path}, question {row}: {image} is not there")
    return _Question(image, text, answer)

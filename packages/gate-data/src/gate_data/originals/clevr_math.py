"""CLEVR-Math: sums and differences asked about CLEVR's images, and about newly rendered ones in the test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, records

_EXPECTED = (
    "clevr-math/clevr-math-train.json, -val.json, -test.json; CLEVR_v1.0/images/{train,val}/ in it or beside it; and "
    "the test's own pictures, clevr-math-test-images/CLEVR_v1.0/images/test/"
)
_ANSWERS = tuple(str(number) for number in range(11))
_CLEVR_TEST = 15_000
"""Pictures in CLEVR's own test set: the same names, other scenes."""


class Place(NamedTuple):
    """Where questions and pictures lie."""

    questions: Path
    images: Path
    test_images: Path


def find(root: Path) -> Place:
    """The questions' folder, that of ``train`` and ``val``, and that in which the test's ``test`` lies."""
    for questions in (root / "clevr-math", root / "clevr_math", root):
        if all((questions / f"clevr-math-{split}.json").is_file() for split in ("train", "val", "test")):
            images = [folder / "CLEVR_v1.0" / "images" for folder in (questions, root)]
            own = [folder / "clevr-math-test-images" / "CLEVR_v1.0" / "images" for folder in (questions, root)]
            trained = next((folder for folder in images if (folder / "train").is_dir()), None)
            tested = next((folder for folder in (*own, *images) if (folder / "test").is_dir()), None)
            if trained is not None and tested is not None:
                return Place(questions, trained, tested)
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(layout: Place) -> Parts:
    """The three published splits; the answers are 0 to 10."""
    if len(os.listdir(layout.test_images / "test")) >= _CLEVR_TEST:  # noqa: PTH208 - names alone are wanted
        raise DataError(
            f"{layout.test_images / 'test'} holds CLEVR's own test pictures, which these questions are not about; "
            "expected those of clevr-math-test-images.zip"
        )
    lists = [
        _asked(layout.questions / f"clevr-math-{split}.json", images)
        for split, images in (("train", layout.images), ("val", layout.images), ("test", layout.test_images))
    ]
    return Parts(lists[0], lists[2], lists[1], _ANSWERS)


def _asked(path: Path, images: Path) -> list[Sample]:
    files = Files(images)
    samples = []
    for row in records(path, "questions"):
        file = files.get(f"{row.text('split')}/{row.text('image_filename')}", row.where)
        samples.append(
            Sample(file, row.integer("answer", 0, 10), row.text("question"), group=row.text("image_filename"))
        )
    return samples


ORIGINALS = from_lists(_EXPECTED, find, parts, fit="whole")

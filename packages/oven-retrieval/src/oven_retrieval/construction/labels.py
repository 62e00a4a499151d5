"""Labelled images as recognition and question-answering data sets have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oven_retrieval.entity import EntityFileError
from oven_retrieval.readers import csv_objects, json_objects

FIELDS = ("image_id", "label", "category", "question", "source")


@dataclass(frozen=True, slots=True)
class LabelledImage:
    """One image with the text that a data set calls it, or with a question and its answer.

    Args:
        image_id: the image, not blank.
        label: class name or answer, not blank.
        category: super-category where the data set has one ("Plantae"); may be empty.
        question: of question-answering data; empty for recognition data, whose question is made up.
        source: the data set; may be empty.
        line: where it stands in its file.

    Raises:
        ValueError: the field that is blank.

    Example:
        >>> LabelledImage("img1", "Wood duck", category="Aves").question
        ''
    """

    image_id: str
    label: str
    category: str = ""
    question: str = ""
    source: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be linked."""
        for field in ("image_id", "label"):
            if not getattr(self, field).strip():
                raise ValueError(f"{field}: expected a text that is not blank, got {getattr(self, field)!r}")


def read_labels(path: str | Path) -> Iterator[LabelledImage]:
    r"""Stream labelled images from JSON lines or CSV, `.gz` too, with the fields of `LabelledImage`.

    Raises:
        EntityFileError: file, line and field of the first row that cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = path.write_text("image_id,label,category\n7,African elephant,animal\n", encoding="utf-8")
        >>> [(item.label, item.question, item.line) for item in read_labels(path)]
        [('African elephant', '', 2)]
    """
    is_csv = Path(path).name.removesuffix(".gz").endswith(".csv")
    for line, record in csv_objects(path) if is_csv else json_objects(path):
        values = {}
        for field in FIELDS:
            value = record.get(field)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if value is None:
                if field in FIELDS[:2]:
                    raise EntityFileError(path, line, f"{field}: missing; the fields are {list(record)[:12]}")
                value = ""
            if not isinstance(value, str):
                raise EntityFileError(path, line, f"{field}: expected a text, got {value!r:.80}")
            values[field] = value
        try:
            yield LabelledImage(**values, line=line)
        except ValueError as error:
            raise EntityFileError(path, line, str(error)) from None

"""Labelled images, and which of their labels and questions are left out before linking, and why."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from oven_retrieval.entity import EntityFileError
from oven_retrieval.text_files import csv_objects, json_objects, numbered_lines
from oven_retrieval.tokens import fold

_NUMBER_WORDS = frozenset(
    (
        *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty"),
        *("forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million", "billion"),
        *("dozen", "half", "and"),
    )
)
_VERDICTS = frozenset(
    (
        *("yes", "no", "true", "false", "maybe", "unknown", "none", "nothing", "n/a", "unanswerable", "not sure"),
        "i don't know",
    )
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?"
    r"|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    "|".join(
        (
            rf"{_MONTH} {_DAY}(?:,? \d{{4}})?",
            rf"{_DAY} {_MONTH}(?: \d{{4}})?",
            rf"{_MONTH} \d{{4}}",
            r"(?:1[0-9]|20)\d\ds",
            r"\d{1,2}(?:[:.]\d\d)? ?[ap]\.?m\.?",
            r"\d+ (?:bc|ad)",
        )
    )
)
_COUNTING = re.compile(r"\bhow (?:many|much)\b|\bwhat(?: is the)? number of\b|\bcount the\b")
_VERIFICATION = re.compile(
    r"(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|should|may|might|must"
    r"|isn't|aren't|doesn't)\b"
)
_ATTRIBUTE = re.compile(
    r"\bwhen\b|\bwhy\b"
    r"|\bhow (?:old|tall|long|far|big|large|high|fast|heavy|deep|wide|often|do|does|did|is|are|was|were)\b"
    r"|\b(?:what|which)(?: \w+)?(?: is the)? "
    r"(?:time|date|year|month|day|decade|century|colou?r|age|price|size|temperature)\b"
)

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
    rows = csv_objects(path, required=FIELDS[:2]) if is_csv else json_objects(path)
    for line, record in rows:
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


def label_problem(label: str) -> str | None:
    """Why a label names no entity: a number, a date or time, a verdict, or no word at all; None where it may.

    Source: OVEN's appendix removes non-entity labels "(e.g., numbers)" by rules that it does not print; these are ours.
    """
    text = fold(label)
    if text in _VERDICTS:
        return "verdict"
    if _DATE.fullmatch(text):
        return "date or time"
    letters = [c for c in text if c.isalpha() or unicodedata.category(c) == "So"]  # an emoji may be a name
    if any(character.isdigit() for character in text) and not letters:
        return "number"
    if not letters or (len(letters) == len(text) == 1 and text.isascii()):
        return "no word"
    words = re.split(r"[\s-]+", text)
    return "number" if all(word in _NUMBER_WORDS or word.isdigit() for word in words) else None


def question_problem(question: str) -> str | None:
    """Why a question asks for no entity: it counts, wants a yes or no, or a non-entity attribute; None where it may.

    Source: OVEN's appendix removes questions "related to counting, verification, or querying non-entity attributes
    (e.g., dates)"; the rules are ours. Colours, sizes, ages, reasons and manners are among our attributes.
    """
    text = fold(question)
    if _COUNTING.search(text):
        return "counting question"
    if _VERIFICATION.match(text):
        return "verification question"
    return "attribute question" if _ATTRIBUTE.search(text) else None


def read_blocklist(path: str | Path) -> frozenset[str]:
    """Folded labels that shall not be in a benchmark: one per line; blank lines and lines with # in front are none."""
    lines = (line.strip() for _, line in numbered_lines(path))
    return frozenset(fold(line) for line in lines if line and not line.startswith("#"))


def screen(item: LabelledImage, blocked: Collection[str]) -> str | None:
    """Why a labelled image is left out, or None: its folded label is blocked, then its question, then its label."""
    if fold(item.label) in blocked:
        return "blocklist"
    return (question_problem(item.question) if item.question else None) or label_problem(item.label)

"""Which labels and questions are left out before linking, and why."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from oven_retrieval.construction.labels import LabelledImage
from oven_retrieval.readers import numbered_lines
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


def label_problem(label: str) -> str | None:
    """Why a label names no entity: a number, a date or time, a verdict, or no word at all; None where it may.

    Example:
        >>> [label_problem(text) for text in ("42", "Twenty two", "yes", "May 5, 2011", "10:30 am", "?!", "x")]
        ['number', 'number', 'verdict', 'date or time', 'date or time', 'no word', 'no word']
        >>> [label_problem(text) for text in ("Boeing 747", "May", "Yes (band)", "東")]
        [None, None, None, None]

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

    Example:
        >>> for text in ("How many dogs are there?", "Is this a cat?", "What color is the car?", "What bird is this?"):
        ...     print(question_problem(text))
        counting question
        verification question
        attribute question
        None

    Source: OVEN's appendix removes questions "related to counting, verification, or querying non-entity attributes
    (e.g., dates)"; the rules are ours. Colours, sizes, ages, reasons and manners are among our attributes.
    """
    text = fold(question)
    if _COUNTING.search(text):
        return "counting question"
    if _VERIFICATION.match(text):
        return "verification question"
    return "attribute question" if _ATTRIBUTE.search(text) else None


@dataclass(frozen=True, slots=True)
class Blocklist:
    """Labels and super-categories that shall not be in the benchmark, for the reasons of whoever makes it.

    Args:
        labels: compared folded, as a whole.
        categories: compared folded, as a whole, with the label's and with the linked entity's.

    Example:
        >>> blocked = Blocklist.of(["Some Slur"], ["person"])
        >>> blocked.label("some  slur"), blocked.category("Person"), blocked.label("slur")
        (True, True, False)
    """

    labels: frozenset[str] = field(default_factory=frozenset)
    categories: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, labels: Iterable[str], categories: Iterable[str] = ()) -> Blocklist:
        """From texts."""
        return cls(frozenset(map(fold, labels)), frozenset(map(fold, categories)))

    def label(self, text: str) -> bool:
        """Whether a label is blocked."""
        return fold(text) in self.labels

    def category(self, text: str) -> bool:
        """Whether a category is blocked."""
        return bool(text) and fold(text) in self.categories


def read_blocklist(path: str | Path, categories: Iterable[str] = ()) -> Blocklist:
    r"""A blocklist from a file with one label per line; blank lines and those that start with # are passed over.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "blocked.txt"
        >>> _ = file.write_text("Weapon\n", encoding="utf-8")
        >>> read_blocklist(file, categories=["people"])
        Blocklist(labels=frozenset({'weapon'}), categories=frozenset({'people'}))
    """
    lines = (line.strip() for _, line in numbered_lines(path))
    return Blocklist.of((line for line in lines if line and not line.startswith("#")), categories)


def screen(item: LabelledImage, blocked: Blocklist) -> str | None:
    """Why a labelled image is left out, or None: blocked, then its question, then its label.

    Example:
        >>> from oven_retrieval.construction import LabelledImage
        >>> screen(LabelledImage("img1", "42"), Blocklist()), screen(LabelledImage("img2", "Goose"), Blocklist())
        ('number', None)
    """
    if blocked.label(item.label) or blocked.category(item.category):
        return "blocklist"
    return (question_problem(item.question) if item.question else None) or label_problem(item.label)

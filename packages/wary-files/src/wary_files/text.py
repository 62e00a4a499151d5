"""Texts of strangers as they are printed and kept: no terminal obeys them, and no spreadsheet runs them."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any
from unicodedata import category

_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?%?")
_JOINERS = "\u200c\u200d"
"""Between letters of some scripts, and the parts of an emoji."""
_DIRECTIONS = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
"""Marks that show nothing, or show what follows in another order."""
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(32), *range(127, 160), *_DIRECTIONS) if chr(code) not in "\t\n"}


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with its control characters as escapes, but for those to keep.

    Signs that turn the direction of what follows are among them; spaces and joiners of any script are not.

    Example:
        >>> print(printable("cat\x1b[31m"))
        cat\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep or letter in _JOINERS or category(letter) == "Zs"
        else repr(letter)[1:-1]
        for letter in text
    )  # fmt: skip


def number_of(number: int, single: str, several: str = "") -> str:
    """Return a number with the words that follow it: those of one thing, or of any other number (with an s).

    Example:
        >>> number_of(1, "label is", "labels are"), number_of(1200, "label")
        ('1 label is', '1,200 labels')
    """
    return f"{number:,} {single if number == 1 else several or single + 's'}"


def utf8_name(name: str) -> str:
    """Return a file's name as UTF-8 has it, in a locale of another encoding, too; any other name as it is.

    Example:
        >>> utf8_name("owl.png")
        'owl.png'
    """
    try:
        return os.fsencode(name).decode("utf-8")
    except UnicodeError:
        return name


def escape_output() -> None:
    """Let standard output and errors show letters that the locale's encoding lacks as escapes, not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="backslashreplace")


def comma_hint(text: object) -> str:
    """Return, for an error about a number, what to do with a decimal comma; empty if the text has none.

    Example:
        >>> comma_hint("0,5"), comma_hint("a,5"), comma_hint(None)
        ('; write a decimal comma as a point', '', '')
    """
    has_comma = isinstance(text, str) and _WITH_COMMA.fullmatch(text.strip())
    return "; write a decimal comma as a point" if has_comma else ""


def printable_json(text: str) -> str:
    r"""Return lines with control and direction characters as JSON's escapes, but for tabs and line ends.

    JSON stays the same JSON.

    Example:
        >>> print(printable_json('{"name": "cat\x1b[31m"}'))
        {"name": "cat\u001b[31m"}
    """
    return text.translate(_CONTROLS)


def json_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of its keys and values, as `json.loads` takes it for ``object_pairs_hook``.

    Raises:
        ValueError: a key comes twice, of which `json` would take the last value; shows the key.
    """
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} comes twice in one object")
    return content


def parsed_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON, or a key comes twice in one of its objects.
        RecursionError: it is nested too deeply.

    Example:
        >>> parsed_json('{"label": 1, "label": 2}')
        Traceback (most recent call last):
        ...
        ValueError: the key 'label' comes twice in one object
    """
    return json.loads(text, object_pairs_hook=json_object)


def json_text(value: Any, **options: Any) -> str:
    r"""Return a value as JSON that UTF-8 can hold: letters as they are, but for halves of one, which are escapes.

    Example:
        >>> json_text("Zoë"), json_text("a\ud800")
        ('"Zoë"', '"a\\ud800"')
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, **options)
    return text


def inert(text: str) -> str:
    """Return a cell that no spreadsheet runs and no terminal obeys: what begins like a formula gets a quote in front.

    Example:
        >>> inert("=1+1"), inert("-3"), inert("-")
        ("'=1+1", "'-3", '-')
    """
    text = printable(text, "\n")
    return f"'{text}" if text[:1] in ("=", "+", "@") or (text[:1] == "-" and len(text) > 1) else text


def uninert(cell: str) -> str:
    """Return the text of a cell that `inert` may have written: without the quote in front that it adds.

    Example:
        >>> uninert("'=1+1"), uninert("'tis"), uninert("-3")
        ('=1+1', "'tis", '-3')
    """
    return cell[1:] if cell[:1] == "'" and inert(cell[1:]) == cell else cell

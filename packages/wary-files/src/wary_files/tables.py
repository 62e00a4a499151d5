"""Tables of strangers as CSV: a quote that is opened by mistake must not make one row of several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath


def held_row(cells: Sequence[str], delimiter: str = ",") -> str:
    r"""Return a row of the table that a cell of another row holds, or an empty text where none does.

    CSV lets a quoted cell go on over lines, so that a quote that was opened by mistake, as for inches, holds the rows
    behind it. A line inside a cell is taken for a row where a part of it looks like the row's own cell in that column:
    the names of two files with one ending; or two texts without spaces, with digits in the same places, if the line
    has as many parts as a row would have there. Of words alone, such a line has no blank behind a delimiter, and either
    two of its parts are written like the row's own, or one is, in two lines of the cell. Texts of several lines pass.

    Args:
        cells: of one row, as `csv.reader` gives them.
        delimiter: what separates the table's cells.

    Example:
        >>> held_row(["a1.png", "big\nb2.png,small\nc3.png,five"]), held_row(["a1.png", "two\nlines, of text"])
        ('b2.png,small', '')
        >>> held_row(["cat", "Cat", "12 inch\ndog,Dog,a hound\nowl,Owl,13 inch"])
        'dog,Dog,a hound'
    """
    for quoted, cell in enumerate(cells):
        lines = cell.split("\n") if "\n" in cell else []
        for number, line in enumerate(lines):
            parts = [part.strip(' \r"') for part in line.split(delimiter)]
            start = 0 if number else quoted  # the first line goes on from the cell's own column
            last = number == len(lines) - 1
            whole = start + len(parts) == (quoted + 1 if last else len(cells))
            for column, part in enumerate(parts, start):
                if len(parts) > 1 and column != quoted and column < len(cells) and _alike(part, cells[column], whole):
                    return line.strip()
        if held := _of_words(cells, quoted, lines, delimiter):
            return held
    return ""


def _of_words(cells: Sequence[str], quoted: int, lines: Sequence[str], delimiter: str) -> str:
    """The first line behind a cell's own that is a row of words like the row's own; empty where there is none."""
    rows = []
    for number, line in enumerate(lines[1:], 1):
        parts = line.rstrip("\r").split(delimiter)
        if len(parts) != (quoted + 1 if number == len(lines) - 1 else len(cells)) or any(
            part[:1].isspace() for part in parts[1:]
        ):
            continue
        like = sum(
            bool(re.fullmatch(r"[^\W\d_]+", part)) and _cases(part) == _cases(cell)
            for column, (part, cell) in enumerate(zip(parts, cells, strict=False))
            if column != quoted
        )
        if like:
            rows.append((like, line.strip()))
    return rows[0][1] if len(rows) > 1 or any(like > 1 for like, _ in rows) else ""


def _cases(word: str) -> str:
    """How a word is written: all small, all large, or which of both come after one another."""
    return re.sub(r"(.)\1+", r"\1", "".join("A" if letter.isupper() else "a" for letter in word))


def _alike(part: str, cell: str, whole: bool) -> bool:
    if "\n" in cell:
        return False
    ending = PurePath(cell).suffix.lower()
    if ending and PurePath(part).suffix.lower() == ending:
        return True
    return whole and any(map(str.isdigit, cell)) and not re.search(r"\s", cell) and _shape(part) == _shape(cell)


def _shape(text: str) -> str:
    """The text with a sign for each run of digits, and for each run of letters."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text))

"""Pieces of HTML that several sections use; texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_NUMBER = ' class="num"'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[int] = ()) -> str:
    """A table whose first column names its rows.

    Args:
        heads: plain text of the columns' heads.
        rows: plain text of the cells.
        words: columns behind the first that hold words; the others hold figures.

    Returns:
        Markup in a frame that scrolls where the table is wider than the page.

    Example:
        >>> '<td class="num">&lt;1</td>' in table(["Run", "p"], [["a", "<1"]])
        True
    """

    def style(column: int) -> str:
        return "name" if column in words else "num"

    head = "".join(
        f'<th scope="col"{"" if column == 0 or column in words else _NUMBER}>{escape(text)}</th>'
        for column, text in enumerate(heads)
    )
    body = "".join(
        f'<tr><th scope="row" class="name">{escape(row[0])}</th>'
        + "".join(f'<td class="{style(column)}">{escape(cell)}</td>' for column, cell in enumerate(row[1:], start=1))
        + "</tr>"
        for row in rows
    )
    return scroll(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", f"Table: {heads[0]} …")


def scroll(inside: str, name: str) -> str:
    """A frame that scrolls sideways, by keyboard too; ``name`` is what a screen reader calls it."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{inside}</div>'


def folded(summary: str, inside: str) -> str:
    """What opens on demand."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def note(text: str) -> str:
    """A paragraph in grey."""
    return f'<p class="note">{escape(text)}</p>'


def key(entries: Iterable[tuple[str, str]]) -> str:
    """A key: pairs of a text and the class of its colour."""
    parts = "".join(
        '<li><svg class="swatch" viewBox="0 0 14 14" aria-hidden="true"><rect width="14" height="14" rx="3" '
        f'class="{escape(style)}"/></svg>{escape(text)}</li>'
        for text, style in entries
    )
    return f'<ul class="key">{parts}</ul>'

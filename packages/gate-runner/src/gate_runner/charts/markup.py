"""Pieces of HTML that several sections use; texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from gate_runner.__about__ import __version__

_NUMBER = ' class="num"'
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


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


def document(title: str, lede: str, body: str, *, navigation: str = "") -> str:
    """A whole page: no script, nothing loaded, in the reader's light or dark setting; ``body`` is markup."""
    style = files("gate_runner").joinpath("reports", "page.css").read_text(encoding="utf-8")
    heading = escape(title)
    links = f'<nav aria-label="Sections">{navigation}</nav>' if navigation else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{heading}</title><style>{style}</style></head>\n<body><header><h1>{heading}</h1>"
        f'<p class="lede">{escape(lede)}</p>{links}</header><main>'
        f"{body}</main><footer>Made by gate-runner {escape(__version__)}.</footer></body></html>\n"
    )

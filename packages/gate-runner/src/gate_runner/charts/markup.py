"""Pages and the pieces of them that several sections use, from the templates beside this file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gate_runner.__about__ import __version__
from gate_runner.errors import printable

_TEMPLATES = Environment(
    loader=PackageLoader("gate_runner.charts"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["plain"] = lambda value: f"{value:.2f}".rstrip("0").rstrip(".")
_PIECES: Any = _TEMPLATES.get_template("pieces.html").module


class Section(NamedTuple):
    """A part of a page: where links lead, its heading, and its markup; without markup it is left out."""

    id: str
    heading: str
    markup: str


def rendered(template: str, **values: Any) -> Markup:
    """A template filled in; every value is escaped unless it is markup already."""
    return Markup(_TEMPLATES.get_template(template).render(values))  # noqa: S704 - the templates escape


def document(
    title: str,
    lede: str,
    body: str = "",
    *,
    sections: Sequence[Section] = (),
    banner: str = "",
    findings: Sequence[str] = (),
    style: str = "",
    script: str = "",
) -> str:
    """A whole page: nothing loaded, in the reader's light or dark setting; ``body`` is markup.

    It has no script but the template ``script``, whose digest is all that its policy lets run; ``style`` is a template,
    too.
    """
    page = rendered(
        "base.html",
        title=title,
        lede=lede,
        body=Markup(body),  # noqa: S704 - from pieces, which escape
        sections=[section for section in sections if section.markup],
        banner=banner,
        findings=findings,
        style=style,
        script=script,
        policy=_policy(script) if script else "",
        version=__version__,
    )
    return printable(str(page), "\n\t")


def _policy(script: str) -> Markup:
    """What a page's policy lets run: the script with this digest."""
    digest = hashlib.sha256(_TEMPLATES.get_template(script).render().encode()).digest()
    return Markup(f"; script-src 'sha256-{base64.b64encode(digest).decode()}'")  # noqa: S704 - letters of base64


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[int] = ()) -> Markup:
    """A table whose first column names its rows, in a frame that scrolls; ``words`` are further columns of words."""
    return Markup(_PIECES.table(heads, rows, words))  # noqa: S704


def piece(name: str, *values: Any) -> Markup:
    """A macro of ``pieces.html``: ``scroll`` (a frame, by its name for screen readers), ``key``, ``matrix``, …."""
    return Markup(getattr(_PIECES, name)(*values))  # noqa: S704


def folded(summary: str, inside: str) -> Markup:
    """What opens on demand."""
    return piece("folded", summary, Markup(inside))  # noqa: S704


def note(text: str) -> Markup:
    """A paragraph in grey."""
    return piece("note", text)


def joined(parts: Iterable[str]) -> Markup:
    """Pieces of markup, one after another."""
    return Markup("").join(parts)

"""One HTML page that holds everything: words, tables and pictures, with every name escaped and nothing loaded."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eevee.errors import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLE = """
:root{color-scheme:light}body{font:15px/1.5 system-ui,sans-serif;color:#22303c;max-width:960px;margin:2rem
auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem;border-bottom:1px solid #c9d6df}
img{max-width:100%;height:auto;display:block;margin:.8rem auto}p.note{color:#55636d}ul.warn li{color:#9c3b25}
table{border-collapse:collapse;margin:.8rem 0;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.2rem .9rem .2rem 0;border-bottom:1px solid
#e8edf0;vertical-align:top}th{color:#55636d;font-weight:600}
td{white-space:nowrap}td:last-child{white-space:normal}
@media(max-width:640px){td{white-space:normal;padding-right:.6rem}img{min-width:36rem}}
.scroll{overflow-x:auto}footer{margin:3rem 0 1rem;color:#55636d;font-size:13px;overflow-wrap:anywhere}
"""


@dataclass(frozen=True)
class Section:
    """A part of the page; what is empty is left out."""

    title: str
    text: str = ""
    warnings: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    svg: bytes = b""
    alt: str = ""
    note: str = ""


def build_page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """The page's HTML."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src '
        "'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1><p>{escape(lead)}</p>\n{body}\n<footer>{escape(footer)}</footer></body></html>\n"
    )


def escape(text: str) -> str:
    """A text as HTML shows it, control characters as escapes."""
    return html.escape(plain(text))


def _section(section: Section) -> str:
    parts = [f"<section><h2>{escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.warnings:
        parts.append('<ul class="warn">' + "".join(f"<li>{escape(line)}</li>" for line in section.warnings) + "</ul>")
    if section.rows:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in section.header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
        parts.append(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')
    if section.svg:
        data = base64.b64encode(section.svg).decode("ascii")
        picture = f'<img alt="{escape(section.alt)}" src="data:image/svg+xml;base64,{data}">'
        parts.append(f'<div class="scroll">{picture}</div>')
    if section.note:
        parts.append(f'<p class="note">{escape(section.note)}</p>')
    return "".join(parts) + "</section>"

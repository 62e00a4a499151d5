"""What goes to a terminal: control characters of names, notes and classes are shown, never obeyed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import typer

from gate_runner.errors import printable

LAYOUT = "\n\t"
"""Control characters that stay."""


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print lines as `printable`."""
    typer.echo(printable(str(text), LAYOUT), err=err, nl=nl)


def echo_json(value: Any) -> None:
    """Print a value, a record or a list of records as JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=asdict))


def echo_table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str] = ()) -> None:
    """Print rows under their heads; the first column and ``words`` stand to the left, figures to the right."""
    texts = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = [
            cell.ljust(width) if head == heads[0] or head in words else cell.rjust(width)
            for head, cell, width in zip(heads, row, widths, strict=True)
        ]
        echo("  ".join(cells).rstrip())

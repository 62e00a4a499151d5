"""Lines on a terminal, which obeys no name that comes out of a file."""

from __future__ import annotations

import typer

_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def plain(text: str) -> str:
    """The text with its control characters as escapes; JSON stays the same JSON."""
    return text.translate(_CONTROLS)


def echo(line: str, *, err: bool = False) -> None:
    """Print a line without control characters."""
    typer.echo(plain(line), err=err)

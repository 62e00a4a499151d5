"""The one way in which the commands print."""

from __future__ import annotations

import typer

from wary_files.text import printable


def say(line: str, *, err: bool = False) -> None:
    """Print a line; a terminal obeys no caption and no name of a file."""
    typer.echo(printable(line), err=err)

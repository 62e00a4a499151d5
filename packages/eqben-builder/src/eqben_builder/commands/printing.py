"""The one way in which the commands print."""

from __future__ import annotations

import typer

from eqben_builder.untrusted import printable


def say(line: str, *, err: bool = False) -> None:
    """Print a line; a terminal obeys no caption and no name of a file."""
    typer.echo(printable(line), err=err)

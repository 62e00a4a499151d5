"""Lines on a terminal, which obeys no name that comes out of a file."""

from __future__ import annotations

from wary_files.text import printable_json


def echo(line: str, *, err: bool = False) -> None:
    """Print a line without control characters."""
    import typer  # which may be missing where an error says so

    typer.echo(printable_json(line), err=err)

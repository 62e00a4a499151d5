"""Lines on a terminal, which obeys no name that comes out of a file."""

from __future__ import annotations

from pathlib import Path

from wary_files.text import printable_json


def echo(line: str, *, err: bool = False) -> None:
    """Print a line without control characters."""
    import typer  # which may be missing where an error says so

    typer.echo(printable_json(line), err=err)


def refuse_over(option: str, output: Path | None, *inputs: Path) -> None:
    """Refuse an output that is one of the command's own inputs, which it would take the place of."""
    for path in inputs:
        if output is not None and output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{option} {output} is a file that is read here; expected another")

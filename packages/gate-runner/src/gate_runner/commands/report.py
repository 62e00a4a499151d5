"""``gate-runner report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gate_runner.commands.options import Runs
from gate_runner.terminal import echo

_FORMATS = ("html", "md", "csv", "latex", "classes", "confusions")


def report(
    runs: Runs,
    output: Annotated[Path | None, typer.Option(help="File to write; report.html, or the terminal for tables.")] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="html (one page), a table (md, csv, latex), or classes or confusions as CSV rows."
        ),
    ] = "html",
    pictures: Annotated[
        int | None,
        typer.Option(help="Hardest test samples to show per benchmark; 4 on a page, 0 in a table (md), by default."),
    ] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder with data sets' original files, for pictures.")] = None,
    tests: Annotated[bool, typer.Option(help="Mark what a paired test does not tell from the best.")] = True,
    look: Annotated[
        bool, typer.Option("--look", help="On the page: neighbours, a map and places by the first run's encoder.")
    ] = False,
) -> None:
    """Make one page of one or more runs, or a table for a paper."""
    from gate_runner.errors import UsageError

    if format_ not in _FORMATS:
        raise UsageError(f"--format must be one of {', '.join(_FORMATS)}, not {format_!r}")
    from gate_runner import api

    form: Any = format_
    text = api.report(*runs, form=form, pictures=pictures, data_root=data_root, tests=tests, look=look)
    _write(text, output or (Path("report.html") if format_ == "html" else None))


def _write(text: str, output: Path | None) -> None:
    if output is None:
        echo(text, nl=False)
        return
    from gate_runner.files import write

    write(output, text.encode())
    echo(f"wrote {output} ({len(text.encode()) / 1e6:.2f} MB)")

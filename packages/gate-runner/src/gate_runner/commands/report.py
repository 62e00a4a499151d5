"""``gate-runner report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gate_runner.commands.options import Runs
from gate_runner.terminal import echo


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
    from gate_runner.reports import report as make

    form: Any = format_
    output = output or (Path("report.html") if format_ == "html" else None)
    text = make(*runs, output=output, form=form, pictures=pictures, data_root=data_root, tests=tests, look=look)
    if output is None:
        echo(text, nl=False)
    else:
        echo(f"wrote {output} ({len(text.encode()) / 1e6:.2f} MB)")

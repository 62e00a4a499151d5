"""``gate-runner export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate_runner.terminal import echo


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help="every-eval-ever, model-card or csv.")],
    output: Annotated[Path | None, typer.Option(help="Folder; RUN/export/FORM by default.")] = None,
    model: Annotated[str | None, typer.Option(help="DEVELOPER/NAME; from the encoder's spec by default.")] = None,
    organization: Annotated[str, typer.Option(help="Who ran the evaluation.")] = "independent",
) -> None:
    """Write a run's results in a form that other tools read."""
    from gate_runner.exporting import export as write

    paths = write(run, to, output, model=model, organization=organization)
    for path in paths.files:
        echo(path)
    for sentence in paths.left_out:
        echo(sentence, err=True)

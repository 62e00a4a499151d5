"""``gate-runner run icinw``: ELEVATER's grid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import typer


def grid(
    names: list[str],
    encoder: str,
    output: Path | None,
    init: str | None,
    projection: str | None,
    knowledge: str | None,
    probe: str | None,
    controls: bool,
    knowledge_folder: Path | None,
    predictions: bool,
    short_classes: str | None,
    options: Mapping[str, Any],
) -> None:
    """Fill a grid and print its averages; exit with 1 where a cell failed."""
    from gate_runner.icinw.cells import Axes
    from gate_runner.settings import Settings

    said = dict(options)
    shots = Settings().changed(shots=said.pop("shots", ())).shots
    axes = Axes.of(
        shots=",".join(shots) or None,
        tune=str(said.pop("tune", "frozen")),
        init=init,
        projection=projection,
        knowledge=knowledge,
        seeds=said.get("seeds"),
        controls=controls,
    )
    settings = Settings().changed(**cast("Any", said))
    from gate_runner.commands.progress import ProgressLine
    from gate_runner.icinw import make_grid_request, run_grid
    from gate_runner.icinw.tables import averages

    request = make_grid_request(
        names,
        encoder,
        output=output,
        axes=axes,
        settings=settings,
        probe=probe or "anchored",
        knowledge_folder=knowledge_folder,
        keep_predictions=predictions,
        short_classes=cast("Any", short_classes or "take"),
    )
    with ProgressLine() as progress:
        cells = run_grid(request, say=typer.echo, progress=progress)
    typer.echo(averages(cells).as_markdown(), nl=False)
    typer.echo(f"in {request.output}; gate-runner report {request.output} makes the page and every table")
    failed = [one for one in cells if one.status == "failed"]
    for one in failed[:5]:
        typer.echo(f"failed: {one.cell.dataset} {one.cell.name}: {one.reason}", err=True)
    if failed:
        raise typer.Exit(1)

"""``oven calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.terminal import echo

CALIBRATION = "calibration.json"


def calibrate(
    labelled: Annotated[Path, typer.Argument(help="JSONL: name, and entity_id or null where it is not in here.")],
    kb: Folder,
    precision: Annotated[float, typer.Option(help="Wanted share of right answers among those that are given.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the parts to fit, choose and judge on.")] = 0,
) -> None:
    """Learn from labelled names when to say that an entity is not in here, for `link --refuse`."""
    from oven_retrieval.readers import json_objects
    from oven_retrieval.refusal import calibrate_names
    from oven_retrieval.workspace import open_workspace

    names: list[str] = []
    ids: list[str | None] = []
    for number, record in json_objects(labelled):
        name, entity = record.get("name"), record.get("entity_id")
        if not isinstance(name, str) or not (entity is None or isinstance(entity, str)):
            raise ValueError(
                f"{labelled}:{number}: expected a name and an entity_id (a text or null), got {record!r:.80}"
            )
        names.append(name)
        ids.append(entity)
    model, report = calibrate_names(open_workspace(kb), names, ids, precision, seed=seed)
    model.write(kb / CALIBRATION)
    auroc = ""
    if report.auroc == report.auroc:
        auroc = f"; AUROC {report.auroc:.3f} for being in here, {report.trivial_auroc:.3f} by spelling alone"
    interval = f"{report.precision_low:.1%} to {report.precision_high:.1%}"
    answered = f"{report.coverage:.1%} answered, {report.precision:.1%} of these right ({interval})"
    echo(f"on {report.queries:,} names of other entities: {answered}{auroc}")
    echo("of the surest names    right    95 % interval")
    for point in report.curve:
        echo(f"{point.coverage:20.0%} {point.precision:8.1%}    {point.low:.1%} to {point.high:.1%}")

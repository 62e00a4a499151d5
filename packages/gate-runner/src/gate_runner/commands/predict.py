"""``gate-runner predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.commands.options import AsJson

if TYPE_CHECKING:
    from gate_runner.prediction import FullPrediction


def predict(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|SCORES.CSV", help="A run folder, or a CSV of scores in percent.")
    ],
    level: Annotated[float, typer.Option(help="Share of new models that intervals are meant to hold for.")] = 0.9,
    accept_stand_ins: Annotated[
        bool, typer.Option("--accept-stand-ins", help="Predict from synthetic stand-ins, which does not carry over.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Expected mean over all benchmarks of GATE's table from scores on some, with an interval."""
    from gate_runner.prediction import predict_file, predict_run
    from gate_runner.runs.stored import read_run

    found = (
        [predict_run(read_run(source), accept_stand_ins=accept_stand_ins, level=level)]
        if source.is_dir()
        else predict_file(source, level=level)
    )
    if json:
        import json as standard
        from dataclasses import asdict

        typer.echo(standard.dumps([asdict(one) for one in found], indent=2, allow_nan=False))
        return
    for one in found:
        for line in lines(one):
            typer.echo(line)


def lines(found: FullPrediction) -> list[str]:
    """A prediction as lines of text, warnings first.

    Args:
        found: the prediction.

    Returns:
        Lines for a terminal.
    """
    said = [f"warning: {warning}" for warning in found.warnings]
    said.append(
        f"{found.model}: expected mean over the {len(found.benchmarks)} headline metrics of GATE's table "
        f"{found.mean:.1f} % ({found.level:.0%} interval {found.low:.1f} to {found.high:.1f}), "
        f"place {found.rank} of {found.of}"
    )
    width = max(len(one.metric) for one in found.benchmarks)
    for one in found.benchmarks:
        interval = "measured" if one.measured else f"{one.low:6.1f} to {one.high:5.1f}"
        apart = f"  beside ours {one.beside_ours}" if one.beside_ours.startswith("no") else ""
        said.append(f"  {one.metric:<{width}}  {one.value:6.1f}  {interval:<15}{apart}".rstrip())
    return said

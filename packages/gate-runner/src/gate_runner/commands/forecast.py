"""``gate-runner forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.terminal import echo, echo_json

if TYPE_CHECKING:
    from gate_runner.forecasting import Forecast


def forecast(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|SCORES.CSV", help="A run folder, or a CSV of scores in percent.")
    ],
    level: Annotated[float, typer.Option(help="Share of new models that intervals are meant to hold for.")] = 0.9,
    accept_stand_ins: Annotated[
        bool, typer.Option("--accept-stand-ins", help="Forecast from synthetic stand-ins, which does not carry over.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Expected mean over all benchmarks of GATE's table from scores on some, with an interval."""
    from gate_runner.forecasting import forecast as expected

    forecasts = expected(source, accept_stand_ins=accept_stand_ins, level=level)
    if json:
        echo_json(forecasts)
        return
    for entry in forecasts:
        for line in lines(entry):
            echo(line)


def lines(forecast: Forecast) -> list[str]:
    """A forecast as lines of text, warnings first."""
    texts = [f"warning: {warning}" for warning in forecast.warnings]
    texts.append(
        f"{forecast.model}: expected mean over the {len(forecast.benchmarks)} headline metrics of GATE's table "
        f"{forecast.mean:.1f} % ({forecast.level:.0%} interval {forecast.low:.1f} to {forecast.high:.1f}), "
        f"place {forecast.rank} of {forecast.of}"
    )
    width = max(len(benchmark.metric) for benchmark in forecast.benchmarks)
    for row in forecast.benchmarks:
        interval = "measured" if row.measured else f"{row.low:6.1f} to {row.high:5.1f}"
        apart = f"  beside ours {row.beside_ours}" if row.beside_ours.startswith("no") else ""
        texts.append(f"  {row.metric:<{width}}  {row.value:6.1f}  {interval:<15}{apart}".rstrip())
    return texts

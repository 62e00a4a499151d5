"""``gate-runner power``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.terminal import echo, echo_json

if TYPE_CHECKING:
    from gate_runner.comparison import PowerReport


def power(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN [RUN]", help="One run folder, or two on the same data.")],
    difference: Annotated[float, typer.Option(help="To be seen, in points: hundredths of the metric's unit.")] = 1.0,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided paired test.")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", help="Probability to see it.")] = 0.8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how many test samples, seeds or benchmarks it takes to see a difference."""
    from gate_runner.comparison.power import power as power_of
    from gate_runner.errors import UsageError

    if len(runs) > 2:
        raise UsageError(f"{len(runs)} runs given; expected one, or two")
    report = power_of(*runs, difference=difference / 100, alpha=alpha, wanted=wanted)
    if json:
        echo_json(report)
        return
    for line in _lines(report):
        echo(line)


def _lines(report: PowerReport) -> list[str]:
    """A block of three lines per benchmark: readable at any width."""
    points, probability = 100 * report.difference, f"{report.wanted:.0%}"
    size = f"{points:g} point{'s' * (points != 1)}"
    lines = []
    for row in report.benchmarks:
        has = f"{row.samples} samples, {row.seeds} seed{'s' * (row.seeds > 1)}"
        lines += [
            f"{row.name} ({row.metric}; {has}{'' if row.paired else '; against an unrelated model'})",
            f"  now: {row.power:.0%} to see {size}; {probability} to see {100 * row.smallest:.2g}",
            f"  {size} with {probability}: {row.samples_needed} samples{_seeds(row.seeds_needed)}",
        ]
    if report.benchmarks_needed is not None:
        lines.append(f"mean over benchmarks, {size} with {probability}: {report.benchmarks_needed} benchmarks")
    return lines + [f"left out: {reason}" for reason in report.left_out]


def _seeds(needed: int | None) -> str:
    if needed is None:
        return ""
    return "; with today's samples, no number of seeds" if needed == 0 else f"; or today's, with {needed} seeds"

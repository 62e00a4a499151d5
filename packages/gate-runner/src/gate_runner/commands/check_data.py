"""``gate-runner check-data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.terminal import echo, echo_json


def check_data(
    root: Annotated[
        Path,
        typer.Argument(help="The folder of data sets' original files; or a benchmark's file, or its folder."),
    ],
    names: Annotated[list[str] | None, typer.Argument(help="Packs and benchmarks; all of GATE by default.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Decode and compare every picture, not a sample.")] = False,
    json: AsJson = False,
) -> None:
    """Say which data sets are there, whether they are whole, and whether their splits overlap."""
    from gate_data import check_data as check
    from gate_data.own import originals_of, read_benchmark, summary
    from gate_runner.benchmarks import resolve
    from gate_runner.errors import UsageError

    file = root / "benchmark.toml" if names is None and (root / "benchmark.toml").is_file() else root
    lines: list[str] = []
    if file.is_file():
        own = read_benchmark(file)
        originals, root = {own.benchmark.id: originals_of(file)}, file.parent
    else:
        chosen = resolve(names or ["full"])
        originals = {benchmark.id: benchmark.originals for benchmark in chosen if "local" in benchmark.sources}
        if not originals:
            named = ", ".join(benchmark.id for benchmark in chosen)
            raise UsageError(f"{named}: no original files are read; a file of your own is given in place of the folder")
    reports = check(originals, root, deep)
    if file.is_file() and reports[0].counts:
        lines = summary(own, root)
    if json:
        echo_json(reports)
    else:
        for line in lines:
            echo(line)
        for report in reports:
            counts = " ".join(f"{count:,}" for count in report.counts) if report.counts else "-"
            problems = "; ".join(report.problems[:3])
            echo(f"{report.benchmark:<12}  {report.state:<10}  {counts:<18}  {problems}".rstrip())
            if report.state == "incomplete" and report.expected:
                echo(f"{'':<12}  {'expected':<10}  {' '.join(f'{count:,}' for count in report.expected)}")
    if any(report.state == "wrong" for report in reports):
        raise typer.Exit(1)

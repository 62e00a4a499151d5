"""Commands that look at data: new, check-data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.errors import UsageError
from gate_runner.terminal import echo, echo_json


def new(
    folder: Annotated[Path | None, typer.Argument(help="A folder of your own data.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="The table or COCO file that counts, where the folder holds several.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; FOLDER/benchmark.toml by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the file's JSON schema, for editors.")] = False,
) -> None:
    """Look at a folder of your own data, say what it could be, and write the file that runs it as a benchmark."""
    if schema:
        from gate_runner.benchmarks.own import schema as make

        echo(json.dumps(make(), indent=2))
        return
    if folder is None:
        raise UsageError("name a folder of your own data (or ask for --schema)")
    from gate_data.own import benchmark_text
    from gate_runner.benchmarks.own import TEXT_TASKS, looked_at, write_own
    from gate_runner.encoders.spec import usual_encoder

    path = output or (folder if folder.is_dir() else folder.parent) / "benchmark.toml"
    values, sentences = looked_at(folder, path, table)
    for sentence in sentences:
        echo(sentence)
    if dry_run:
        echo(f"\n{benchmark_text(values)}\nnothing was written; without --dry-run this goes into {path}")
        return
    write_own(values, path)
    echo(f"wrote {path}")
    encoder, reason = usual_encoder(texts=values["benchmark"]["task"] in TEXT_TASKS)
    echo(f"run it with: gate-runner run {path} --encoder {encoder}")
    echo(reason)


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

"""``gate-runner new``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.errors import UsageError


def new(
    folder: Annotated[Path | None, typer.Argument(help="A folder of your own data.")] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; FOLDER/benchmark.toml by default.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the file's JSON schema, for editors.")] = False,
) -> None:
    """Look at a folder of your own data, say what it could be, and write the file that runs it as a benchmark."""
    if schema:
        from gate_runner.benchmarks.own_page import schema as make

        typer.echo(json.dumps(make(), indent=2))
        return
    if folder is None:
        raise UsageError("name a folder of your own data (or ask for --schema)")
    from gate_data.own import guess, originals_of, values_at, write_benchmark
    from gate_runner.benchmarks.registry import is_taken

    path = output or folder / "benchmark.toml"
    found = guess(folder, is_taken)
    for sentence in found.said:
        typer.echo(sentence)
    write_benchmark(values_at(found.values, folder, path.parent), path)
    typer.echo(f"wrote {path}")
    originals_of(path).check(path.parent)
    typer.echo(f"run it with: gate-runner run {path}")

"""``gate-runner new``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.errors import UsageError
from gate_runner.terminal import echo


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

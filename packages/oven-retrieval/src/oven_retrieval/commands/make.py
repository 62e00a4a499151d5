"""``oven make``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.terminal import echo


def make(
    labels: Annotated[Path, typer.Argument(help="JSONL or CSV: image_id, label; category, question, source if any.")],
    kb: Folder,
    output: Annotated[Path, typer.Option(help="New folder for the benchmark's files.")],
    unseen: Annotated[float, typer.Option(help="Share of entities without training examples.")] = 0.6,
    val: Annotated[float, typer.Option(help="Share of seen entities' images for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of seen entities' images for the test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the splits.")] = 0,
    blocklist: Annotated[Path | None, typer.Option(help="File of labels to leave out, one per line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
) -> None:
    """Build a benchmark in OVEN's files from labelled images: link labels, ask questions, split entities."""
    from oven_retrieval.construction import SplitRules, make_benchmark, read_labels
    from oven_retrieval.construction.screening import read_blocklist
    from oven_retrieval.workspace import open_workspace

    report = make_benchmark(
        read_labels(labels),
        open_workspace(kb),
        output,
        rules=SplitRules(unseen=unseen, val=val, test=test, seed=seed),
        blocked=() if blocklist is None else read_blocklist(blocklist),
        say=lambda line: echo(line, err=True),
    )
    if as_json:
        echo(json.dumps(report, ensure_ascii=False))
        return
    for name, counts in report["splits"].items():
        echo(f"{name:20} {counts['examples']:>9,} examples of {counts['entities']:>7,} entities")
    for reason, count in report["dropped"].items():
        echo(f"left out: {count:,} {reason}")
    echo(f"{output}: links.jsonl has every label's entity, dropped.jsonl every reason")

"""``oven eval``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.terminal import echo

Reference = Annotated[Path | None, typer.Option(help="OVEN's reference jsonl of this split.")]
Predictions = Annotated[Path | None, typer.Option(help="Predictions of this split: data_id, pred_entity_id.")]


def evaluate(
    query_reference: Reference = None,
    query_predictions: Predictions = None,
    entity_reference: Reference = None,
    entity_predictions: Predictions = None,
    kb: Annotated[
        Path | None, typer.Option("--kb", help="Project folder: tells kinds of errors, and popularity.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write a results page, one HTML file.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' pictures, for the page.")] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "OVEN results",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Score predictions: every question counted once, with intervals, and OVEN's official numbers beside it."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.evaluation import (
        error_kinds,
        evaluate_splits,
        kind_shares,
        outcomes,
        read_splits,
        report_lines,
        write_page,
    )

    files = {}
    for name, reference, predictions in (
        ("query", query_reference, query_predictions),
        ("entity", entity_reference, entity_predictions),
    ):
        if (reference is None) != (predictions is None):
            raise ValueError(f"eval: expected both --{name}-reference and --{name}-predictions, got one of them")
        files[name] = None if reference is None or predictions is None else (reference, predictions)
    for name, folder in (("--images", images), ("--kb", kb)):
        if folder is not None and not folder.is_dir():
            raise ValueError(f"eval: {name} {folder}: expected a folder")
    entities = None if kb is None else KnowledgeBase(kb / "kb")
    splits = read_splits(query=files["query"], entity=files["entity"])
    result = evaluate_splits(splits)
    marked = {name: outcomes(*split) for name, split in splits.items()}
    lines = report_lines(result)
    if entities is not None:
        shares = {name: kind_shares(error_kinds(outcome, entities)) for name, outcome in marked.items()}
        result["kinds"] = {
            name: {entry.kind: entry.questions for entry in split_shares} for name, split_shares in shares.items()
        }
        for name, split_shares in shares.items():
            lines += [
                f"{name:7} {entry.kind:20} {entry.share.value:5.1f} %  {entry.questions:,}" for entry in split_shares
            ]
    if page is not None:
        write_page(page, marked, result, kb=entities, images=images, title=title)
        lines.append(f"{page}: written")
    for line in [json.dumps(result)] if as_json else lines:
        echo(line)

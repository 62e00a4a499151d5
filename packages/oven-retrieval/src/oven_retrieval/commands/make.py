"""``oven make``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.terminal import echo

if TYPE_CHECKING:
    from oven_retrieval.construction.linking import Candidates
    from oven_retrieval.names import NameLinker


def make(
    labels: Annotated[Path, typer.Argument(help="JSONL or CSV: image_id, label; category, question, source if any.")],
    kb: Folder,
    output: Annotated[Path, typer.Option(help="New folder for the benchmark's files.")],
    unseen: Annotated[float, typer.Option(help="Share of entities without training examples.")] = 0.6,
    val: Annotated[float, typer.Option(help="Share of seen entities' images for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of seen entities' images for the test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 0,
    blocklist: Annotated[Path | None, typer.Option(help="File of labels to leave out, one per line.")] = None,
    block_category: Annotated[list[str] | None, typer.Option(help="Super-category to leave out. Repeatable.")] = None,
    templates: Annotated[
        Path | None, typer.Option(help="JSON of super-category and question, over ours; * for all others.")
    ] = None,
    linker_model: Annotated[
        str | None, typer.Option(help="Generative transformers model as second stage of linking.")
    ] = None,
    least_examples: Annotated[int, typer.Option(min=1, help="Leave out entities with fewer examples.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
) -> None:
    """Build a benchmark in OVEN's files.

    From labelled images: it links labels, asks questions and splits entities.
    """
    from oven_retrieval.construction import SplitRules, make_benchmark, read_labels
    from oven_retrieval.construction.make import TEMPLATES, read_templates
    from oven_retrieval.construction.screening import read_blocklist
    from oven_retrieval.workspace import open_workspace

    questions = TEMPLATES if templates is None else read_templates(templates)
    linker = open_workspace(kb)
    report = make_benchmark(
        read_labels(labels),
        linker,
        output,
        rules=SplitRules(unseen=unseen, val=val, test=test, seed=seed),
        blocked=() if blocklist is None else read_blocklist(blocklist),
        blocked_categories=block_category or (),
        templates=questions,
        second=None if linker_model is None else _generative(linker_model, linker),
        least_examples=least_examples,
        say=lambda line: echo(line, err=True),
    )
    if as_json:
        echo(json.dumps(report, ensure_ascii=False))
        return
    for name, counts in report["splits"].items():
        echo(f"{name:20} {counts['examples']:>9,} examples of {counts['entities']:>7,} entities")
    groups = ", ".join(f"{name} {count:,}" for name, count in report["super_categories"].items())
    echo(f"entities by super-category: {groups}")
    for reason, count in report["dropped"].items():
        echo(f"left out: {count:,} {reason}")
    echo(f"{output}: links.jsonl has every label's entity, dropped.jsonl every reason")


def _generative(model: str, linker: NameLinker) -> Candidates:
    """A second stage as the paper's: a model that can only write names that exist."""
    from oven_retrieval.generation.answers import load_generator

    generator = load_generator(model, linker)
    return lambda labels: generator.constrained(labels, k=5, beams=5).rows.tolist()

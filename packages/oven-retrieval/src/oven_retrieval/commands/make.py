"""``oven make``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.terminal import echo

if TYPE_CHECKING:
    from oven_retrieval import NameLinker
    from oven_retrieval.construction import Candidates


def make(
    labels: Annotated[Path, typer.Argument(help="JSONL or CSV: image_id, label; category, question, source if any.")],
    kb: Folder,
    output: Annotated[Path, typer.Option(help="New folder for the benchmark's files.")],
    unseen: Annotated[float, typer.Option(help="Share of entities without training examples.")] = 0.6,
    val: Annotated[float, typer.Option(help="Share of seen entities' images for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of seen entities' images for the test.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the splits.")] = 0,
    blocklist: Annotated[Path | None, typer.Option(help="File of labels to leave out, one per line.")] = None,
    block_category: Annotated[list[str] | None, typer.Option(help="Super-category to leave out. Repeatable.")] = None,
    templates: Annotated[Path | None, typer.Option(help="JSON of super-category -> question, over ours.")] = None,
    linker_model: Annotated[
        str | None, typer.Option(help="Generative transformers model as second stage, instead of BM25.")
    ] = None,
    overlap: Annotated[float, typer.Option(help="Least share of common words of a BM25 link.")] = 0.5,
    ambiguous: Annotated[str, typer.Option(help="Of several entities with the name: first, or drop.")] = "first",
    least_examples: Annotated[int, typer.Option(help="Leave out entities with fewer examples.")] = 1,
    typos: Annotated[bool, typer.Option("--typos", help="Link misspelt labels too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
) -> None:
    """Build a benchmark in OVEN's files from labelled images: link labels, ask questions, split entities."""
    from oven_retrieval.construction import (
        TEMPLATES,
        Blocklist,
        SplitRules,
        make_benchmark,
        read_blocklist,
        read_labels,
        read_templates,
    )
    from oven_retrieval.workspace import open_workspace

    blocked = (
        Blocklist.of((), block_category or ()) if blocklist is None else read_blocklist(blocklist, block_category or ())
    )
    linker = open_workspace(kb, typos=typos)
    report = make_benchmark(
        read_labels(labels),
        linker,
        output,
        rules=SplitRules(unseen=unseen, val=val, test=test, seed=seed),
        blocked=blocked,
        templates=TEMPLATES if templates is None else read_templates(templates),
        second=None if linker_model is None else _generative(linker_model, linker),
        least_overlap=overlap,
        ambiguous=ambiguous,
        least_examples=least_examples,
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


def _generative(model: str, linker: NameLinker) -> Candidates:
    """A second stage like the paper's GENRE: a model that can only write names that exist."""
    from oven_retrieval.generation import load_generator

    generator = load_generator(model, linker)
    return lambda labels: generator.constrained(labels, k=5, beams=5).rows.tolist()

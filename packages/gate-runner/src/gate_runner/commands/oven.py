"""``gate-runner oven``: link names, images and questions to the entities of a knowledge base."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path, typer.Option("--kb", help="Folder written by `gate-runner oven build`.")]
Best = Annotated[int, typer.Option("-k", min=1, help="Entities per query.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per query.")]


@app.command()
def build(
    source: Annotated[Path, typer.Argument(help="Entities: Wiki6M jsonl, JSONL, CSV or WordNet nouns; .gz too.")],
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    file_format: Annotated[
        str | None, typer.Option("--format", help="wiki6m, jsonl, csv or wordnet; found out by default.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Pages to leave out: disambiguation, redirects, media. Repeatable.")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="words or whitespace.")] = "words",
    overwrite: Annotated[bool, typer.Option(help="Replace a knowledge base that is there.")] = False,
) -> None:
    """Build a knowledge base and its name index."""
    from oven_retrieval.workspace import build_workspace

    linker = build_workspace(
        source,
        output,
        file_format=file_format,
        filters=leave_out or (),
        tokenizer=tokenizer,
        overwrite=overwrite,
        progress=lambda count: typer.echo(f"{count:,} entities", err=True),
    )
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in linker.kb.meta["left_out"].items() if count)
    typer.echo(f"{len(linker.kb):,} entities in {output}" + (f"; left out: {left_out}" if left_out else ""))


@app.command()
def link(
    kb: Folder,
    source: Annotated[Path, typer.Argument(help="File with one name per line; - for standard input.")] = Path("-"),
    k: Best = 1,
    engine: Annotated[str, typer.Option(help="pruned, rank_bm25 or bm25s.")] = "pruned",
    bm25_only: Annotated[bool, typer.Option(help="Skip the exact steps, as the paper does.")] = False,
    as_json: AsJson = False,
) -> None:
    """Map names to entities: exact, case-folded, aliases, then BM25."""
    from oven_retrieval.workspace import link_lines, open_workspace

    linker = open_workspace(kb, engine=engine)
    with sys.stdin if str(source) == "-" else source.open(encoding="utf-8") as lines:
        for record in link_lines(linker, lines, k, exact_first=not bm25_only):
            if as_json:
                typer.echo(json.dumps(record, ensure_ascii=False))
                continue
            entities = record["entities"] or [{"id": "-", "name": "", "step": "none", "score": None}]
            for entity in entities:
                score = "" if entity["score"] is None else f"{entity['score']:.3f}"
                typer.echo("\t".join([record["query"], entity["id"], entity["name"], entity["step"], score]))

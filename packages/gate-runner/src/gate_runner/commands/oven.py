"""``gate-runner oven``: link names, images and questions to the entities of a knowledge base."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from gate_runner.encoders.encoder import Encoder

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
    encoder: Annotated[
        str | None, typer.Option(help="Also encode the entities' texts, for `search`: micro-clip, open_clip:…, hf:…")
    ] = None,
    template: Annotated[str, typer.Option(help="What is encoded: name, or description for both.")] = "name",
    memory: Annotated[float | None, typer.Option(help="Memory for the vector index in MB.")] = None,
    recall: Annotated[float, typer.Option(help="Wanted recall at 1 of the vector index.")] = 0.96,
    device: Annotated[str, typer.Option(help="Torch device of the encoder.")] = "cpu",
    overwrite: Annotated[bool, typer.Option(help="Replace a knowledge base that is there.")] = False,
) -> None:
    """Build a knowledge base, its name index and, with an encoder, its vector index."""
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
    if encoder is not None:
        from gate_runner.encoders import load_encoder
        from oven_retrieval.encoding import add_vectors

        model = load_encoder(encoder, device=device)
        add_vectors(
            linker,
            output,
            model,
            encoder_name=_name(model),
            template=template,
            memory_mb=memory,
            recall=recall,
            overwrite=overwrite,
            say=typer.echo,
        )


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


@app.command()
def search(
    kb: Folder,
    encoder: Annotated[str, typer.Option(help="The encoder that `build` was given.")],
    image: Annotated[list[Path] | None, typer.Option(help="Picture to look for. Repeatable.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="Text to look for. Repeatable.")] = None,
    k: Best = 5,
    template: Annotated[str, typer.Option(help="As in `build`.")] = "name",
    device: Annotated[str, typer.Option(help="Torch device of the encoder.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Find the entities whose texts are nearest to pictures or texts (CLIP zero-shot retrieval)."""
    from gate_runner.encoders import load_encoder
    from gate_runner.errors import UsageError
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.encoding import describe_neighbours, open_vectors, search_features

    if not image and not text:
        raise UsageError("search: expected --image or --text, got neither")
    entities = KnowledgeBase(kb / "kb")
    model = load_encoder(encoder, device=device)
    index = open_vectors(kb, entities, encoder_name=_name(model), template=template)
    records = []
    if image:
        records += describe_neighbours(
            entities,
            [str(path) for path in image],
            search_features(index, model.encode_image(_pictures(image, model.image_size)), k),
        )
    if text:
        records += describe_neighbours(entities, text, search_features(index, model.encode_text(text), k))
    for record in records:
        if as_json:
            typer.echo(json.dumps(record, ensure_ascii=False))
            continue
        for entity in record["entities"]:
            typer.echo("\t".join([record["query"], entity["id"], entity["name"], f"{entity['score']:.4f}"]))


Reference = Annotated[Path | None, typer.Option(help="OVEN's reference jsonl of this split.")]
Predictions = Annotated[Path | None, typer.Option(help="Predictions of this split: data_id, pred_entity_id.")]


@app.command("eval")
def evaluate(
    query_reference: Reference = None,
    query_predictions: Predictions = None,
    entity_reference: Reference = None,
    entity_predictions: Predictions = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Score predictions: every question counted once, with intervals, and OVEN's official numbers beside it."""
    from gate_runner.errors import UsageError
    from oven_retrieval.evaluation import evaluate_files, report_lines

    splits = {}
    for name, reference, predictions in (
        ("query", query_reference, query_predictions),
        ("entity", entity_reference, entity_predictions),
    ):
        if (reference is None) != (predictions is None):
            raise UsageError(f"eval: expected both --{name}-reference and --{name}-predictions, got one of them")
        splits[name] = None if reference is None or predictions is None else (reference, predictions)
    result = evaluate_files(query=splits["query"], entity=splits["entity"], confidence=confidence, seed=seed)
    for line in [json.dumps(result)] if as_json else report_lines(result):
        typer.echo(line)


def _name(model: Encoder) -> str:
    """The encoder's name with its weights: features of other weights are refused."""
    return f"{model.spec}@{(model.fingerprint() or 'unknown')[:12]}"


def _pictures(paths: list[Path], size: int) -> UInt8[Tensor, "n 3 s s"]:
    """Pictures as one batch: the middle square of each, at the encoder's size."""
    import numpy as np
    import torch
    from PIL import Image, ImageOps

    squares = []
    for path in paths:
        with Image.open(path) as picture:
            squares.append(np.asarray(ImageOps.fit(picture.convert("RGB"), (size, size))))
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2)

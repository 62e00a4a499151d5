"""``gate-runner oven build``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate_runner.commands.oven.options import FileFormat, LeaveOut, encoder_name


def build(
    source: Annotated[Path, typer.Argument(help="Entities: Wiki6M jsonl, JSONL, CSV or WordNet nouns; .gz too.")],
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    file_format: FileFormat = None,
    leave_out: LeaveOut = None,
    tokenizer: Annotated[str, typer.Option(help="words or whitespace.")] = "words",
    typos: Annotated[bool, typer.Option("--typos", help="Also index misspelt names, for `link --typos`.")] = False,
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
        typos=typos,
        overwrite=overwrite,
        progress=lambda count: typer.echo(f"{count:,} entities", err=True),
    )
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in linker.kb.meta["left_out"].items() if count)
    typer.echo(f"{linker.kb.entity_count:,} entities in {output}" + (f"; left out: {left_out}" if left_out else ""))
    if encoder is not None:
        from gate_runner.encoders import load_encoder
        from oven_retrieval.encoding import add_vectors

        model = load_encoder(encoder, device=device)
        add_vectors(
            linker,
            output,
            model,
            encoder_name=encoder_name(model),
            template=template,
            memory_mb=memory,
            recall=recall,
            overwrite=overwrite,
            say=typer.echo,
        )

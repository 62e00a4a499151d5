"""``oven export`` and ``oven shard``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.progress_line import ProgressLine
from oven_retrieval.commands.terminal import echo


def export(
    target: Annotated[
        str, typer.Argument(help="A server's address, a folder (Qdrant), or a path that ends in .db (Milvus).")
    ],
    kb: Folder,
    to: Annotated[str, typer.Option(help="qdrant or milvus.")],
    collection: Annotated[str, typer.Option(help="Name of the collection.")] = "entities",
    batch_size: Annotated[int, typer.Option(min=1, help="Entities per write.")] = 1000,
    check: Annotated[int, typer.Option(min=0, help="Stored vectors to ask for, against our exact search.")] = 20,
) -> None:
    """Write entities and their vectors into a vector database; the same command continues after a kill."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.export import ExportError, check_export, export_kb, open_collection
    from oven_retrieval.vectors import VectorStore

    entities = KnowledgeBase(kb / "kb")
    if not (kb / "vectors").is_dir():
        raise ValueError(f"export: {kb} holds no vectors; expected a project of `build --encoder`")
    vectors = VectorStore(kb / "vectors", kb=entities.hash)
    try:
        opened = open_collection(to, target, collection)
        try:
            done = export_kb(
                entities, vectors, opened, batch=batch_size,
                progress=ProgressLine(),
            )  # fmt: skip
            echo(f"{done.total:,} entities in {collection} of {target}, {done.written:,} of them written now")
            if check:
                share = check_export(entities, vectors, opened, queries=check)
                echo(f"{share:.1%} of the 10 exact nearest of {min(check, done.total)} entities are found there")
        finally:
            opened.close()
    except (ExportError, ImportError) as error:
        raise ValueError(f"export: {error}") from None


def shard(
    kb: Folder,
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    shards: Annotated[int, typer.Option(min=1, help="How many.")],
    tokenizer: Annotated[str, typer.Option(help="words or whitespace.")] = "words",
    recall: Annotated[float, typer.Option(help="Of each shard's vector index; 1 for exact search.")] = 1.0,
) -> None:
    """Cut a project into shards by id, for `search --shards`; continues after a kill."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.shards import ShardError, build_shards
    from oven_retrieval.vectors import VectorStore

    entities = KnowledgeBase(kb / "kb")
    vectors = VectorStore(kb / "vectors", kb=entities.hash) if (kb / "vectors").is_dir() else None
    try:
        layout = build_shards(entities, output, shards, tokenizer=tokenizer, vectors=vectors, recall=recall, say=echo)
    except ShardError as error:
        raise ValueError(f"shard: {error}") from None
    echo(f"{len(layout)} shards in {output}")

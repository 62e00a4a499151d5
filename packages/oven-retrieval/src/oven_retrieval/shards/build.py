"""A knowledge base is cut into shards by id: runs of rows, each a project folder of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oven_retrieval.building import build_kb
from oven_retrieval.folder import MANIFEST
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.locking import locks
from oven_retrieval.names.impacts import K1, B, merge_statistics
from oven_retrieval.names.index import build_name_index
from oven_retrieval.progress import Say
from oven_retrieval.shards.layout import ShardError, ShardLayout, shard_firsts
from oven_retrieval.shards.names import name_statistics
from oven_retrieval.vectors import VectorStore, build_index, build_vectors


@locks("path")
def build_shards(
    kb: KnowledgeBase,
    path: str | Path,
    shards: int,
    *,
    tokenizer: str = "words",
    k1: float = K1,
    b: float = B,
    vectors: VectorStore | None = None,
    recall: float = 1.0,
    say: Say | None = None,
) -> ShardLayout:
    """Cut a knowledge base, its names and its vectors into shards; the same call after a kill continues.

    Each shard is a project folder that can be copied to the machine that will serve it. BM25 takes its statistics
    (number of names, mean length, document frequencies) from all shards together, so that scores and order are those
    of one index over everything.

    Args:
        kb: the knowledge base, without empty rows (`compact` it first).
        path: the new folder.
        shards: how many, at most the number of entities.
        tokenizer: one of `TOKENIZERS`: `words`, `bigrams`, `icu` or `whitespace`.
        k1: at least 0.
        b: 0 to 1.
        vectors: of the knowledge base; None for names alone.
        recall: of each shard's vector index; 1 for exact search, which equals an unsharded exact search.
        say: called with one line per step.

    Raises:
        ValueError: empty rows, or more shards than entities.
        ShardError: shards of something else are there.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity
        >>> folder = Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Duck"), Entity("Q2", "Goose")], folder / "kb")
        >>> build_shards(kb, folder / "shards", 2).firsts
        (0, 1, 2)
    """
    talk = say or (lambda line: None)
    if kb.entity_count != len(kb):
        raise ValueError(f"{kb.path}: {len(kb) - kb.entity_count} rows are empty; expected none (compact it first)")
    if vectors is not None and len(vectors) != len(kb):
        raise ValueError(f"vectors: expected {len(kb)}, one per entity, got {len(vectors)}")
    firsts = shard_firsts(len(kb), shards)
    encoder = None if vectors is None else str(vectors.meta["encoder"])
    plan = ShardLayout(Path(path), kb.hash, firsts, (), encoder)
    plan.path.mkdir(parents=True, exist_ok=True)
    _claim(plan, f"{kb.hash} {shards} {tokenizer} {k1} {b} {recall} {encoder}")
    parts = []
    for shard in range(shards):
        folder = plan.folder(shard) / "kb"
        if not (folder / MANIFEST).is_file():
            part = build_kb((kb[row] for row in range(firsts[shard], firsts[shard + 1])), folder)
            talk(f"shard {shard + 1} of {shards}: {len(part):,} entities")
        parts.append(KnowledgeBase(folder))
    if not all((plan.folder(shard) / "names" / MANIFEST).is_file() for shard in range(shards)):
        statistics = merge_statistics([name_statistics(part, tokenizer) for part in parts])
        talk(f"{statistics.documents:,} names, {len(statistics.token_hash):,} tokens in all")
        for shard, part in enumerate(parts):
            build_name_index(
                part, plan.folder(shard) / "names", tokenizer=tokenizer, k1=k1, b=b, inflections=False, ngrams=False,
                overwrite=True, statistics=statistics,
            )  # fmt: skip
            talk(f"shard {shard + 1} of {shards}: names indexed")
    if vectors is not None:
        for shard, part in enumerate(parts):
            _write_vectors(plan, shard, part, vectors, recall)
            talk(f"shard {shard + 1} of {shards}: vectors indexed")
    layout = replace(plan, hashes=tuple(part.hash for part in parts))
    layout.write()
    (plan.path / "build.txt").unlink(missing_ok=True)
    return layout


def _claim(plan: ShardLayout, identity: str) -> None:
    """Leave a note of what is being built, and refuse a folder with another one."""
    note = plan.path / "build.txt"
    entries = {entry.name for entry in plan.path.iterdir()}
    if entries and (not note.is_file() or note.read_text(encoding="utf-8") != identity):
        raise ShardError(f"{plan.path}: holds {sorted(entries)[:3]}; expected a new folder, or the same build's")
    note.write_text(identity, encoding="utf-8")


def _write_vectors(plan: ShardLayout, shard: int, part: KnowledgeBase, vectors: VectorStore, recall: float) -> None:
    folder, first = plan.folder(shard), plan.firsts[shard]
    if not (folder / "vectors" / MANIFEST).is_file():
        build_vectors(
            lambda a, b: vectors.rows(first + a, first + b),
            len(part),
            folder / "vectors",
            kb=part.hash,
            encoder=str(vectors.meta["encoder"]),
            dtype=vectors.array.dtype,
            chunk=65536,
        )
    if not (folder / "index" / MANIFEST).is_file():
        build_index(VectorStore(folder / "vectors", kb=part.hash), folder / "index", recall=recall)

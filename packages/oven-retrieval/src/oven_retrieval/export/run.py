"""A knowledge base and its vectors into a collection, in batches; an export that was killed goes on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.export.target import Collection, ExportError, Record
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.progress import Progress
from oven_retrieval.vectors import VectorStore, exact_search, recall_at

TARGETS = ("qdrant", "milvus")


class Exported(NamedTuple):
    """What an export found and did: `total` vectors are there now, `written` of them by this call.

    Example:
        >>> Exported(total=10, written=4).written
        4
    """

    total: int
    written: int


def open_collection(kind: str, target: str, name: str) -> Collection:
    """Connect to a collection.

    Args:
        kind: `qdrant` or `milvus`.
        target: a server's address, a folder (Qdrant), or a path that ends in `.db` (Milvus).
        name: of the collection.

    Raises:
        ValueError: another kind.
        ImportError: the extra that is missing.
        ExportError: a target that cannot be.

    Example:
        >>> try:
        ...     open_collection("sqlite", "here.db", "entities")
        ... except ValueError as error:
        ...     print(error)
        to: expected one of ['qdrant', 'milvus'], got 'sqlite'
    """
    if kind == "qdrant":
        from oven_retrieval.export.qdrant import QdrantCollection

        return QdrantCollection(target, name)
    if kind == "milvus":
        from oven_retrieval.export.milvus import MilvusCollection

        return MilvusCollection(target, name)
    raise ValueError(f"to: expected one of {list(TARGETS)}, got {kind!r}")


def export_kb(
    kb: KnowledgeBase,
    vectors: VectorStore,
    collection: Collection,
    *,
    batch: int = 1000,
    progress: Progress | None = None,
) -> Exported:
    """Write entities with their vectors; the same call after a kill continues where it stopped.

    Ids, names, descriptions and categories go along. The entity's row is the key: `kb.ids[row]` is its id.

    Args:
        kb: the knowledge base; removed entities are left out.
        vectors: of its rows.
        collection: where to; made where it is not there.
        batch: entities per write; each counts as a whole.
        progress: called with the phase, how many entities are there, and how many there shall be.

    Returns:
        How many are there, and how many this call wrote.

    Raises:
        ValueError: vectors that do not belong to the entities.
        ExportError: the collection holds something else, or in the end another number of vectors than entities.

    Example:
        >>> import numpy as np
        >>> class InMemory:
        ...     name, errors, held = "entities", (), {}
        ...     def prepare(self, dim): ...
        ...     def count(self): return len(self.held)
        ...     def source(self, row): return self.held[row][0].source if row in self.held else None
        ...     def write(self, records, vectors): self.held.update({r.row: (r, v) for r, v in zip(records, vectors)})
        ...     def finish(self): ...
        ...     def search(self, queries, k):
        ...         return exact_search(queries, ArrayRows([v for _, v in self.held.values()]), k)
        ...     def close(self): ...
        >>> import tempfile
        >>> from pathlib import Path
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval.vectors import ArrayRows, build_vectors, exact_search
        >>> folder = Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Duck"), Entity("Q2", "Goose")], folder / "kb")
        >>> store = build_vectors(lambda a, b: np.eye(2)[a:b], 2, folder / "vectors", kb=kb.hash, encoder="one-hot")
        >>> export_kb(kb, store, InMemory())
        Exported(total=2, written=2)
    """
    if batch < 1:
        raise ValueError(f"batch: expected at least 1, got {batch}")
    if vectors.meta["kb"] != kb.hash:
        raise ValueError(
            f"{vectors.path}: of the entities {vectors.meta['kb'][:12]}…, expected those of {kb.path}, {kb.hash[:12]}…"
        )
    live = kb.live_rows()
    if not len(live):
        raise ValueError(f"{kb.path}: expected at least one entity, got none")
    try:
        return _write_all(kb, live, vectors, collection, batch, progress)
    except collection.errors as error:
        line = " ".join(str(error).split())[:300]
        raise ExportError(f"{collection.name}: {line or type(error).__name__}; the same call continues") from error


def _write_all(
    kb: KnowledgeBase,
    live: npt.NDArray[np.int64],
    vectors: VectorStore,
    collection: Collection,
    batch: int,
    progress: Progress | None,
) -> Exported:
    source = f"{kb.hash[:16]} {vectors.hash[:16]}"
    collection.prepare(vectors.dim)
    stored = collection.count()
    if stored:
        stored_source = collection.source(int(live[0]))
        if stored_source != source:
            raise ExportError(
                f"{collection.name}: holds {stored:,} vectors of {stored_source or 'something else'}, expected of "
                f"{source} (knowledge base and vectors); export into another collection"
            )
        if stored > len(live):
            raise ExportError(f"{collection.name}: holds {stored:,} vectors, expected at most {len(live):,}")
    done = stored - stored % batch if stored < len(live) else stored
    written = 0
    while done < len(live):
        rows = live[done : done + batch]
        records = [
            Record(row, entity.id, entity.name, entity.description, entity.category, source)
            for row, entity in ((row, kb[row]) for row in rows.tolist())
        ]
        collection.write(records, np.asarray(vectors.array[rows], dtype=np.float32))
        done += len(rows)
        written += len(rows)
        if progress is not None:
            progress("entities", done, len(live))
    collection.finish()
    count = collection.count()
    if count != len(live):
        raise ExportError(f"{collection.name}: holds {count:,} vectors after the export, expected {len(live):,}")
    return Exported(count, written)


def check_export(
    kb: KnowledgeBase, vectors: VectorStore, collection: Collection, *, queries: int = 20, k: int = 10, seed: int = 0
) -> float:
    """Share of our exact k nearest that the collection finds too, for stored vectors as queries.

    1 where the collection searches exactly; equal scores at the end of the list may differ.

    Example:
        >>> import numpy as np
        >>> class InMemory:
        ...     name, errors, held = "entities", (), {}
        ...     def prepare(self, dim): ...
        ...     def count(self): return len(self.held)
        ...     def source(self, row): return self.held[row][0].source if row in self.held else None
        ...     def write(self, records, vectors): self.held.update({r.row: (r, v) for r, v in zip(records, vectors)})
        ...     def finish(self): ...
        ...     def search(self, queries, k):
        ...         return exact_search(queries, ArrayRows([v for _, v in self.held.values()]), k)
        ...     def close(self): ...
        >>> import tempfile
        >>> from pathlib import Path
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval.vectors import ArrayRows, build_vectors, exact_search
        >>> folder = Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Duck"), Entity("Q2", "Goose")], folder / "kb")
        >>> store = build_vectors(lambda a, b: np.eye(2)[a:b], 2, folder / "vectors", kb=kb.hash, encoder="one-hot")
        >>> target = InMemory()
        >>> _ = export_kb(kb, store, target)
        >>> check_export(kb, store, target, k=1)
        1.0
    """
    live = kb.live_rows()
    k = min(k, len(live))
    chosen = np.sort(np.random.default_rng(seed).choice(live, min(queries, len(live)), replace=False))
    query_vectors = np.asarray(vectors.array[chosen], dtype=np.float32)
    neighbours = collection.search(query_vectors, k)
    # Removed rows may be among the nearest of all rows: as many more are asked for, then left out.
    exact = exact_search(query_vectors, vectors, k + len(vectors) - len(live))
    removed = kb.removed
    exact_rows = np.stack([rows[~removed[rows]][:k] for rows in exact.rows])
    return recall_at(neighbours.rows, exact_rows, k)

"""Shards are asked at once, and their answers merged exactly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.ranking import Ranking, check_k
from oven_retrieval.shards.layout import ShardError, ShardLayout
from oven_retrieval.shards.names import ShardLinks, ShardNames, merge_links
from oven_retrieval.vectors import VectorIndex, VectorStore, merge, open_index

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64


class ShardWorker:
    """One shard, opened where it lies."""

    def __init__(self, folder: str, kb: str, first: int, encoder: str | None) -> None:
        try:
            self._kb = KnowledgeBase(Path(folder) / "kb")
        except ValueError as error:
            raise ShardError(f"{folder}: {error}") from None
        if self._kb.hash != kb:
            raise ShardError(f"{folder}: holds the entities {self._kb.hash[:12]}…, expected {kb[:12]}…")
        self._first = first
        self._names = ShardNames(Path(folder), self._kb, first)
        self._index: VectorIndex | None = None
        if encoder is not None:
            self._index = open_index(
                Path(folder) / "index", VectorStore(Path(folder) / "vectors", kb=kb, encoder=encoder), verify=False
            )

    def link(self, names: Sequence[str], k: int, exact_first: bool) -> ShardLinks:
        """This shard's answers to names."""
        return self._names.link(names, k, exact_first=exact_first)

    def nearest(self, queries: Float32[np.ndarray, "q d"], k: int) -> Ranking:
        """This shard's answers to vectors, with the rows of the whole."""
        if self._index is None:
            raise ShardError("vectors: expected shards that were built with vectors; these hold names alone")
        neighbours = self._index.search(queries, k)
        return Ranking(np.where(neighbours.rows < 0, -1, neighbours.rows + self._first), neighbours.scores)

    def process_id(self) -> int:
        """Of the process that serves this shard."""
        return os.getpid()

    def records(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Id and name of some rows of the whole."""
        return [(self._kb.ids[row - self._first], self._kb.names[row - self._first]) for row in rows]


class Workers(Protocol):
    """Something that asks every shard.

    Example:
        >>> from oven_retrieval.shards.search import LocalWorkers
        >>> all(hasattr(LocalWorkers, name) for name in ("ask", "ask_one", "close"))
        True
    """

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every `ShardWorker`; answers in the order of the shards."""
        ...

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one."""
        ...

    def close(self) -> None:
        """Give back what was taken."""
        ...


class LocalWorkers:
    """All shards in this process, one after another."""

    def __init__(self, layout: ShardLayout) -> None:
        self._workers = [ShardWorker(*arguments) for arguments in worker_arguments(layout)]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker."""
        return [getattr(worker, method)(*arguments) for worker in self._workers]

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one."""
        return getattr(self._workers[shard], method)(*arguments)

    def close(self) -> None:
        """Nothing was taken."""


def worker_arguments(layout: ShardLayout) -> list[tuple[str, str, int, str | None]]:
    """What each `ShardWorker` is made from."""
    return [
        (str(layout.folder(shard)), layout.hashes[shard], layout.firsts[shard], layout.encoder)
        for shard in range(len(layout))
    ]


class ShardedSearch:
    """Names and vectors to entities over all shards.

    Args:
        layout: of `build_shards`, or its folder.
        workers: who asks the shards; None for this process. `RayWorkers` asks them on a cluster.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity, build_kb
        >>> from oven_retrieval.shards import build_shards
        >>> folder = Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood Wood"), Entity("Q2", "WOOD"), Entity("Q3", "Wood")], folder / "kb")
        >>> search = ShardedSearch(build_shards(kb, folder / "shards", 3))
        >>> search.link(["wood"], k=3).rows.tolist()
        [[2, 1, 0]]
    """

    def __init__(self, layout: ShardLayout | str | Path, workers: Workers | None = None) -> None:
        self.layout = layout if isinstance(layout, ShardLayout) else ShardLayout.read(layout)
        self._workers: Workers = workers if workers is not None else LocalWorkers(self.layout)

    def link(self, names: Sequence[str], k: int = 1, *, exact_first: bool = True) -> Ranking:
        """The k best entities for each name: rows, steps, scores and order are those of one `NameLinker` over all."""
        if isinstance(names, str):
            raise TypeError(f"names: expected a list of texts, got one text {names[:40]!r}")
        return merge_links(self._workers.ask("link", list(names), check_k(k), exact_first), k)

    def search(self, queries: npt.ArrayLike, k: int = 1) -> Ranking:
        """The k rows with the greatest inner product; of equal scores the earlier row.

        Exact where the shards are searched exactly. Else an answer is missed where its own shard misses it.
        """
        query_vectors = np.asarray(queries, dtype=np.float32)
        shard_neighbours: list[Ranking] = self._workers.ask("nearest", query_vectors, check_k(k))
        return reduce(lambda merged, neighbours: merge(merged, neighbours, k), shard_neighbours)

    def records(self, rows: Int64[np.ndarray, "q k"]) -> dict[int, tuple[str, str]]:
        """Id and name of rows of the whole; -1 is passed over."""
        unique_rows = np.unique(rows[rows >= 0])
        shards = np.searchsorted(self.layout.firsts, unique_rows, side="right") - 1
        records: dict[int, tuple[str, str]] = {}
        for shard in np.unique(shards).tolist():
            shard_rows = unique_rows[shards == shard].tolist()
            records.update(zip(shard_rows, self._workers.ask_one(shard, "records", shard_rows), strict=True))
        return records

    def close(self) -> None:
        """Give the workers back."""
        self._workers.close()

"""Exact search by inner product, in chunks, through the matrix product also for small batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import faiss
import numpy as np
import numpy.typing as npt

from oven_retrieval.ranking import Ranking, check_k, joined
from oven_retrieval.vectors.store import Float32, check_vectors

if TYPE_CHECKING:
    from jaxtyping import Int64

BLAS_QUERIES = 5
_CHUNK_BYTES = 64 << 20
_CACHED_BYTES = 4 << 20
_SPARE = 8
_UNIT = float(np.finfo(np.float32).eps)
_blas_guard = threading.Lock()
_blas_users = 0
_blas_before = 0


class Rows(Protocol):
    """Anything that gives rows of vectors as float32, such as `VectorStore`."""

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        ...

    def __len__(self) -> int: ...

    def rows(self, first: int, last: int) -> Float32:
        """Rows first..last-1."""
        ...


class ArrayRows:
    """An array in memory as `Rows`.

    Example:
        >>> rows = ArrayRows([[1.0, 0.0], [0.0, 1.0]])
        >>> len(rows), rows.dim, rows.rows(1, 2).tolist()
        (2, 2, [[0.0, 1.0]])
    """

    def __init__(self, array: npt.ArrayLike) -> None:
        self._array = check_vectors(array, None, "vectors")

    def __len__(self) -> int:
        return len(self._array)

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self._array.shape[1])

    @cached_property
    def greatest_norm(self) -> float:
        """Length of the longest vector."""
        return _greatest_norm(self._array)

    def rows(self, first: int, last: int) -> Float32:
        """Rows first..last-1."""
        return self._array[first:last]


@contextmanager
def blas_from(threshold: int) -> Iterator[None]:
    """Let FAISS use the matrix product from queries x dimension >= threshold on; the old value comes back afterwards.

    Numerics: a setting of the whole process; searches in other threads see it meanwhile, and differ in the last bits
    only. Where several threads are in here, the first one keeps the old value and the last one gives it back.
    """
    global _blas_before, _blas_users
    with _blas_guard:
        if not _blas_users:
            _blas_before = faiss.cvar.distance_compute_blas_threshold
        _blas_users += 1
        faiss.cvar.distance_compute_blas_threshold = threshold
    try:
        yield
    finally:
        with _blas_guard:
            _blas_users -= 1
            if not _blas_users:
                faiss.cvar.distance_compute_blas_threshold = _blas_before


def exact_search(queries: npt.ArrayLike, vectors: Rows, k: int, *, chunk: int | None = None) -> Ranking:
    """The k rows with the greatest inner product, every row compared.

    Args:
        queries: [q, d], finite.
        vectors: the rows, in memory or on disk.
        k: how many, at least 1; places beyond the number of rows are -1.
        chunk: rows that are compared at a time; by default all of an array in memory, else 64 MB of float32, and 4 MB
            for two to four queries.

    Returns:
        Rows and scores; equal scores by row, whatever else is searched with them.

    Raises:
        ValueError: another width than the vectors', NaN or infinity with its row, k below 1.

    Numerics:
        float32 products find the rows, float64 sums of them rounded to float32 are the scores: they depend on the two
        vectors alone, not on the chunk, the batch or the processor. FAISS
        takes the matrix product only from queries x dimension >= 128,000 by default; here from five queries on, which
        is what makes small batches fast. Fewer are compared row by row, two to four of them in pieces that stay in the
        processor's cache.

    Example:
        >>> exact_search(np.array([[1.0, 0.0]]), ArrayRows(np.array([[0.0, 1.0], [2.0, 0.0]])), k=3).rows.tolist()
        [[1, 0, -1]]
    """
    matrix = check_vectors(queries, vectors.dim, "queries")
    check_k(k)
    size = chunk if chunk is not None else _chunk_rows(vectors, len(matrix))
    best = Ranking.empty(len(matrix), k, dtype=np.float32)
    if not len(matrix):
        return best
    with blas_from(BLAS_QUERIES * vectors.dim):
        for first in range(0, len(vectors), size):
            block = np.ascontiguousarray(vectors.rows(first, min(first + size, len(vectors))))
            norm = vectors.greatest_norm if isinstance(vectors, ArrayRows) else _greatest_norm(block)
            candidates = _best_of_block(matrix, block, min(k, len(block)), norm)
            best = merge(best, Ranking(candidates.rows + first, candidates.scores), k)
    return best


def _greatest_norm(block: Float32) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", block, block).max(initial=0)))


def _best_of_block(queries: Float32, block: Float32, k: int, norm: float) -> Ranking:
    """The k best rows of a block by scores that depend on the two vectors alone, equal ones by row.

    A product's float32 sums differ in their last bits by its shape, so that equal vectors may come in any order, or be
    cut off at the k-th place. So a few rows more are taken, and the score of each is summed anew in float64; where the
    last one taken is not below the k-th by more than a float32 sum can be wrong, twice as many are taken.
    """
    rows, scores = Ranking.empty(len(queries), k, dtype=np.float32)
    bound = 2 * queries.shape[1] * _UNIT * np.linalg.norm(queries.astype(np.float64), axis=1) * norm
    open_queries, candidate_count = np.arange(len(queries)), min(k + _SPARE, len(block))
    while len(open_queries):
        rough, candidates = faiss.knn(queries[open_queries], block, candidate_count, metric=faiss.METRIC_INNER_PRODUCT)
        exact = np.empty(rough.shape, np.float32)
        step = max(1, _CHUNK_BYTES // (8 * candidate_count * queries.shape[1]))
        for begin in range(0, len(open_queries), step):
            batch = slice(begin, begin + step)
            pairs = block[candidates[batch]].astype(np.float64)
            exact[batch] = np.einsum("qkd,qd->qk", pairs, queries[open_queries[batch]].astype(np.float64))
        order = np.lexsort((candidates, -exact), axis=1)[:, :k]
        rows[open_queries] = np.take_along_axis(candidates, order, 1)
        scores[open_queries] = np.take_along_axis(exact, order, 1)
        if candidate_count == len(block):
            break
        open_queries = open_queries[rough[:, -1] >= scores[open_queries, -1] - bound[open_queries]]
        candidate_count = min(2 * candidate_count, len(block))
    return Ranking(rows, scores)


def _chunk_rows(vectors: Rows, queries: int) -> int:
    if 1 < queries < BLAS_QUERIES:
        return max(1, _CACHED_BYTES // (4 * vectors.dim))
    if isinstance(vectors, ArrayRows):
        return max(1, len(vectors))
    return max(1, _CHUNK_BYTES // (4 * vectors.dim))


def merge(left: Ranking, right: Ranking, k: int) -> Ranking:
    """The k best of two lists per query, exactly; equal scores by row."""
    both = joined([left, right], axis=1)
    order = np.lexsort((np.where(both.rows < 0, np.iinfo(np.int64).max, both.rows), -both.scores), axis=1)[:, :k]
    return both.ordered(order)


def recall_at(found: Int64[np.ndarray, "q k"], exact: Int64[np.ndarray, "q K"], k: int) -> float:
    """Share of the k exact best that are among the k found, averaged over queries."""
    if k > min(found.shape[1], exact.shape[1]):
        raise ValueError(f"k: expected at most {min(found.shape[1], exact.shape[1])}, the number of results, got {k}")
    relevant = exact[:, :k]
    hit = (relevant[:, :, None] == found[:, None, :k]).any(axis=2) & (relevant >= 0)
    return float(hit.sum() / max(1, (relevant >= 0).sum()))

"""Accuracy by popularity of the entity, and against the size of the knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.evaluation.intervals import Estimate, accuracy, truths
from oven_retrieval.ranking import check_k
from oven_retrieval.vectors import exact_search
from oven_retrieval.vectors.exact import Rows
from oven_retrieval.vectors.store import check_vectors
from paired_scores.metrics.arrays import as_array

POPULARITY_EDGES = (0.0, 100.0, 1000.0, 5000.0)
"""Monthly page views from which the bins of `accuracy_by_popularity` start."""


class Bin(NamedTuple):
    """Accuracy in percent of the questions whose entity lies in low <= popularity < high."""

    low: float
    high: float
    questions: int
    accuracy: Estimate


class SizePoint(NamedTuple):
    """Accuracy in percent among `size` entities, mean over draws of the distractors, with its range over them."""

    size: int
    accuracy: Estimate


def accuracy_by_popularity(
    correct: npt.ArrayLike,
    popularity: npt.ArrayLike,
    entities: Sequence[str] | None = None,
    edges: Sequence[float] = POPULARITY_EDGES,
) -> list[Bin]:
    """Head against tail: accuracy of the questions in bins of their entity's popularity.

    Args:
        correct: [n] whether each question was answered right.
        popularity: [n] of each question's entity, at least 0.
        entities: [n] id of each question's entity, whose questions do not count as independent; None if they do.
        edges: where bins start, rising from 0.

    Returns:
        The bins of `edges` that hold a question, the last one open, with Wilson intervals.

    Raises:
        ValueError: lengths that differ, a popularity below 0 or NaN, edges that do not rise from 0.

    Example:
        >>> bins = accuracy_by_popularity([1, 0, 1], [5, 50, 9000])
        >>> [(bin.low, bin.questions, round(bin.accuracy.value)) for bin in bins]
        [(0.0, 2, 50), (5000.0, 1, 100)]

    Source: OVEN figure 6 (average monthly page views in 2022).
    """
    right, views = truths(correct, "correct"), as_array(popularity, "popularity").astype(np.float64)
    if right.shape != views.shape or right.ndim != 1:
        raise ValueError(f"correct, popularity: expected one value per question, got {right.shape} and {views.shape}")
    entities = None if entities is None else list(entities)  # by place: a pandas series is indexed by its labels
    if entities is not None and len(entities) != len(views):
        raise ValueError(f"entities: expected one per question, {len(views)}, got {len(entities)}")
    if len(views) and not views.min() >= 0:
        raise ValueError(f"popularity: expected at least 0, got {views.min()}")
    edges = as_array(edges, "edges").astype(np.float64).ravel().tolist()
    if not edges or edges[0] != 0 or any(not low < high for low, high in pairwise(edges)):
        raise ValueError(f"edges: expected numbers that rise from 0, got {list(edges)}")
    bin_index = np.searchsorted(edges, views, side="right") - 1
    highs = [*edges[1:], float("inf")]
    return [
        Bin(
            float(low),
            float(high),
            int((bin_index == i).sum()),
            accuracy(right[bin_index == i], *_labels(entities, bin_index == i)),
        )
        for i, (low, high) in enumerate(zip(edges, highs, strict=True))
        if np.any(bin_index == i)
    ]


def _labels(entities: Sequence[str] | None, chosen: npt.NDArray[np.bool_]) -> list[list[str]]:
    """The groups of some questions, as `accuracy` takes them."""
    return [] if entities is None else [[entities[i] for i in np.flatnonzero(chosen).tolist()]]


def accuracy_by_size(
    queries: npt.ArrayLike,
    truth: npt.ArrayLike,
    vectors: Rows,
    sizes: Sequence[int],
    *,
    draws: int = 3,
    depth: int = 1000,
    seed: int = 0,
) -> list[SizePoint]:
    """Accuracy when only some of the entities may be answered: all right ones, and distractors drawn at random.

    One search of the whole knowledge base serves all sizes: with the places of better-scored distractors known, a
    question is right in a sample if none of those was drawn. Draws are nested: a greater sample holds the smaller.

    Args:
        queries: [q, d].
        truth: [q] row of each question's entity.
        vectors: the knowledge base's vectors.
        sizes: numbers of entities, from the number of different right ones to all.
        draws: independent orders of the distractors.
        depth: best entities per question that are looked at (see Numerics).
        seed: of the draws.

    Returns:
        One point per size; the interval is the least and greatest value over the draws.

    Raises:
        ValueError: a size or row out of range.

    Numerics:
        Exact for every question whose entity is among its `depth` best. For the others, a sample that holds none of
        the `depth` entities before it is counted as wrong, which can only lower the accuracy at small sizes; raise
        `depth` to the number of entities to be exact.

    Example:
        >>> from oven_retrieval.vectors import ArrayRows
        >>> vectors = np.eye(8, dtype=np.float32)
        >>> points = accuracy_by_size(vectors[:2] + 0.1 * vectors[2:4], [0, 1], ArrayRows(vectors), [2, 8])
        >>> [(point.size, point.accuracy.value) for point in points]
        [(2, 100.0), (8, 100.0)]

    Source: OVEN figure 5, which does not say how often the distractors were drawn.
    """
    right = np.asarray(truth, dtype=np.int64)
    total, depth = len(vectors), min(check_k(depth), len(vectors))
    query_vectors = check_vectors(queries, vectors.dim, "queries")
    if right.shape != (len(query_vectors),) or not len(right) or right.min() < 0 or right.max() >= total:
        raise ValueError(
            f"truth: expected {len(query_vectors)} rows from 0 to {total - 1}, got {right.shape} with {right}"
        )
    positives = np.unique(right)
    for size in sizes:
        if not len(positives) <= size <= total:
            raise ValueError(f"sizes: expected from {len(positives)} (the right entities) to {total}, got {size}")
    nearest = exact_search(query_vectors, vectors, depth).rows
    is_truth = nearest == right[:, None]
    reached = is_truth.any(axis=1)
    before = np.arange(depth) < np.where(reached, is_truth.argmax(axis=1), depth)[:, None]
    results: dict[int, list[float]] = {size: [] for size in sizes}
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        distractors = np.setdiff1d(np.arange(total), positives)
        entry = np.full(total, len(positives), dtype=np.int64)  # the size from which an entity is in the sample
        entry[rng.permutation(distractors)] = len(positives) + 1 + np.arange(len(distractors))
        first_rival = np.where(before, entry[nearest], total + 1).min(axis=1)
        for size in sizes:
            results[size].append(float(np.mean(reached & (first_rival > size))) * 100)
    return [
        SizePoint(size, Estimate(float(np.mean(values)), min(values), max(values))) for size, values in results.items()
    ]

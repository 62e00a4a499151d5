"""What features are worth without a probe: votes of the nearest neighbours, and retrieval.

Whoever searches brings the neighbours: a FAISS index, a database, or a matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from paired_scores.metrics.arrays import as_array, refuse_masked

CANDIDATES = (1, 3, 5, 10, 20, 50, 100, 200)
"""Numbers of neighbours among which validation chooses."""
_CELLS = 20_000_000
"""Similarities that are held at a time."""


class NeighbourChoice(NamedTuple):
    """The number of neighbours that was chosen, and the accuracy of each that was tried, by number."""

    k: int
    accuracies: dict[int, float]


class Ranked(NamedTuple):
    """How well each query's own are ranked; NaN for a query that has none in the gallery.

    `average_precision` [q]; `recall` [q, k] is 1 where one of the first so many is relevant; `chance_precision` and
    `chance_recall` [k] are the means that a random order of the gallery expects.
    """

    average_precision: Float[np.ndarray, " q"]
    recall: Float[np.ndarray, "q k"]
    chance_precision: float
    chance_recall: Float[np.ndarray, " k"]


def neighbour_votes(
    labels: npt.ArrayLike, similarities: npt.ArrayLike, classes: int, *, temperature: float = 0.07
) -> Float[np.ndarray, "n classes"]:
    r"""Scores of classes by votes of neighbours, each weighing $e^{s / \tau}$; each row sums to 1.

    Of each sample the classes of its neighbours and their similarities [n, k], the nearest first; -1 for one that is
    not there.

    Source: Wu et al., Unsupervised feature learning via non-parametric instance discrimination, 2018; DINO's k-NN.
    """
    named, near = as_array(labels, "labels"), as_array(similarities, "similarities").astype(np.float64)
    if named.shape != near.shape or named.ndim != 2 or named.shape[1] < 1:
        raise ValueError(f"labels have shape {named.shape}, similarities {near.shape}; expected the same [n, k]")
    if named.size and (named.min() < -1 or named.max() >= classes):
        raise ValueError(f"labels go from {named.min()} to {named.max()}, expected 0..{classes - 1}, or -1 for none")
    if named.dtype.kind not in "iu":
        raise ValueError(f"labels are {named.dtype}, expected integers: classes from 0, or -1 for none")
    wrong = ~np.isfinite(near) & (named >= 0)
    if wrong.any():
        row, place = np.argwhere(wrong)[0]
        raise ValueError(f"similarity {near[row, place]} of sample {row}, neighbour {place}: expected a finite number")
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, not {temperature}")
    named_rows = named >= 0
    present = np.where(named_rows, near, -np.inf)  # of no neighbours, all weigh 0
    best = np.max(present, axis=1, keepdims=True)
    weights = np.exp((present - np.where(np.isfinite(best), best, 0.0)) / temperature)
    votes = np.zeros((len(named), classes))
    np.add.at(votes, (np.arange(len(named))[:, None], named.clip(min=0)), weights)
    shares: Float[np.ndarray, "n classes"] = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-300)
    return shares


def choose_neighbours(
    labels: npt.ArrayLike,
    similarities: npt.ArrayLike,
    truth: npt.ArrayLike,
    classes: int,
) -> NeighbourChoice:
    """The number of neighbours by which most validation samples are right; the smallest of equal ones.

    Of each validation sample the classes of its neighbours among the training samples and their similarities [n, k].
    One without any neighbour is not right.
    """
    named, near, true = (
        as_array(given, name) for given, name in ((labels, "labels"), (similarities, "similarities"), (truth, "truth"))
    )
    tried = [k for k in CANDIDATES if 1 <= k <= named.shape[-1]]
    if not len(true) or not tried:
        raise ValueError(f"{len(true)} samples, {named.shape[-1]} neighbours: expected some of both")
    if named.ndim != 2 or true.shape != named.shape[:1]:
        raise ValueError(f"labels have shape {named.shape}, truth {true.shape}; expected [n, k] and [n]")
    accuracies: dict[int, float] = {}
    for k in tried:
        votes = neighbour_votes(named[:, :k], near[:, :k], classes)
        accuracies[k] = float(((votes.argmax(1) == true) & votes.any(axis=1)).mean())
    return NeighbourChoice(max(tried, key=lambda k: (accuracies[k], -k)), accuracies)


def rank_gallery(
    queries: npt.ArrayLike,
    gallery: npt.ArrayLike,
    query_labels: npt.ArrayLike,
    gallery_labels: npt.ArrayLike,
    *,
    ks: Sequence[int] = (1, 5, 10),
    same: bool = False,
    seed: int = 0,
) -> Ranked:
    r"""Rank the whole gallery for each query by inner product, and see where the query's own label stands.

    $AP = \frac{1}{R} \sum_{r=1}^{R} \frac{r}{\text{rank of the r-th relevant}}$ over all R relevant; recall at k is 1
    where at least one of the first k is relevant, as in metric learning. With `same`, queries and gallery are the same
    images in the same order, and none is its own answer; equal similarities are ranked at random.

    Source: Philbin et al., 2007 (mean average precision of retrieval); Oh Song et al., 2016 (recall at k).
    """
    query_rows, held = (
        as_array(given, name).astype(np.float32) for given, name in ((queries, "queries"), (gallery, "gallery"))
    )
    refuse_masked(query_labels, "query_labels")
    refuse_masked(gallery_labels, "gallery_labels")
    own, theirs = np.asarray(query_labels), np.asarray(gallery_labels)
    if query_rows.ndim != 2 or held.ndim != 2 or query_rows.shape[1] != held.shape[1]:
        raise ValueError(f"queries have shape {query_rows.shape}, the gallery {held.shape}; expected [q, d] and [n, d]")
    if len(own) != len(query_rows) or len(theirs) != len(held) or (same and len(query_rows) != len(held)):
        raise ValueError(
            f"{len(query_rows)} queries with {len(own)} labels, a gallery of {len(held)} with {len(theirs)}"
        )
    if not len(held) or min(ks, default=1) < 1:
        raise ValueError(f"ks {list(ks)}, a gallery of {len(held)}: expected places of at least 1 and some images")
    for rows, name in ((query_rows, "query"), (held, "gallery")):
        if not np.isfinite(rows).all():
            row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"{name} row {row} holds NaN or infinity, which has no rank")
    order = np.random.default_rng(seed).permutation(len(held))  # equal similarities must not keep the classes' order
    shuffled, labels = held[order], theirs[order]
    precision, recall = np.full(len(query_rows), np.nan), np.full((len(query_rows), len(ks)), np.nan)
    counts = np.zeros(len(query_rows), np.int64)
    step = max(1, _CELLS // max(1, len(held)))
    for first in range(0, len(query_rows), step):
        block = slice(first, min(first + step, len(query_rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            similar = query_rows[block] @ shuffled.T
        if not np.isfinite(similar).all():
            row = first + int(np.flatnonzero(~np.isfinite(similar).all(axis=1))[0])
            raise ValueError(f"query row {row}: an inner product is beyond float32; scale the rows to unit length")
        relevant = own[block, None] == labels
        if same:
            itself = order == np.arange(first, block.stop)[:, None]
            similar[itself], relevant = -np.inf, relevant & ~itself
        ranked = np.take_along_axis(relevant, np.argsort(-similar, axis=1, kind="stable"), axis=1)
        counts[block] = relevant.sum(axis=1)
        hits = np.cumsum(ranked, axis=1)
        parts = np.where(ranked, hits / np.arange(1, len(held) + 1), 0.0).sum(axis=1)
        has_any = counts[block] > 0
        precision[block][has_any] = parts[has_any] / counts[block][has_any]
        for column, k in enumerate(ks):
            recall[block, column][has_any] = hits[has_any, min(k, len(held)) - 1] > 0
    if not counts.any():
        raise ValueError(f"none of {len(query_rows)} queries has an image of its own in the gallery of {len(held)}")
    size = len(held) - same
    expected = [_random_order(int(count), size, ks) for count in np.unique(counts[counts > 0])]
    weights = np.unique(counts[counts > 0], return_counts=True)[1]
    chance = np.average(np.array(expected), axis=0, weights=weights)
    return Ranked(precision, recall, float(chance[0]), chance[1:])


def _random_order(relevant: int, size: int, ks: Sequence[int]) -> list[float]:
    """Average precision and recalls that a random order of ``size`` images expects."""
    places = np.arange(1, size + 1)
    share = (relevant - 1) / (size - 1) if size > 1 else 0.0
    precision = float((((places - 1) * share + 1) / places).mean())
    missed = np.cumprod(np.clip((size - relevant - places + 1) / (size - places + 1), 0, 1))
    return [precision, *(1 - float(missed[min(k, size) - 1]) for k in ks)]

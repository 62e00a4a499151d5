"""How much probabilities can be believed: log-loss, the calibration error, and the bins of a reliability diagram."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paired_scores.metrics.arrays import Array, Floats, as_array, class_labels, refuse_nan, score_columns

BINS = 15
"""Bins of equal mass, at most; fewer samples make as many bins as they are."""
LEAST = 1e-15
"""The probability below which a log-loss counts no more, as float64 adds it to 1."""


class Bin(NamedTuple):
    """Samples of neighbouring confidences: how sure on average, how often right (Wilson's interval), and how many."""

    confidence: float
    accuracy: float
    low: float
    high: float
    samples: int


def log_losses(predictions: Array, targets: Array) -> Floats:
    """Minus the logarithm of the true class's probability; for labels, the mean over them."""
    if predictions.ndim == 2 and targets.ndim == 1 and predictions.shape[1] > 1:
        labels = class_labels(targets, predictions.shape[1])
        own = _checked(predictions)[np.arange(len(labels)), labels]
        return np.asarray(-np.log(np.maximum(own, LEAST)))
    scores, truths = score_columns(_checked(predictions), targets)
    own = np.where(truths > 0, scores, 1 - scores)
    return np.asarray(-np.log(np.maximum(own, LEAST)).mean(1))


def uniform_log_loss(targets: Array, classes: int) -> float:
    """The log-loss of equal probabilities."""
    return float(np.log(classes)) if targets.ndim == 1 and classes > 1 else float(np.log(2))


def sure_and_right(predictions: Array, targets: Array) -> Floats:
    """Columns: the largest probability, and whether it is the true class's."""
    if targets.ndim != 1:
        raise ValueError(f"calibration_error takes one class per sample, got targets of shape {targets.shape}")
    scores = _checked(predictions)
    if scores.ndim == 1:
        scores = np.stack([1 - scores, scores], axis=1)
    labels = class_labels(targets, scores.shape[1])
    return np.stack([scores.max(1), (scores.argmax(1) == labels).astype(np.float64)], axis=1)


def binned_error(outcomes: Floats, weights: Floats) -> Floats:
    """The mean over samples of their bin's distance between confidence and accuracy."""
    order = np.argsort(outcomes[:, 0], kind="stable")
    confidence, right = outcomes[order].T
    starts = np.flatnonzero(np.append(True, np.diff(confidence) != 0))
    errors = np.empty(len(weights))
    for row, own in enumerate(weights):
        mass = own[order]
        tied, gap = np.add.reduceat(mass, starts), np.add.reduceat(mass * (right - confidence), starts)
        total = tied.sum()
        bins = min(BINS, len(outcomes))
        # samples of one confidence share a bin, that of their middle
        middle = (np.cumsum(tied) - tied / 2) / total if total > 0 else np.zeros(len(tied))
        numbers = np.minimum((bins * middle).astype(np.int64), bins - 1)
        errors[row] = np.abs(np.bincount(numbers, gap, minlength=bins)).sum() / total if total > 0 else np.nan
    return errors


def reliability(predictions: Any, targets: Any) -> list[Bin]:
    """Return the bins that a reliability diagram shows, of equal mass, the least sure first.

    Args:
        predictions: probabilities ``[n, k]``, or of the second of two classes ``[n]``.
        targets: classes ``[n]``.

    Raises:
        ValueError: what are no probabilities, or not as many.

    Example:
        >>> bins = reliability(np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]), [0, 0, 0])
        >>> [(row.confidence, row.accuracy) for row in bins]
        [(0.6, 0.0), (0.8, 1.0), (0.9, 1.0)]
    """
    predicted, true = as_array(predictions), as_array(targets)
    if len(predicted) != len(true) or len(true) == 0:
        raise ValueError(
            f"there are {len(predicted)} predictions and {len(true)} targets; expected as many, one at least"
        )
    refuse_nan("predictions", predicted)
    return bins_of(sure_and_right(predicted, true))


def bins_of(outcomes: Floats) -> list[Bin]:
    """Return the bins of samples' confidences and hits, as `sure_and_right` has them."""
    from paired_scores.metrics.score import wilson

    order = np.argsort(outcomes[:, 0], kind="stable")
    confidence, right = outcomes[order].T
    bins = min(BINS, len(outcomes))
    _, group, tied = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = (np.cumsum(tied) - tied / 2) / len(outcomes)
    numbers = np.minimum((bins * middle).astype(np.int64), bins - 1)[group]
    listed = []
    for number in np.unique(numbers):
        inside = numbers == number
        accuracy = float(right[inside].mean())
        low, high = wilson(accuracy, float(inside.sum()))
        listed.append(Bin(float(confidence[inside].mean()), accuracy, low, high, int(inside.sum())))
    return listed


def _checked(predictions: Array) -> Floats:
    scores = predictions.astype(np.float64)
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise ValueError(f"expected probabilities, got {scores[outside][0]}; apply a softmax or sigmoid first")
    return scores

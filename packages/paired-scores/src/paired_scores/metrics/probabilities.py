"""How much probabilities can be believed: log-loss and the calibration error."""

from __future__ import annotations

import numpy as np

from paired_scores.metrics.arrays import Array, Floats, class_labels, score_columns

BINS = 15
"""Bins of equal mass, at most; fewer samples make as many bins as they are."""
LEAST = 1e-15
"""The probability below which a log-loss counts no more, as float64 adds it to 1."""
_ROUNDING = 0.05


def log_losses(predictions: Array, targets: Array) -> Floats:
    """Minus the logarithm of the true class's probability; for labels, the mean over them."""
    if predictions.ndim == 2 and targets.ndim == 1 and predictions.shape[1] > 1:
        labels = class_labels(targets, predictions.shape[1])
        own = refuse_partial(_checked(predictions))[np.arange(len(labels)), labels]
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
    labels = class_labels(targets, refuse_partial(scores).shape[1])
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


def _checked(predictions: Array) -> Floats:
    scores = predictions.astype(np.float64)
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise ValueError(f"expected probabilities, got {scores[outside][0]}; apply a softmax or sigmoid first")
    return scores


def refuse_partial(scores: Floats) -> Floats:
    """Return probabilities of classes that exclude one another: each sample's sum to 1, but for rounding.

    Raises:
        ValueError: a sample whose probabilities have another sum; shows it.
    """
    sums = scores.sum(1)
    wrong = np.abs(sums - 1) > _ROUNDING
    if wrong.any():
        sample = int(wrong.argmax())
        raise ValueError(
            f"sample {sample}: the probabilities of its {scores.shape[1]} classes sum to {sums[sample]:.4g}, expected "
            "1; apply a softmax first, not a sigmoid"
        )
    return scores

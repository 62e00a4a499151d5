"""The bins of a reliability diagram."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paired_scores.metrics.arrays import Floats, as_array, refuse_nan
from paired_scores.metrics.probabilities import BINS, sure_and_right
from paired_scores.metrics.score import wilson


class Bin(NamedTuple):
    """Samples of neighbouring confidences: how sure on average, how often right (Wilson's interval), and how many.

    Example:
        >>> reliability([[0.75, 0.25]], [0])[0]._replace(low=0.2, high=1.0)
        Bin(confidence=0.75, accuracy=1.0, low=0.2, high=1.0, samples=1)
    """

    confidence: float
    accuracy: float
    low: float
    high: float
    samples: int


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

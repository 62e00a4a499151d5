"""The bins of a reliability diagram, and how much of a calibration error is chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paired_scores.metrics.arrays import Floats, as_array, refuse_nan, require_sampling
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
    return bins_of(_outcomes(predictions, targets))


class CalibrationError(NamedTuple):
    """A calibration error, and what right probabilities would have on as many samples.

    Args:
        value: the expected calibration error, as `evaluate("calibration_error", …)` has it.
        floor: its mean if each sample were right with the probability of its predicted class.
        floor_high: the 95 % quantile of that: a larger `value` is not chance.
        debiased: `value` less what the noise of the bins' accuracies adds to it; at least 0.

    Example:
        >>> CalibrationError(value=0.05, floor=0.04, floor_high=0.06, debiased=0.02).value
        0.05
    """

    value: float
    floor: float
    floor_high: float
    debiased: float


def calibration_error(predictions: Any, targets: Any, *, draws: int = 200, seed: int = 0) -> CalibrationError:
    r"""Return the expected calibration error with the floor that chance sets for it.

    In bins b of shares $w_b$ with accuracies $a_b$ and mean confidences $c_b$ the error is
    $\sum_b w_b |a_b - c_b|$, which is above 0 for right probabilities, too. The floor draws hits again with the
    probabilities of the predicted classes. The debiased error takes the expected growth by noise away, with
    $s_b^2 = a_b (1 - a_b) / n_b$: $\sum_b w_b (2 |g_b| - E|N(g_b, s_b^2)|)$, $g_b = a_b - c_b$. A bin without a miss,
    or without a hit, counts as with half of one. For right probabilities that takes some 40 % of the floor away, for
    errors well above the floor all of it. Where every bin errs on one side it takes away some .006 too much.

    Args:
        predictions: probabilities ``[n, k]``, or of the second of two classes ``[n]``.
        targets: classes ``[n]``.
        draws: of the floor, at least 1.
        seed: of the draws.

    Raises:
        ValueError: values that are not probabilities, a number of them that is not that of the targets, or no draw.

    Example:
        >>> p = np.tile([0.5, 0.5], (100, 1))
        >>> error = calibration_error(p, np.arange(100) % 2)
        >>> error.value, 0.03 < error.floor < 0.05, error.debiased
        (0.0, True, 0.0)

    Source:
        Kumar, Liang and Ma, Verified uncertainty calibration (2019), for the debiased error, there by draws; Bröcker
        and Smith (2007) for the floor (consistency resampling). Roelofs et al. (2022) compare such corrections.
    """
    from scipy.special import erf

    require_sampling(seed=seed, draws=(draws, 1))
    outcomes = _outcomes(predictions, targets)
    confidence, right = outcomes.T
    numbers = _bin_numbers(confidence)
    counts = np.bincount(numbers)
    gaps = np.bincount(numbers, right - confidence)
    rng = np.random.default_rng(seed)
    drawn = np.array([
        np.abs(np.bincount(numbers, (rng.random(len(confidence)) < confidence) - confidence)).sum()
        for _ in range(draws)
    ]) / len(confidence)  # fmt: skip
    full = counts > 0
    n, gap = counts[full], (gaps[full] / counts[full])
    share = np.bincount(numbers, right)[full].clip(0.5, np.maximum(n - 0.5, 0.5)) / n
    spread = np.sqrt(share * (1 - share) / n).clip(1e-12)
    noisy = spread * np.sqrt(2 / np.pi) * np.exp(-0.5 * (gap / spread) ** 2) + gap * erf(gap / spread / np.sqrt(2))
    value = float(np.abs(gaps).sum() / len(confidence))
    debiased = float((n * (2 * np.abs(gap) - noisy)).sum() / len(confidence))
    return CalibrationError(value, float(drawn.mean()), float(np.quantile(drawn, 0.95)), max(0.0, debiased))


def _outcomes(predictions: Any, targets: Any) -> Floats:
    """Confidences and hits of what can be scored."""
    predicted, true = as_array(predictions), as_array(targets)
    if len(predicted) != len(true) or len(true) == 0:
        raise ValueError(
            f"there are {len(predicted)} predictions and {len(true)} targets; expected as many, one at least"
        )
    refuse_nan("predictions", predicted)
    return sure_and_right(predicted, true)


def _bin_numbers(confidence: Floats) -> Any:
    """The bin of each sample: equal mass, samples of one confidence together."""
    bins = min(BINS, len(confidence))
    _, group, tied = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = (np.cumsum(tied) - tied / 2) / len(confidence)
    return np.minimum((bins * middle).astype(np.int64), bins - 1)[group]


def bins_of(outcomes: Floats) -> list[Bin]:
    """Return the bins of samples' confidences and hits, as `sure_and_right` has them."""
    order = np.argsort(outcomes[:, 0], kind="stable")
    confidence, right = outcomes[order].T
    numbers = _bin_numbers(confidence)
    listed = []
    for number in np.unique(numbers):
        inside = numbers == number
        accuracy = float(right[inside].mean())
        low, high = wilson(accuracy, float(inside.sum()))
        listed.append(Bin(float(confidence[inside].mean()), accuracy, low, high, int(inside.sum())))
    return listed

"""Intervals of samples that belong together: images of one camera, frames of one film."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from paired_scores.labels import check_several, cluster_labels
from paired_scores.metrics import wilson
from paired_scores.metrics.arrays import require_sampling
from paired_scores.metrics.score import resamples_of
from paired_scores.paired import (
    CELLS,
    Outcomes,
    Statistic,
    as_floats,
    is_mean,
    numbered,
    range_of,
    value_of,
    with_outcomes,
)

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["cluster_interval", "median_interval", "weighted_median"]


def cluster_interval(
    metric: str,
    outcomes: Outcomes,
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
    statistic: Statistic | None = None,
    within: tuple[float, float] | None = None,
) -> tuple[float, float, float]:
    r"""Return a metric with an interval that draws whole clusters.

    With G clusters and $s$ the standard deviation of the metric over resamples of clusters, the interval is
    $v \pm t_{G-1} s \sqrt{G / (G - 1)}$. Of shares of right samples the same is done to the log-odds, so that it stays
    in 0 to 1; a share of 0 or 1 has Wilson's interval of G trials. No end is outside the metric's range.

    Args:
        metric: a name of `paired_scores.metrics`, or of a metric that is the mean of one number per sample.
        outcomes: of each sample, along the first axis; samples that are NaN do not count in a mean.
        clusters: a label for each sample, such as its camera.
        seed: of the resamples.
        resamples: at least 2.
        level: of the interval, in (0, 1).
        statistic: outcomes and weights ``[r, n]`` to values ``[r]``, in place of the metric's own.
        within: the least and the largest value that the metric can have; by default those of a name of
            `paired_scores.metrics`, and no limits for another name or a statistic of one's own.

    Raises:
        ValueError: not a label for each sample, a label that is missing, fewer than 2 clusters, an infinite outcome,
            a level outside (0, 1), or fewer than 2 resamples.

    Example:
        >>> right = np.repeat([1.0, 0.0, 1.0, 1.0], 50)  # four cameras that are right on all images, or on none
        >>> [round(float(value), 2) for value in cluster_interval("acc@1", right, np.repeat([1, 2, 3, 4], 50))]
        [0.75, 0.04, 1.0]

    Source:
        Cameron, Gelbach and Miller, Review of Economics and Statistics 90, 2008, on few clusters.
    """
    from scipy.stats import t as student

    labels = cluster_labels(clusters, len(outcomes))
    require_sampling(level=level, seed=seed, resamples=(resamples, 2))
    if statistic is None:
        outcomes = as_floats(metric, outcomes)
        if outcomes.ndim == 1:
            counts = np.flatnonzero(with_outcomes(metric, [outcomes]))
            outcomes, labels = outcomes[counts], [labels[at] for at in counts]
    check_several(labels)
    at = numbered(labels)
    count = int(at.max()) + 1
    compute = statistic or value_of(metric)
    value = float(compute(outcomes, np.ones((1, len(labels))))[0])
    cells = max(1, CELLS * count // len(labels))
    weights = resamples_of(count, resamples, np.random.default_rng(seed), cells=cells)
    drawn = np.concatenate([compute(outcomes, part[:, at]) for part in weights])
    drawn = drawn[np.isfinite(drawn)]
    error = float(drawn.std()) * math.sqrt(count / (count - 1)) if len(drawn) else 0.0
    half = float(student.isf((1 - level) / 2, count - 1)) * error
    if not (is_mean(metric, statistic) and bool(np.isin(outcomes, (0.0, 1.0)).all())):
        least, most = range_of(metric, statistic) if within is None else within
        return value, min(value, max(least, value - half)), max(value, min(most, value + half))
    if value in (0.0, 1.0):
        return (value, *wilson(value, count, level))
    centre, width = math.log(value / (1 - value)), half / (value * (1 - value))
    low, high = (1 / (1 + math.exp(-max(-700.0, min(700.0, centre + sign * width)))) for sign in (-1, 1))
    return value, low, high


def weighted_median(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    r"""Return the median of values that count as often as their weights, for many weightings at once.

    It is the mean of the smallest value up to which at least half of the weight lies and of the smallest up to which
    more than half lies: `numpy.median` of values that are repeated so often.

    Args:
        values: finite numbers.
        weights: at least 0; a row of zeros has no median and gives NaN.

    Raises:
        ValueError: no values, a value that is not finite, or weights of another number of values.

    Example:
        >>> weighted_median(np.array([3.0, 1.0, 8.0]), np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])).tolist()
        [3.0, 5.5]
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"values of shape {values.shape}: expected at least one number, all of them finite")
    if weights.ndim != 2 or weights.shape[1] != len(values):
        raise ValueError(f"weights have shape {weights.shape}, expected [r, {len(values)}]")
    order = np.argsort(values, kind="stable")
    ranked, sums = values[order], np.cumsum(weights[:, order], axis=1)
    total = sums[:, -1:]
    low, high = (sums >= total / 2).argmax(axis=1), (sums > total / 2).argmax(axis=1)
    return np.where(total[:, 0] > 0, (ranked[low] + ranked[high]) / 2, np.nan)


def median_interval(
    values: Float[np.ndarray, " n"],
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Return a median with the percentile interval of resamples that draw whole clusters.

    Args:
        values: finite numbers, such as ranks.
        clusters: a label for each value, such as its image.
        seed: of the resamples.
        resamples: at least 2.
        level: of the interval, in (0, 1).

    Returns:
        The median of all values, and the lower and upper end.

    Raises:
        ValueError: not a label for each value, a label that is missing, fewer than 2 clusters, or a value that is not
            finite.

    Example:
        >>> median_interval(np.arange(1.0, 102.0), range(101))[0]
        51.0

    Source:
        Efron, Annals of Statistics 7, 1979, on the bootstrap of a median.
    """
    labels = cluster_labels(clusters, len(values))
    if resamples < 2 or not 0 < level < 1:
        raise ValueError(f"expected resamples >= 2 and 0 < level < 1, got {resamples}, {level}")
    check_several(labels)
    at = numbered(labels)
    count = int(at.max()) + 1
    value = float(weighted_median(values, np.ones((1, len(labels))))[0])
    cells = max(1, CELLS * count // len(labels))
    drawn = np.concatenate(
        [
            weighted_median(values, part[:, at])
            for part in resamples_of(count, resamples, np.random.default_rng(seed), cells=cells)
        ]
    )
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return value, float(low), float(high)

"""How many test samples, seeds or benchmarks it takes to see a difference, from per-sample outcomes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from paired_scores.labels import check_several, cluster_labels
from paired_scores.metrics.arrays import require_sampling
from paired_scores.metrics.score import resamples_of
from paired_scores.paired import CELLS, Outcomes, Statistic, as_floats, is_mean, numbered, value_of, with_outcomes

__all__ = ["power_of_outcomes", "samples_needed"]

_NORMAL = NormalDist()
_RESAMPLES = 1000
_MOST_ROOT = 1e150
"""Of a number of samples, the root whose square is still a number."""


@dataclass(frozen=True)
class Power:
    """What some test samples can tell.

    Example:
        >>> power_of_outcomes("accuracy", [np.arange(100) % 2], difference=0.3).power > 0.9
        True
    """

    name: str  # of what was scored
    metric: str
    samples: int  # that there are now
    seeds: int  # with which it was run
    spread: float  # standard deviation of one sample's contribution to the difference, in the metric's unit
    between: float | None  # standard deviation of the difference between seeds; None for one seed
    power: float  # probability that a paired test sees the difference with today's samples and seeds
    smallest: float  # the difference that today's samples and seeds show with the wanted probability
    samples_needed: int  # for the difference, with today's seeds' spread left out
    seeds_needed: int | None  # with today's samples; 0 where no number suffices, None where there is one seed
    paired: bool  # False where one run was given, and the other is taken to be unrelated: an upper bound
    by_seed: tuple[float, ...] = ()  # the difference (of one model: the metric) with each seed
    clusters: int | None = None  # into which the samples fall; None where each is on its own


def power_of_outcomes(
    metric: str,
    first: Sequence[Outcomes],
    second: Sequence[Outcomes] | None = None,
    *,
    name: str = "",
    difference: float = 0.01,
    alpha: float = 0.05,
    power: float = 0.8,
    seed: int = 0,
    statistic: Statistic | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Power:
    r"""How large a difference these samples show, and what it takes to show a smaller one.

    With $\sigma$ the standard deviation of one sample's contribution to the difference (the paired bootstrap's error
    times $\sqrt n$), $\tau$ that of seeds and S seeds, the difference's error is $\sqrt{\sigma^2 / n + \tau^2 / S}$. A
    two-sided test of level $\alpha$ sees a difference d with probability $\Phi(d / \text{error} - z_{1 - \alpha / 2})$:
    a normal approximation, rough below about 30 samples or 5 wrong answers.

    Where no resample varies, such as of answers that are all right, shares count as with half a sample that differs.

    With ``clusters``, whole clusters are drawn, and the samples needed are in clusters as large as these. With few
    clusters, Student's quantiles make less of them than the normal ones here.

    Args:
        metric: see `paired_scores.paired_test`.
        first: outcomes of a model, for each seed samples along the first axis.
        second: of another on the same samples. Without it, the other model is taken to be as variable and unrelated,
            $\sigma = \sqrt 2 \sigma_1$: similar models agree on most samples and need fewer.
        name: of what was scored.
        difference: to be seen, in the metric's unit (0.01 is one point of accuracy), > 0.
        alpha: level of the two-sided test, in (0, 1).
        power: probability to see it, in (0, 1), larger than alpha.
        seed: of the bootstrap.
        statistic: see `paired_scores.paired_test`.
        clusters: a label for each sample; samples with the same label belong together.

    Raises:
        ValueError: a number out of its range, different numbers of seeds, samples or clusters' labels, fewer than 2
            clusters, an outcome that is NaN for one model alone or infinite, or no sample with outcomes; the message
            shows it.

    Source:
        The sample size of a paired z test, e.g. Miller, Adding Error Bars to Evals, 2024, section 5.

    Example:
        >>> outcomes = np.random.default_rng(0).random(400) < 0.8
        >>> power = power_of_outcomes("acc@1", [outcomes.astype(float)], difference=0.05)
        >>> power.samples, power.samples_needed > power.samples
        (400, True)
    """
    _check(difference, alpha, power)
    require_sampling(seed=seed)
    sides = [list(first)] if second is None else [list(first), list(second)]
    if not sides[0] or len({len(side) for side in sides}) > 1:
        raise ValueError(f"{[len(side) for side in sides]} seeds of the models; expected the same, >= 1")
    if statistic is None:
        sides = [[as_floats(metric, outcomes) for outcomes in side] for side in sides]
    every = [outcomes for side in sides for outcomes in side]
    lengths = sorted({len(outcomes) for outcomes in every})
    if len(lengths) > 1:
        raise ValueError(f"{metric}: {lengths} outcomes; expected the same number of samples everywhere")
    labels = None if clusters is None else cluster_labels(clusters, lengths[0])
    if statistic is None and all(isinstance(outcomes, np.ndarray) and outcomes.ndim == 1 for outcomes in every):
        counts = with_outcomes(metric, every)
        sides = [[outcomes[counts] for outcomes in side] for side in sides]
        labels = None if labels is None else [labels[int(at)] for at in np.flatnonzero(counts)]
    if not len(sides[0][0]):
        raise ValueError(f"{metric}: none of {lengths[0]} samples has an outcome")
    unrelated = math.sqrt(2) if second is None else 1.0
    if labels is not None:
        check_several(labels)
    at = None if labels is None else numbered(labels)
    by_seed, error = _by_seed(statistic or value_of(metric), sides, seed, at)
    if (
        error == 0
        and is_mean(metric, statistic)
        and all(np.isin(values, (0.0, 1.0)).all() for side in sides for values in side)
    ):
        error = math.sqrt(0.5) / (len(sides[0][0]) if at is None else int(at.max()) + 1)
    count, seeds = len(sides[0][0]), len(by_seed)
    spread = error * math.sqrt(count) * unrelated
    between = float(np.std(by_seed, ddof=1)) * unrelated if seeds > 1 else None
    variance = spread**2 / count
    error = math.sqrt(variance + (between or 0.0) ** 2 / seeds)
    reach = _reach(alpha, power)
    seeds_needed = None
    if between is not None:
        room = (difference / reach) ** 2 - variance
        seeds_needed = 0 if room <= 0 else max(1, math.ceil(between**2 / room))
    threshold = _NORMAL.inv_cdf(1 - alpha / 2)
    tails = sum(_NORMAL.cdf(sign * difference / error - threshold) for sign in (1, -1)) if error else 1.0
    return Power(
        name=name,
        metric=metric,
        samples=count,
        seeds=seeds,
        spread=spread,
        between=between,
        power=tails,
        smallest=reach * error,
        samples_needed=samples_needed(spread, difference, alpha=alpha, power=power),
        seeds_needed=seeds_needed,
        paired=second is not None,
        by_seed=tuple(by_seed),
        clusters=None if at is None else int(at.max()) + 1,
    )


def samples_needed(spread: float, difference: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    r"""Paired samples for a two-sided test: $\lceil (z_{1 - \alpha / 2} + z_\text{power})^2 \sigma^2 / d^2 \rceil$.

    $\sigma$ is the standard deviation (`spread`) of one sample's difference, d > 0 the difference to be seen.

    Raises:
        ValueError: a number out of its range; the message shows it.

    Example:
        >>> samples_needed(0.5, 0.02)
        4906
    """
    _check(difference, alpha, power)
    if not spread >= 0 or not math.isfinite(spread):
        raise ValueError(f"the spread must be a finite number of at least 0, not {spread}")
    root = _reach(alpha, power) * spread / difference
    if root > _MOST_ROOT:
        raise ValueError(f"a difference of {difference} is too small for a spread of {spread}: no number tells")
    return max(1, math.ceil(root**2))


def _check(difference: float, alpha: float, power: float) -> None:
    if not difference > 0 or not math.isfinite(difference):
        raise ValueError(f"the difference to see must be positive, not {difference}")
    if not 0 < alpha < power < 1:
        raise ValueError(f"expected 0 < alpha < power < 1, got alpha {alpha} and power {power}")


def _reach(alpha: float, power: float) -> float:
    return _NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(power)


def _by_seed(
    measure: Statistic, sides: Sequence[Sequence[Outcomes]], seed: int, at: np.ndarray | None
) -> tuple[list[float], float]:
    """The difference (of one run: the metric) with each seed, and the bootstrap's error of their mean."""
    count = len(sides[0][0])
    units = count if at is None else int(at.max()) + 1

    def value(row: int, weights: np.ndarray) -> np.ndarray:
        by_side = [measure(side[row], weights) for side in sides]
        return by_side[0] if len(by_side) == 1 else by_side[1] - by_side[0]

    seeds, drawn = range(len(sides[0])), []
    cells = max(1, CELLS * units // count)
    for rows in resamples_of(units, _RESAMPLES, np.random.default_rng(seed), cells=cells):
        weights = rows if at is None else rows[:, at]
        drawn.append(np.mean([value(row, weights) for row in seeds], axis=0))
    error = float(np.nanstd(np.concatenate(drawn))) * math.sqrt(units / max(1, units - 1))
    return [float(value(row, np.ones((1, count)))[0]) for row in seeds], error

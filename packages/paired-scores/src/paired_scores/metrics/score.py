"""A metric with its bootstrap interval, and the difference between two models on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from paired_scores.metrics.arrays import Array, Floats, UndefinedMetricError, as_array, refuse_nan, require_sampling
from paired_scores.metrics.definitions import METRICS, Metric, refuse_form

CHUNK = 4_000_000  # weights held at a time: 32 MB
_ROUNDING = 1e-9
"""A mean of shares may lie so far outside of 0 to 1."""


@dataclass(frozen=True, eq=False)
class Score:
    """A metric's value on all samples, and the ends of its interval.

    `outcomes` are what the metric keeps per sample, samples along the first dimension; `METRICS[metric].aggregate`
    makes the value of them again.

    Example:
        >>> evaluate("accuracy", np.eye(4), np.array([0, 1, 2, 0])).outcomes.tolist()
        [1.0, 1.0, 1.0, 0.0]
    """

    metric: str
    direction: Literal["higher", "lower"]
    value: float
    low: float
    high: float
    outcomes: Floats = field(repr=False)


@dataclass(frozen=True)
class Difference:
    """The second model's metric less the first's, with the interval of the paired bootstrap."""

    value: float
    low: float
    high: float


def metric_named(name: str) -> Metric:
    """The metric of that name; a ValueError with the known ones for another.

    Example:
        >>> metric_named("mae").direction
        'lower'
    """
    if name not in METRICS:
        raise ValueError(f"metric {name!r} is unknown, expected one of {', '.join(METRICS)}")
    return METRICS[name]


def evaluate(
    name: str, predictions: Any, targets: Any, *, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Score:
    """A metric and its interval over samples (whole images for masks).

    Forms of predictions and targets:

    - accuracy, acc@1, mean_per_class: labels [n] or scores [n, k]; classes [n]. acc@5: scores.
    - map_11point, map_11point_elevater, roc_auc, average_precision: scores [n, l] with 0/1 [n, l], scores [n] with 0/1
      [n], or scores [n, k] with classes [n] (one against the rest); the mean over labels with positives and negatives.
      The second is the first with a point of precision 1 at recall 0, as ELEVATER's toolkit scores VOC 2007.
    - brier: the same forms with probabilities; the sum over classes where there are more than two, else the mean over
      labels.
    - log_loss: as brier; a probability of 0 counts as 1e-15. calibration_error: probabilities of classes; the mean
      distance of confidence and accuracy in 15 bins of equal mass (expected calibration error). Of few samples it is
      too large, for chance puts every bin off its confidence.
    - miou, miou_foreground, mean_acc, overall_acc, dice: masks [n, h, w] or scores [n, k, h, w]; masks [n, h, w], -100
      not counted. Pixels are summed over the images first; classes neither predicted nor true are left out; dice leaves
      out class 0, the background; miou_foreground the pixels whose true class is 0, as GATE's code does.
    - macro_f1, micro_f1: labels [n] or scores [n, k] with classes [n], or probabilities [n, l] with 0/1 [n, l], of
      which those above a half count. quadratic_kappa (Cohen's with squared distances): likewise, of classes whose order
      says how far they are apart.
    - mae, mse, rmse, r2, spearman: numbers of the same shape; the last two, one for each sample.

    Args:
        name: a key of `METRICS`.
        predictions: tensor or array.
        targets: tensor or array.
        seed: of the resamples.
        resamples: 0 gives an interval of the value alone.
        level: of the interval, between 0 and 1.

    Raises:
        ValueError: what cannot be scored, with the value and its place.

    Numerics:
        Values agree with scikit-learn's to rounding, but for three. F1 of several labels leaves out labels that are
        neither predicted nor true, where it counts 0. Average precision leaves out labels with positives alone, where
        it counts 1. Kappa's grades keep their distances where one between them does not occur. Classes of equal scores
        share what they would get in random order.
        A share of right samples has Wilson's interval (1927). For the mean over classes, rankings, masks and outcomes
        that are shares themselves it is Wilson's at 0 and 1 alone, where resampling has nothing to vary: of as many
        trials as there are masks, or samples of a label's rarer side. All others have the percentile bootstrap's: a
        resample is a row of counts, and a class that it lacks is left out of its mean.

    Example:
        >>> score = evaluate("accuracy", [0, 1, 1, 0], [0, 1, 1, 1])
        >>> score.value, round(score.low, 3), round(score.high, 3)
        (0.75, 0.301, 0.954)

    Source:
        ELEVATER, table 2 (which metric for which data set); GATE, table 3.
    """
    running = RunningScores([name])
    require_sampling(level=level, seed=seed, resamples=(resamples, 0))
    running.update(predictions, targets)
    return running.compute(seed=seed, resamples=resamples, level=level)[name]


class RunningScores:
    """Metrics of samples that come batch by batch: only what a metric keeps per sample is held.

    The scores are those of `evaluate` on all samples together, to the last bit.

    Example:
        >>> running = RunningScores(["accuracy"])
        >>> running.update([0, 1], [0, 1])
        >>> running.update([1, 0], [1, 1])
        >>> running.compute()["accuracy"].value
        0.75
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.metrics = [metric_named(name) for name in names]
        self.samples = 0
        self._parts: dict[Callable[[Array, Array], Floats], list[Floats]] = {m.outcomes: [] for m in self.metrics}

    def update(self, predictions: Any, targets: Any) -> None:
        """Add samples, as `evaluate` takes them; the place of NaN is that among all samples so far.

        Samples that one of the metrics refuses are added to none.

        Raises:
            ValueError: as `evaluate`; a batch of other columns of labels or scores than the first.
        """
        predicted, true = as_array(predictions, "predictions"), as_array(targets, "targets")
        if predicted.ndim == 0 or true.ndim == 0 or len(predicted) != len(true):
            raise ValueError(
                f"predictions have shape {predicted.shape}, targets {true.shape}; expected the same length"
            )
        if len(true) == 0:
            return
        refuse_nan("predictions", predicted, self.samples)
        refuse_nan("targets", true, self.samples)
        made = [outcomes(predicted, true) for outcomes in self._parts]  # all of them, or none is added
        for parts, part in zip(self._parts.values(), made, strict=True):
            if parts and _columns(parts[0]) != _columns(part):
                raise ValueError(
                    f"predictions have shape {predicted.shape}, targets {true.shape}: other columns than the batches "
                    "before; expected one form of all"
                )
        for parts, part in zip(self._parts.values(), made, strict=True):
            parts.append(part)
        self.samples += len(true)

    def compute(self, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> dict[str, Score]:
        """Each metric on all samples so far; see `evaluate`."""
        if self.samples == 0:
            raise ValueError("there are no samples to score")
        outcomes_of = {outcomes: _joined(parts) for outcomes, parts in self._parts.items()}
        scores = {}
        for metric in self.metrics:
            outcomes = outcomes_of[metric.outcomes]
            if metric.check is not None:
                metric.check(outcomes)
            scores[metric.name] = score_outcomes(metric.name, outcomes, seed=seed, resamples=resamples, level=level)
        return scores


def _columns(outcomes: Floats) -> tuple[int, ...]:
    """What has to be equal in all batches; counts of label maps [n, 3, classes] may name more classes later."""
    return outcomes.shape[1:2] if outcomes.shape[1:2] == (3,) else outcomes.shape[1:]


def _joined(parts: list[Floats]) -> Floats:
    """One after another; a batch of label maps counts only the classes up to its highest, and gets 0 of the others."""
    if len(parts) == 1:
        return parts[0]
    if parts[0].ndim == 3:
        width = max(part.shape[2] for part in parts)
        parts = [np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2]))) for part in parts]
    return np.concatenate(parts)


def score_outcomes(name: str, outcomes: Floats, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> Score:
    """A metric and its interval from what it keeps per sample, or per any larger unit (an episode, a volume).

    Units are along the first dimension, in the form of `Score.outcomes`; for accuracy, an episode's mean. The other
    arguments, and errors, are those of `evaluate`.

    Example:
        >>> score_outcomes("accuracy", np.array([0.5, 1.0])).value
        0.75
    """
    metric = metric_named(name)
    require_sampling(level=level, seed=seed, resamples=(resamples, 0))
    outcomes = as_array(outcomes, name).astype(np.float64)
    if outcomes.ndim == 0 or len(outcomes) == 0:
        raise ValueError("there are no outcomes to score")
    _refuse_outcomes(metric, outcomes)
    with np.errstate(over="ignore"):
        value = float(metric.aggregate(outcomes, np.ones((1, len(outcomes))))[0])
    if np.isinf(value):
        raise ValueError(
            f"{metric.name} of {len(outcomes)} samples is too large for float64; the worst has {outcomes.max()}"
        )
    if np.isnan(value):
        raise UndefinedMetricError(f"{metric.name} has no value: {metric.undefined}")
    if not resamples:
        return Score(metric.name, metric.direction, value, value, value, outcomes)
    share = value in (0.0, 1.0) or (outcomes.ndim == 1 and bool(np.isin(outcomes, (0.0, 1.0)).all()))
    if outcomes.ndim == 1 and 0 <= value <= 1 and bool((outcomes == outcomes[0]).all()):
        share = True  # ties that all share alike: resampling has nothing to vary
    if metric.trials is not None and share:
        low, high = wilson(value, metric.trials(outcomes), level)
        return Score(metric.name, metric.direction, value, low, high, outcomes)
    with np.errstate(over="ignore"):
        drawn = resamples_of(len(outcomes), resamples, np.random.default_rng(seed))
        values = np.concatenate([np.empty(0), *(metric.aggregate(outcomes, rows) for rows in drawn)])
    if np.isinf(values).any():
        raise ValueError(f"{metric.name} of a resample is too large for float64; the worst sample has {outcomes.max()}")
    low, high = _interval(values, level, value)
    # a calibration error grows with noise, and so is larger in nearly every resample than on the samples themselves
    low, high = min(low, value), max(high, value)
    return Score(metric.name, metric.direction, value, low, high, outcomes)


def wilson(share: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    r"""Wilson's interval (1927) of a share: all p with $|\hat p - p| \le z \sqrt{p (1 - p) / n}$.

    `scipy.stats.binomtest` gives the same ends, of whole numbers of trials alone; those of a mean over classes are not
    whole. Brown, Cai and DasGupta (2001) compare its coverage.

    Raises:
        ValueError: a share outside [0, 1], trials that are not above 0, or a level outside (0, 1); shows them.

    Example:
        >>> [round(end, 3) for end in wilson(0.5, 10)]
        [0.237, 0.763]
    """
    if not (-_ROUNDING <= share <= 1 + _ROUNDING and 0 < trials < inf and 0 < level < 1):
        raise ValueError(
            f"expected a share in [0, 1], trials above 0 and a level in (0, 1), got {share}, {trials} and {level}"
        )
    share = min(1.0, max(0.0, share))
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return (0.0 if share == 0 else max(0.0, centre - half)), (1.0 if share == 1 else min(1.0, centre + half))


def paired_difference(
    name: str, first: Floats, second: Floats, *, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> Difference:
    """How much the second model's metric exceeds the first's, both resampled on the same samples.

    `first` and `second` are outcomes (`Score.outcomes`) of the same samples in the same order. The other arguments, and
    errors, are those of `evaluate`.

    Example:
        >>> paired_difference("accuracy", np.array([0.0, 1.0]), np.array([1.0, 1.0])).value
        0.5
    """
    metric = metric_named(name)
    require_sampling(level=level, seed=seed, resamples=(resamples, 0))
    first, second = (as_array(side, name).astype(np.float64) for side in (first, second))
    if first.ndim == 0 or second.ndim == 0 or len(first) != len(second):
        raise ValueError(
            f"the first model has {_count(first)} outcomes, the second {_count(second)}; expected the same samples"
        )
    if not len(first):
        raise ValueError("there are no outcomes to score")
    for side in (first, second):
        _refuse_outcomes(metric, side)
    even = np.ones((1, len(first)))
    value = float((metric.aggregate(second, even) - metric.aggregate(first, even))[0])
    drawn = resamples_of(len(first), resamples, np.random.default_rng(seed))
    differences = (metric.aggregate(second, rows) - metric.aggregate(first, rows) for rows in drawn)
    values = np.concatenate([np.empty(0), *differences])
    return Difference(value, *_interval(values, level, value))


def _refuse_outcomes(metric: Metric, outcomes: Floats) -> None:
    refuse_form(metric.name, outcomes)
    missing = np.isnan(outcomes).reshape(len(outcomes), -1).any(axis=1)
    if missing.any():
        raise UndefinedMetricError(f"{metric.name} has no value: the outcome of sample {int(missing.argmax())} is NaN")


def _count(outcomes: Floats) -> int:
    return 0 if outcomes.ndim == 0 else len(outcomes)


def resamples_of(count: int, resamples: int, rng: np.random.Generator, *, cells: int = CHUNK) -> Iterator[Floats]:
    """Counts of each sample in resamples with replacement ``[rows, count]``, so many cells at a time.

    The draws are the same whatever the size of the parts.
    """
    rows = max(1, cells // count)
    for first in range(0, resamples, rows):
        part = min(rows, resamples - first)
        drawn = rng.integers(0, count, (part, count)) + np.arange(part)[:, None] * count
        yield np.bincount(drawn.ravel(), minlength=part * count).reshape(part, count).astype(np.float64)


def _interval(values: Floats, level: float, value: float) -> tuple[float, float]:
    """Percentiles of the resampled values; the value itself where there are none."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return value, value
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)

"""Two models on the same samples: bootstrap, permutation and effect size for any metric.

One file of more than 400 lines: the tests share their outcomes, resamples and checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paired_scores.labels import check_several, cluster_labels
from paired_scores.metrics import METRICS
from paired_scores.metrics.arrays import as_array, require_sampling
from paired_scores.metrics.definitions import refuse_form, weighted_mean
from paired_scores.metrics.score import resamples_of

__all__ = ["McNemar", "PairedTest", "benjamini_hochberg", "holm", "mcnemar", "paired_test"]

Outcomes = Any
"""Of each sample, along the first axis: an array; or, for a statistic of one's own, anything with a length and
``joined(other)``, such as all detections of each image."""
if TYPE_CHECKING:
    from jaxtyping import Float

    Weights = Float[np.ndarray, "r n"]
    Values = Float[np.ndarray, " r"]
else:  # shapes are for type checkers and readers
    Weights = Values = np.ndarray
Statistic = Callable[[Outcomes, Weights], Values]
Difference = Callable[[Weights, Weights], Values]

_RANKED = frozenset({"roc_auc", "average_precision", "map_11point", "map_11point_elevater"})
_TRUTHS = {
    **dict.fromkeys((*_RANKED, "mean_per_class", "r2", "spearman", "macro_f1", "micro_f1", "quadratic_kappa"), 1),
    **dict.fromkeys(("miou", "mean_acc", "overall_acc", "dice"), 2),
}
"""Where a sample's outcome holds what is true of it, which two models share."""
CELLS = 1_000_000  # weights held at a time: 8 MB, of which a ranking makes a dozen copies
_ROUNDING = 1e-12
_TWO_SEEDS = 0.25
"""The factor c of `with_seeds` where a spread is known from two values only; from three on it is 1."""


@dataclass(frozen=True)
class PairedTest:
    """The second model's metric less the first's, on the same samples.

    Example:
        >>> test = paired_test("accuracy", [[1.0, 0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 0.0]])
        >>> test.difference, test.samples, test.p
        (0.5, 4, 0.5)
    """

    first: float  # the first model's metric, its mean over seeds
    second: float
    difference: float  # second less first
    low: float  # ends of the difference's interval: the paired bootstrap's for one seed, Student's for several
    high: float
    effect: float | None  # the difference in standard deviations of one sample's contribution; None where that is 0
    p_permutation: float  # two-sided, of the paired permutation test
    p_bootstrap: float  # two-sided, from the share of resamples on the other side of 0
    p_seeds: float | None  # two-sided, of Student's test with samples and seeds; None for one seed
    samples: int  # paired ones (episodes for few-shot, volumes for cardiac segmentation)
    by_seed: tuple[float, ...]  # the difference with each seed
    clusters: int | None = None  # into which the samples fall; None where each is on its own

    @property
    def p(self) -> float:
        """What decides: the permutation test's, or Student's where that is larger."""
        return self.p_permutation if self.p_seeds is None else max(self.p_permutation, self.p_seeds)


def paired_test(
    metric: str,
    first: Sequence[Outcomes],
    second: Sequence[Outcomes],
    *,
    seed: int = 0,
    resamples: int = 2000,
    permutations: int = 9_999,
    most: int | None = None,
    level: float = 0.95,
    statistic: Statistic | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> PairedTest:
    r"""Test whether two models differ on the samples that both were scored on.

    With $M(o, w)$ the metric of outcomes o under weights w and S seeds, the statistic is
    $D(w) = \frac1S \sum_s M(b_s, w) - M(a_s, w)$. The bootstrap draws w, one for both models and all seeds. The
    permutation test exchanges the two models' outcomes on a random half of the samples, in all seeds at once, and
    counts how often $|D|$ is at least as large as observed: $p = (1 + \text{count}) / (1 + \text{permutations})$.
    Where there are so few samples that all exchanges fit into ``permutations``, each is taken once and p is exact.
    With several seeds, the interval is Student's and holds the variation of samples and of seeds, see `with_seeds`.

    Samples of one cluster (questions about one document, frames of one video) tell less than as many on their own. With
    ``clusters``, both draws are of whole clusters: a resample weighs all samples of a cluster alike, and an exchange
    swaps all of them.

    Rankings (roc_auc, average_precision) use each model's own ranks, so that models whose scores lie on different
    scales can be exchanged. With one seed, p holds for these trained heads.

    Args:
        metric: a name of `paired_scores.metrics`, or of a metric that is the mean of one number per sample.
        first: outcomes of one model, for each seed samples along the first axis.
        second: of the other, on the same samples in the same order.
        seed: of resamples and permutations.
        resamples: of the bootstrap, at least 1.
        permutations: at least 1.
        most: where none of the first ``permutations`` comes up to the observed difference, go on to so many; p stays
            valid, and may become small enough to survive a correction for many tests.
        level: of the interval, in (0, 1).
        statistic: outcomes and weights ``[r, n]`` to values ``[r]``, in place of the metric's own; it may take
            outcomes that are no arrays, such as all detections of an image.
        clusters: a label for each sample, such as its document's name; samples with the same label belong together.

    Raises:
        ValueError: different numbers of seeds, samples or clusters' labels, fewer than 2 samples with outcomes or 2
            clusters, one that is NaN for one model alone or infinite, samples of which other things are true, or a
            metric that is unknown and is not a mean.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> weak, strong = [(rng.random(400) < share).astype(float) for share in (0.5, 0.7)]
        >>> test = paired_test("acc@1", [weak], [strong])
        >>> test.low > 0, test.p_permutation < 0.001
        (True, True)

    Source:
        Pairing by resampling samples follows Efron and Tibshirani, An Introduction to the Bootstrap, chapters 13 and
        15; exchanging ranks for ROC curves follows Venkatraman and Begg, Biometrika 83, 1996.
    """
    from scipy.stats import t as student

    first, second = list(first), list(second)  # an array's truth is no question of how many it holds
    if not first or len(first) != len(second):
        raise ValueError(
            f"{len(first)} seeds of the first model and {len(second)} of the second; expected the same, >= 1"
        )
    if statistic is None:
        first, second = ([as_floats(metric, outcomes) for outcomes in side] for side in (first, second))
    every = (*first, *second)
    lengths = sorted({len(outcomes) for outcomes in every})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"{metric}: {lengths} outcomes; expected the same number of samples everywhere, at least 1")
    rounding = rounding_of(every)
    columns = statistic is None and all(isinstance(outcomes, np.ndarray) and outcomes.ndim == 1 for outcomes in every)
    most = permutations if most is None else most
    require_sampling(
        level=level, seed=seed, resamples=(resamples, 1), permutations=(permutations, 1), most=(most, 1)
    )  # fmt: skip
    labels = None if clusters is None else cluster_labels(clusters, lengths[0])
    means = columns and is_mean(metric, statistic)
    if columns:
        counts = with_outcomes(metric, every)
        first, second = ([outcomes[counts] for outcomes in side] for side in (first, second))
        labels = None if labels is None else [labels[sample] for sample in np.flatnonzero(counts)]
    count = len(first[0])
    if count < 2:
        raise ValueError(f"{metric}: {count} samples with outcomes of {lengths[0]}; a test needs at least 2")
    if labels is not None:
        check_several(labels)
    at = None if labels is None else numbered(labels)
    units = count if at is None else int(at.max()) + 1  # what is drawn and exchanged
    cells = max(1, CELLS * units // count)
    compute = statistic or value_of(metric)
    pairs = [aligned(metric, *pair) if statistic is None else pair for pair in zip(first, second, strict=True)]
    by_pair = [_of_means(*pair) if means else difference_of(compute, *pair) for pair in pairs]
    pooled = [_of_means(_mean(first), _mean(second))] if means else by_pair
    plain = np.zeros((1, count))
    by_seed = tuple(float(measure(plain, np.ones((1, count)))[0]) for measure in by_pair)
    difference = float(np.mean(by_seed))

    def exchanged(pattern: Weights) -> Values:
        pattern = pattern if at is None else pattern[:, at]
        return _mean([statistic(pattern, np.ones_like(pattern)) for statistic in pooled])

    def resampled(weights: Weights) -> Values:
        weights = weights if at is None else weights[:, at]
        return _mean([statistic(np.zeros_like(weights), weights) for statistic in pooled])

    rng = np.random.default_rng(seed)
    drawn = np.concatenate([resampled(weights) for weights in resamples_of(units, resamples, rng, cells=cells)])
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2]) if len(drawn) else (difference, difference)
    error = float(drawn.std()) if len(drawn) else 0.0
    spread = error * math.sqrt(count)
    p_seeds = None
    if len(by_seed) > 1:
        total, freedom = with_seeds(by_seed, error)
        certain = float(abs(difference) <= rounding)
        p_seeds = float(2 * student.sf(abs(difference / total), freedom)) if total > rounding else certain
        half = float(student.isf((1 - level) / 2, freedom)) * total
        least, most_of_all = range_of(metric, statistic)
        low, high = max(least - most_of_all, difference - half), min(most_of_all - least, difference + half)
    below, above = int((drawn <= rounding).sum()), int((drawn >= -rounding).sum())
    values = [
        float(np.mean([compute(measure, np.ones((1, count)))[0] for measure in side])) for side in (first, second)
    ]
    return PairedTest(
        first=values[0],
        second=values[1],
        difference=difference,
        low=float(low),
        high=float(high),
        effect=difference / spread if spread > rounding else None,
        p_permutation=_permutation_p(exchanged, difference, units, permutations, most, rng, rounding, cells=cells),
        p_bootstrap=min(1.0, 2 * (1 + min(below, above)) / (1 + len(drawn))),
        p_seeds=p_seeds,
        samples=count,
        by_seed=by_seed,
        clusters=None if at is None else units,
    )


def rounding_of(every: Iterable[Outcomes]) -> float:
    """Return how far equal differences may be apart by rounding: by the size of outcomes that are one number each.

    Example:
        >>> rounding_of([np.array([0.0, 1.0])]), rounding_of([np.array([3e6, 1.0])])
        (1e-12, 3e-06)
    """
    largest = 0.0
    for outcomes in every:
        if not isinstance(outcomes, np.ndarray) or outcomes.ndim != 1:
            return _ROUNDING
        sizes = np.abs(outcomes[np.isfinite(outcomes)])
        largest = max(largest, float(sizes.max(initial=0.0)))
    return _ROUNDING * largest


def numbered(labels: Sequence[Hashable]) -> np.ndarray:
    """Number clusters in order of their first sample."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(label, len(number)) for label in labels])


@dataclass(frozen=True)
class McNemar:
    """Samples that one of two models alone got right, and how likely so uneven a split is by chance.

    Example:
        >>> mcnemar([1, 0, 0, 0], [1, 1, 1, 0]).second_only
        2
    """

    first_only: int  # samples that the first model alone got right
    second_only: int
    p: float  # exact, two-sided


def mcnemar(first: Sequence[float], second: Sequence[float]) -> McNemar:
    r"""Test whether two models are right equally often, from the samples that one of them alone got right.

    With b and c such samples, $p = \min(1, 2 P(X \le \min(b, c)))$, X binomial with b + c draws of 1/2: `paired_test`'s
    p of all exchanges.

    Args:
        first: for each sample 1 or True where the first model is right, 0 or False where it is wrong.
        second: of the other, on the same samples in the same order.

    Raises:
        ValueError: different numbers of samples, none, or a value that is not 0 or 1; shows it and its place.

    Example:
        >>> mcnemar([1, 1, 0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 1, 1, 1])
        McNemar(first_only=1, second_only=6, p=0.125)

    Source:
        McNemar, Psychometrika 12, 1947; exact, by the binomial distribution.
    """
    from scipy.stats import binomtest

    sides = [as_floats("mcnemar", side) for side in (first, second)]
    if sides[0].shape != sides[1].shape or sides[0].ndim != 1 or not len(sides[0]):
        raise ValueError(
            f"outcomes of shapes {sides[0].shape} and {sides[1].shape}; expected the same samples, at least 1"
        )
    for name, side in zip(("first", "second"), sides, strict=True):
        wrong = ~np.isin(side, (0.0, 1.0))
        if wrong.any():
            sample = int(wrong.argmax())
            raise ValueError(f"{name}: sample {sample} has {side[sample]}; expected 1 for right or 0 for wrong")
    ahead, behind = int((sides[0] > sides[1]).sum()), int((sides[0] < sides[1]).sum())
    return McNemar(ahead, behind, float(binomtest(ahead, ahead + behind).pvalue) if ahead + behind else 1.0)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values: those at most alpha may all be called true with a family-wise error of alpha.

    A test without a p value (NaN) stays without one, and counts among the tests.

    Raises:
        ValueError: a value that is no number, or outside [0, 1]; shows it and its place.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]

    Source:
        Holm, Scandinavian Journal of Statistics 6, 1979.
    """
    values = _p_values(values)
    adjusted, running = [math.nan] * len(values), 0.0
    for rank, index in enumerate(_ascending(values)):
        running = max(running, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = running
    return adjusted


def benjamini_hochberg(values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p values: of those at most q, a share of q is false in expectation.

    A test without a p value (NaN) stays without one, and counts among the tests.

    Raises:
        ValueError: a value that is no number, or outside [0, 1]; shows it and its place.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03])
        [0.03, 0.04, 0.04]

    Source:
        Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995, for independent tests.
    """
    values = _p_values(values)
    order = _ascending(values)
    adjusted, running = [math.nan] * len(values), 1.0
    for rank, index in reversed(list(enumerate(order, start=1))):
        running = min(running, len(values) * values[index] / rank)
        adjusted[index] = running
    return adjusted


def _p_values(values: Any) -> list[float]:
    """P values by their place: a pandas series finds numbers by the labels of its index."""
    array = as_array(values, "p values")
    if array.ndim != 1:
        raise ValueError(f"p values have shape {array.shape}; expected one for each test")
    return [float(value) for value in array]


def _ascending(values: Sequence[float]) -> list[int]:
    """The places of p values from the smallest on, without those that are NaN."""
    for place, value in enumerate(values):
        if not (math.isnan(value) or 0 <= value <= 1):
            raise ValueError(f"p value {place} is {value}; expected a number in [0, 1], or NaN for a test without one")
    places = [place for place, value in enumerate(values) if not math.isnan(value)]
    return sorted(places, key=lambda place: values[place])


def with_outcomes(metric: str, every: Sequence[Values]) -> np.ndarray:
    """Return which samples count ``[n]``: queries with nothing to find, say, have no outcome in any model.

    Raises:
        ValueError: a sample that is NaN in one model alone, or infinite; shows its place.
    """
    rows = np.stack(every)
    missing = np.isnan(rows)
    counts: np.ndarray = ~missing.all(axis=0)
    if np.isinf(rows).any():
        row, sample = np.argwhere(np.isinf(rows))[0]
        raise ValueError(f"{metric}: sample {sample} has the outcome {rows[row, sample]}; expected a finite number")
    if (missing & counts).any():
        sample = int((missing & counts).any(axis=0).argmax())
        raise ValueError(f"{metric}: sample {sample} is NaN in one outcome and a number in another")
    return counts


def as_floats(metric: str, outcomes: Outcomes) -> Any:
    """Return outcomes as float64, in which differences are exact: unsigned bytes would wrap, truth values have none."""
    values = as_array(outcomes, metric)
    if values.ndim == 0:
        raise ValueError(f"{metric}: outcomes are one number, {values}; expected one for each sample")
    if metric in METRICS:
        refuse_form(metric, values)
    elif values.ndim > 1:
        raise ValueError(f"metric {metric!r} is unknown and keeps more than a number per sample; cannot test it")
    return values.astype(np.float64)


def value_of(metric: str) -> Statistic:
    """The function from outcomes and weights to the metric; a weighted mean for a name that is not registered."""
    if metric in METRICS:
        aggregate: Any = METRICS[metric].aggregate
        statistic: Statistic = aggregate
        return statistic
    return lambda outcomes, weights: (weights @ outcomes) / weights.sum(axis=1)


def is_mean(metric: str, statistic: Statistic | None = None) -> bool:
    """Return whether a metric is the mean of one number per sample; a statistic of one's own is not taken for one.

    Example:
        >>> is_mean("mse"), is_mean("rmse"), is_mean("my score")
        (True, False, True)
    """
    return statistic is None and (metric not in METRICS or METRICS[metric].aggregate is weighted_mean)


def range_of(metric: str, statistic: Statistic | None = None) -> tuple[float, float]:
    """Return the least and the largest value of a metric; no limits for one without a name here.

    Example:
        >>> range_of("spearman"), range_of("my score")
        ((-1.0, 1.0), (-inf, inf))
    """
    return METRICS[metric].within if statistic is None and metric in METRICS else (-math.inf, math.inf)


def direction_of(metric: str, direction: str | None) -> str:
    """Return "higher" or "lower": the one that was given, or the metric's own; "higher" for one without a name here.

    Raises:
        ValueError: another direction; shows it.

    Example:
        >>> direction_of("mae", None), direction_of("my score", None)
        ('lower', 'higher')
    """
    if direction is None:
        return METRICS[metric].direction if metric in METRICS else "higher"
    if direction not in ("higher", "lower"):
        raise ValueError(f"direction is {direction!r}, expected 'higher' or 'lower'")
    return direction


def _of_means(a: Any, b: Any) -> Difference:
    """For a mean of one number per sample: (which samples are exchanged, weights) to its difference."""
    return lambda swap, weights: ((1 - 2 * swap) * weights) @ (b - a) / weights.sum(axis=1)


def difference_of(compute: Statistic, a: Outcomes, b: Outcomes) -> Difference:
    """For any metric: (which samples are exchanged, weights) to the second model's value less the first's."""
    joined = np.concatenate([a, b]) if isinstance(a, np.ndarray) else a.joined(b)

    def difference(swap: Weights, weights: Weights) -> Values:
        keep = weights * (1 - swap)
        give = weights * swap
        values: Values = compute(joined, np.hstack([give, keep])) - compute(joined, np.hstack([keep, give]))
        return values

    return difference


def aligned(metric: str, a: Any, b: Any) -> tuple[Outcomes, Outcomes]:
    """Ranks for rankings; the same number of classes for masks, where one model may never have predicted the last.

    Raises:
        ValueError: what is true of a sample is not the same for both.
    """
    if a.ndim == 3 and a.shape[2] != b.shape[2] and metric not in _RANKED:
        classes = max(a.shape[2], b.shape[2])
        a, b = (np.pad(scores, ((0, 0), (0, 0), (0, classes - scores.shape[2]))) for scores in (a, b))
    if metric in _TRUTHS:
        mine, other = (side[:, _TRUTHS[metric]] for side in (a, b))
        if not np.array_equal(mine, other, equal_nan=True):
            apart = ~((mine == other) | (np.isnan(mine) & np.isnan(other))).reshape(len(a), -1).all(1)
            raise ValueError(
                f"{metric}: {np.count_nonzero(apart)} of {len(a)} samples have another truth for one model than for "
                f"the other, the first of them sample {int(apart.argmax())}; expected the same samples in one order"
            )
    if metric in _RANKED:
        from scipy.stats import rankdata

        a, b = (np.stack([rankdata(side[:, 0], axis=0), side[:, 1]], axis=1) for side in (a, b))
    return a, b


def _mean(columns: Sequence[Any]) -> Values:
    total: Values = np.mean(columns, axis=0)
    return total


def _permutation_p(
    statistic: Callable[[Weights], Values],
    observed: float,
    count: int,
    permutations: int,
    most: int,
    rng: np.random.Generator,
    rounding: float,
    cells: int = CELLS,
) -> float:
    """Share of exchanges whose difference is at least as far from 0 as the observed one."""
    threshold = abs(observed) - rounding

    def reached(pattern: Weights) -> int:
        values = statistic(pattern)
        return int((~(np.abs(values) < threshold)).sum())  # a difference that does not exist counts against the claim

    if count < 60 and 2**count <= permutations + 1:
        every = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return reached(every.astype(np.float64)) / len(every)
    hits = done = 0
    while done < permutations or (hits == 0 and done < most):
        stop = permutations if done < permutations else most
        rows = min(max(1, cells // count), stop - done)
        hits += reached(rng.integers(0, 2, (rows, count), dtype=np.int8).astype(np.float64))
        done += rows
    return (1 + hits) / (1 + done)


def with_seeds(by_seed: Sequence[float], standard_error: float) -> tuple[float, float]:
    r"""Standard error of a mean over seeds that holds samples and seeds, and its degrees of freedom.

    With S seeds, $s$ the standard deviation of the S differences and $e$ the bootstrap's standard error over samples,
    the error is $\sqrt{e^2 + s^2 / S}$. Where the seeds say more than the samples, $s^2 / S > c \, e^2$, it has
    $\nu = S - 1$ degrees of freedom; else $\nu = (S - 1) (e^2 + s^2 / S) / (s^2 / S)$.
    """
    between = float(np.var(by_seed, ddof=1)) / len(by_seed)
    total = standard_error**2 + between
    if between == 0:
        return standard_error, math.inf
    few = len(by_seed) - 1
    telling = between > (_TWO_SEEDS if few == 1 else 1.0) * standard_error**2
    return math.sqrt(total), float(few) if telling else few * total / between

"""Many models on the same samples: which of them are worse than another, however the best was picked."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from paired_scores.labels import check_several, cluster_labels
from paired_scores.metrics.arrays import require_sampling
from paired_scores.metrics.score import resamples_of
from paired_scores.paired import (
    CELLS,
    Difference,
    Outcomes,
    Statistic,
    Values,
    aligned,
    as_floats,
    difference_of,
    direction_of,
    holm,
    is_mean,
    numbered,
    rounding_of,
    value_of,
    with_outcomes,
    with_seeds,
)

__all__ = ["worse_than_another"]

_NEAR = 1e-9
"""By which standardised differences may be apart and equal."""


def worse_than_another(
    metric: str,
    models: Sequence[Sequence[Outcomes]],
    *,
    direction: Literal["higher", "lower"] | None = None,
    seed: int = 0,
    permutations: int = 1_999,
    resamples: int = 1_000,
    statistic: Statistic | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> list[float]:
    r"""Return for each model the adjusted p value of "no other model is better".

    Models with a value of at most alpha may all be called worse than another. The probability that one of them is
    among the truly best is at most alpha, although the model that looks best was picked by the same samples.

    With $D_{ji}$ how much model j's metric exceeds model i's and $s_{ji}$ the standard deviation of $D_{ji}$ under
    exchanges, the statistic of model i is $T_i = \max_j D_{ji} / s_{ji}$. An exchange swaps the outcomes of all pairs
    on one random half of the samples, in all seeds at once, so that the statistics keep their dependence. Models are
    removed in the order of $T_i$, the largest first. Each is compared with the largest $T$ of all models that are
    left, against all models. Equal models are therefore judged by the range of all of them, and one best model among
    worse ones by comparisons with it alone. Student's variates with the exchanges' covariance are a second reference
    from three models on, and the larger p counts: among many models and few samples, exchanges alone make up to 6 %
    errors at a level of 5 %. Their degrees of freedom are the samples on which two models differ on average, less one.

    With ``clusters``, an exchange swaps whole clusters, a resample draws them, and the degrees of freedom count them.

    With several seeds, Student's test over seeds and samples (see `paired_scores.paired_test`) has to agree, after
    Holm's correction over all pairs.

    Args:
        metric: a name of `paired_scores.metrics`, or of a metric that is the mean of one number per sample.
        models: at least one; of each, for each seed outcomes of the same samples in the same order.
        direction: whether higher or lower values are better; by default as the metric has it, "higher" for another
            name.
        seed: of exchanges and resamples.
        permutations: exchanges, at least 1; all of them are taken where they are fewer.
        resamples: of the bootstrap over samples, which Student's test over seeds needs.
        statistic: outcomes and weights ``[r, n]`` to values ``[r]``, in place of the metric's own.
        clusters: a label for each sample; samples with the same label belong together.

    Returns:
        A p value for each model, in the order of ``models``; 1 for a single model.

    Raises:
        ValueError: no model, different numbers of seeds or samples, an outcome that is NaN for one model alone or
            infinite, no sample with outcomes, another direction, not a label for each sample, fewer than 2 clusters, or
            fewer than 1 permutation.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> models = [[(rng.random(400) < share).astype(float)] for share in (0.8, 0.8, 0.5)]
        >>> [p <= 0.05 for p in worse_than_another("acc@1", models)]
        [False, False, True]

    Source:
        Removal by the largest statistic follows Romano and Wolf, Econometrica 73, 2005; a set of models that holds the
        best, Hansen, Lunde and Nason, Econometrica 79, 2011. Ours counts comparisons with removed models, too, so that
        no assumption about them is needed.
    """
    sign = 1 if direction_of(metric, direction) == "higher" else -1
    models = [list(seeds) for seeds in models]
    if not models or not models[0] or len({len(seeds) for seeds in models}) > 1:
        raise ValueError(f"seeds by model: {[len(seeds) for seeds in models]}; expected the same number, at least 1")
    if statistic is None:
        models = [[as_floats(metric, outcomes) for outcomes in seeds] for seeds in models]
    lengths = sorted({len(outcomes) for seeds in models for outcomes in seeds})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"{metric}: {lengths} outcomes; expected the same number of samples everywhere, at least 1")
    require_sampling(seed=seed, permutations=(permutations, 1), resamples=(resamples, 1))
    if len(models) == 1:
        return [1.0]
    labels = None if clusters is None else cluster_labels(clusters, lengths[0])
    models, counts = _counted(metric, models, statistic)
    means = counts is not None and is_mean(metric, statistic)
    if labels is not None and counts is not None:
        labels = [labels[int(at)] for at in np.flatnonzero(counts)]
    compute = statistic or value_of(metric)
    rng = np.random.default_rng(seed)
    count = len(models[0][0])
    if not count:
        raise ValueError(f"{metric}: none of {lengths[0]} samples has an outcome")
    if labels is not None:
        check_several(labels)
    at = np.arange(count) if labels is None else numbered(labels)  # of each sample, what is drawn and exchanged
    units = int(at.max()) + 1
    exchange = _of_means(models, at) if means else _of_pairs(metric, models, compute, at, aligns=statistic is None)
    observed = sign * exchange(np.zeros((1, units)))[0]
    cells = max(1, CELLS * units // count)
    drawn = [sign * exchange(pattern) for pattern in _patterns(units, permutations, rng, cells)]
    null = np.nan_to_num(np.concatenate(drawn), nan=np.inf)  # what does not exist counts against the claim
    exhaustive = units < 60 and 2**units <= permutations + 1
    rounding = rounding_of(outcomes for seeds in models for outcomes in seeds)
    unit = _units(null, rounding)
    near = _NEAR + rounding / float(np.min(unit, initial=np.inf))
    size = np.nan_to_num(observed) / unit
    p = _step_down(size, null / unit, near, exact=exhaustive)
    if len(models) > 2:
        student = _step_down(size, _student(null / unit, permutations, _freedom(models, at), rng), near, exact=False)
        p = [max(both) for both in zip(p, student, strict=True)]
    if len(models[0]) > 1:
        by_seeds = _over_seeds(models, compute, observed, resamples, rng, at, rounding)
        p = [max(both) for both in zip(p, by_seeds, strict=True)]
    return p


def _counted(
    metric: str, models: Sequence[Sequence[Outcomes]], statistic: Statistic | None
) -> tuple[Any, np.ndarray | None]:
    """Drop samples without an outcome in any model; say which stay, or None where the metric is no mean of numbers."""
    every = [outcomes for seeds in models for outcomes in seeds]
    if statistic is not None or not all(isinstance(outcomes, np.ndarray) and outcomes.ndim == 1 for outcomes in every):
        return models, None
    counts = with_outcomes(metric, every)
    return [[outcomes[counts] for outcomes in seeds] for seeds in models], counts


def _patterns(units: int, permutations: int, rng: np.random.Generator, cells: int) -> Iterator[Values]:
    """Rows of 0 and 1, which samples or clusters are exchanged; all of them where they are no more than asked for."""
    if units < 60 and 2**units <= permutations + 1:
        yield ((np.arange(2**units)[:, None] >> np.arange(units)) & 1).astype(np.float64)
        return
    rows = max(1, cells // units)
    for first in range(0, permutations, rows):
        part = min(rows, permutations - first)
        yield rng.integers(0, 2, (part, units), dtype=np.int8).astype(np.float64)


def _of_means(models: Any, at: np.ndarray) -> Any:
    """For means: exchanges ``[r, u]`` to differences ``[r, j, i]`` of model j less model i."""
    values = np.stack([np.mean(seeds, axis=0) for seeds in models], axis=1)  # samples, models
    by_unit = np.zeros((int(at.max()) + 1, values.shape[1]))
    np.add.at(by_unit, at, values / len(values))

    def differences(pattern: Values) -> Values:
        sums = (1 - 2 * pattern) @ by_unit
        table: Values = sums[:, :, None] - sums[:, None, :]
        return table

    return differences


def _of_pairs(
    metric: str, models: Sequence[Sequence[Outcomes]], compute: Statistic, at: np.ndarray, *, aligns: bool
) -> Any:
    """The same for any metric, pair by pair."""
    pairs: dict[tuple[int, int], list[Difference]] = {}
    for i, j in itertools.combinations(range(len(models)), 2):
        sides = zip(models[i], models[j], strict=True)
        pairs[i, j] = [difference_of(compute, *(aligned(metric, *both) if aligns else both)) for both in sides]

    def differences(pattern: Values) -> Values:
        pattern = pattern[:, at]
        table = np.zeros((len(pattern), len(models), len(models)))
        for (i, j), measures in pairs.items():
            table[:, j, i] = np.mean([measure(pattern, np.ones_like(pattern)) for measure in measures], axis=0)
            table[:, i, j] = -table[:, j, i]
        return table

    return differences


def _units(null: Values, rounding: float) -> Values:
    """Standard deviation of each difference under exchanges ``[r, j, i]``; infinite where two models never differ."""
    missing = np.isinf(null)
    spread = np.sqrt(np.where(missing, 0.0, null**2).sum(axis=0) / np.maximum(1, (~missing).sum(axis=0)))
    return np.where(spread > rounding, spread, np.where(missing.any(axis=0), 1.0, np.inf))


def _freedom(models: Sequence[Sequence[Outcomes]], at: np.ndarray) -> int:
    """Count the samples, or clusters, on which two models differ, on average over pairs and seeds, less one."""
    count, differing = len(models[0][0]), []
    for first, second in itertools.combinations(models, 2):
        for a, b in zip(first, second, strict=True):
            same_form = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape
            rows = (a != b).reshape(count, -1).any(axis=1) if same_form else np.ones(count, dtype=bool)
            differing.append(len(np.unique(at[rows])))
    return max(1, round(float(np.mean(differing))) - 1)


def _student(null: Values, draws: int, freedom: int, rng: np.random.Generator) -> Values:
    """Draw Student's variates with the covariance of standardised exchanges ``[r, j, i]``."""
    finite = np.where(np.isfinite(null), null, 0.0).reshape(len(null), -1)
    normal = rng.standard_normal((draws, len(null))) @ finite / np.sqrt(len(null))
    scale = np.sqrt(rng.chisquare(freedom, (draws, 1)) / freedom)
    drawn: Values = (normal / scale).reshape(-1, *null.shape[1:])
    return drawn


def _step_down(size: Values, null: Values, near: float, *, exact: bool) -> list[float]:
    """Adjusted p of each model from standardised differences ``[j, i]`` and those under exchanges ``[r, j, i]``."""
    largest, worst = size.max(axis=0), null.max(axis=1)
    left = list(np.argsort(-largest, kind="stable"))
    p, running = [1.0] * len(largest), 0.0
    while left:
        reached = int((worst[:, left].max(axis=1) >= largest[left[0]] - near).sum())
        running = max(running, reached / len(worst) if exact else (1 + reached) / (1 + len(worst)))
        p[left.pop(0)] = running
    return p


def _over_seeds(
    models: Sequence[Sequence[Outcomes]],
    compute: Statistic,
    observed: Values,
    resamples: int,
    rng: np.random.Generator,
    at: np.ndarray,
    rounding: float,
) -> list[float]:
    """Student's p over seeds and samples that no other model is better, Holm's over all pairs."""
    from scipy.stats import t as student

    count, units = len(models[0][0]), int(at.max()) + 1
    plain = np.ones((1, count))
    by_seed = np.array([[float(compute(outcomes, plain)[0]) for outcomes in seeds] for seeds in models])
    drawn = np.concatenate(
        [
            np.stack(
                [np.mean([compute(outcomes, rows[:, at]) for outcomes in seeds], axis=0) for seeds in models], axis=1
            )
            for rows in resamples_of(units, resamples, rng, cells=max(1, CELLS * units // count))
        ]
    )
    pairs = list(itertools.combinations(range(len(models)), 2))
    values = []
    for i, j in pairs:
        differences = by_seed[j] - by_seed[i]
        between = drawn[:, j] - drawn[:, i]
        between = between[np.isfinite(between)]
        total, freedom = with_seeds(tuple(differences), float(between.std()) if len(between) else 0.0)
        size = abs(float(differences.mean()))
        values.append(float(2 * student.sf(size / total, freedom)) if total > rounding else float(size <= rounding))
    p = [1.0] * len(models)
    for (i, j), value in zip(pairs, holm(values), strict=True):
        if observed[j, i] != 0:
            worse = i if observed[j, i] > 0 else j
            p[worse] = min(p[worse], value)
    return p

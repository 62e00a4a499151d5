"""Scores of parts of a test set: each with its interval, which differ from the rest, and how bad the worst one is."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paired_scores.clusters import cluster_interval
from paired_scores.labels import as_labels, cluster_labels, names_of
from paired_scores.metrics import METRICS, score_outcomes, wilson
from paired_scores.metrics.arrays import UndefinedMetricError, require_sampling
from paired_scores.metrics.score import resamples_of
from paired_scores.paired import (
    CELLS,
    Outcomes,
    Statistic,
    as_floats,
    direction_of,
    holm,
    is_mean,
    numbered,
    range_of,
    rounding_of,
    value_of,
    with_outcomes,
)

__all__ = ["Slice", "Slices", "slice_scores"]

FEWEST = 5
"""Samples (or clusters) from which on a slice is tested and may be the worst."""
_BAND = 0.005
"""Error of the band of all slices within which the worst one's interval stays."""
_WORK = 400_000_000


@dataclass(frozen=True)
class Slice:
    """One part of the test samples.

    Example:
        >>> hits = np.array([1.0] * 60 + [0.0] * 20)
        >>> day, night = slice_scores("acc@1", hits, ["day"] * 40 + ["night"] * 40).rows
        >>> night.name, night.samples, night.value, night.difference
        ('night', 40, 0.5, -0.5)
    """

    name: str
    samples: int
    value: float | None  # None where the metric has no value on so few samples
    low: float | None  # ends of the slice's own interval; None where there is no value, or one sample or cluster
    high: float | None
    difference: float | None  # from the value of all other samples
    p: float | None  # two-sided, of the permutation test against all others; None where it is not tested
    p_adjusted: float | None = None  # after Holm's correction


@dataclass(frozen=True)
class Slices:
    """All parts of the test samples by one property.

    Args:
        rows: slices, in order of their names.
        worst: name of the one with the worst value among those of at least 5 samples; empty for fewer than two.
        low: ends of an interval of the worst slice's value that accounts for its having been chosen; None without one.
        high: its upper end.
        gap: the best value less the worst, among the same slices.
        p_gap: of the permutation test of the gap.
        clusters: of samples that belong together, or None.

    Example:
        >>> hits = np.array([1.0] * 60 + [0.0] * 20)
        >>> slices = slice_scores("acc@1", hits, ["day"] * 40 + ["night"] * 40)
        >>> slices.worst, slices.gap, slices.p_gap < 0.01
        ('night', 0.5, True)
    """

    rows: tuple[Slice, ...]
    worst: str = ""
    low: float | None = None
    high: float | None = None
    gap: float | None = None
    p_gap: float | None = None
    clusters: int | None = None


def slice_scores(
    metric: str,
    outcomes: Outcomes,
    slices: Sequence[str],
    *,
    direction: str | None = None,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    resamples: int = 2000,
    permutations: int = 1999,
    level: float = 0.95,
    statistic: Statistic | None = None,
    within: tuple[float, float] | None = None,
) -> Slices:
    r"""Score each slice of the test samples, test it against the rest, and bound the worst one.

    The permutation test exchanges slices between samples; between whole clusters where each cluster is in one slice,
    and within clusters else. p values are corrected for the number of slices by Holm's method.

    The worst of K noisy values looks worse than it is. Its interval is the hybrid one of Andrews, Kitagawa and
    McCloskey: it inverts the distribution of the value, cut off at the next worst
    slice's value, since another slice would have been chosen above it (of shares, by
    a randomised binomial). It stays within the band that holds all slices at once with probability 0.995.

    Args:
        metric: a name of `paired_scores.metrics`, or of a metric that is the mean of one number per sample.
        outcomes: of each sample, along the first axis.
        slices: the slice of each sample.
        direction: ``"higher"`` or ``"lower"`` is better; by default as the metric has it, "higher" for another name.
        clusters: a label for each sample; samples with the same label belong together.
        seed: of all draws.
        resamples: of bootstraps.
        permutations: of the tests; fewer where there are many samples.
        level: of the intervals.
        statistic: outcomes and weights ``[r, n]`` to values ``[r]``, in place of the metric's own.
        within: the least and the largest value that the metric can have, as `cluster_interval` takes them.

    Raises:
        ValueError: not a label for each sample, two labels of one name, another direction, an infinite outcome, a level
            outside (0, 1), fewer than 2 resamples or 1 permutation.

    Example:
        >>> right = np.array([1.0] * 80 + [0.0] * 20 + [1.0] * 95 + [0.0] * 5)
        >>> parts = slice_scores("acc@1", right, ["night"] * 100 + ["day"] * 100)
        >>> parts.worst, parts.rows[1].value, parts.rows[1].p_adjusted < 0.05
        ('night', 0.8, True)

    Source:
        Holm, Scandinavian Journal of Statistics 6, 1979. Andrews, Kitagawa and McCloskey, Inference on
        Winners, Quarterly Journal of Economics 139, 2024.
    """
    sign = 1.0 if direction_of(metric, direction) == "higher" else -1.0
    require_sampling(level=level, seed=seed, resamples=(resamples, 2), permutations=(permutations, 1))
    names = names_of(as_labels(slices, "slices", missing=True), "slices")
    if len(names) != len(outcomes):
        raise ValueError(f"slices: {len(names)} labels for {len(outcomes)} samples; expected one for each")
    clusters = None if clusters is None else cluster_labels(clusters, len(names))
    if statistic is None:
        outcomes = as_floats(metric, outcomes)
        if outcomes.ndim == 1:
            counts = np.flatnonzero(with_outcomes(metric, [outcomes]))
            outcomes, names = outcomes[counts], [names[at] for at in counts]
            clusters = None if clusters is None else [clusters[int(at)] for at in counts]
    groups = None if clusters is None else numbered(clusters)
    order = sorted(set(names))
    place = {name: at for at, name in enumerate(order)}
    parts = np.array([place[name] for name in names], dtype=np.int64)
    compute = statistic or value_of(metric)
    sizes = np.bincount(parts, minlength=len(order))
    means = is_mean(metric, statistic)
    fast = None if means else compute
    values = _values(fast, outcomes, parts, len(order))
    rng = np.random.default_rng(seed)
    units = [len(np.unique(part if groups is None else groups[part])) for part in
             (np.flatnonzero(parts == at) for at in range(len(order)))]  # fmt: skip
    able = [at for at, count in enumerate(units) if count >= FEWEST and np.isfinite(values[at])]
    how: dict[str, Any] = {
        "seed": seed, "resamples": resamples, "level": level, "statistic": statistic,
        "within": range_of(metric, statistic) if within is None else within,
    }  # fmt: skip
    rows = []
    for at, name in enumerate(order):
        low, high = _own(metric, outcomes, np.flatnonzero(parts == at), groups, how)
        finite = float(values[at]) if np.isfinite(values[at]) else None
        rows.append(Slice(name, int(sizes[at]), finite, low, high, None, None))
    total = None if groups is None else len(np.unique(groups))
    if len(able) < 2:
        return Slices(tuple(rows), clusters=total)
    rest = _values(fast, outcomes, parts, len(order), others=True)
    differences = values - rest
    count = _permutations(permutations, len(names), len(order))
    rounding = rounding_of([outcomes])
    gap = float(values[able].max() - values[able].min())
    drawn, against = _under_exchange(fast, outcomes, parts, len(order), groups, rng, count)
    p = (1 + (~(np.abs(against) < np.abs(differences) - rounding)).sum(axis=0)) / (1 + count)
    gap_hits = int((~(np.ptp(drawn[:, able], axis=1) < gap - rounding)).sum())
    adjusted = holm([float(p[at]) for at in able]) if len(order) > 2 else [float(p[at]) for at in able]
    for at, corrected in zip(able, adjusted, strict=True):
        rows[at] = replace(rows[at], difference=float(differences[at]), p=float(p[at]), p_adjusted=corrected)
    worst = min(able, key=lambda at: sign * values[at])
    ends = _worst(outcomes, parts, groups, able, worst, values, sign, rng, resamples, level, compute, means)
    least, most = how["within"]
    low, high = (None if end is None else min(most, max(least, end)) for end in ends)
    return Slices(tuple(rows), order[worst], low, high, gap, (1 + gap_hits) / (1 + count), total)


def _permutations(most: int, samples: int, slices: int) -> int:
    return min(most, max(199, _WORK // max(1, samples * slices)))


def _values(
    compute: Statistic | None, outcomes: Outcomes, parts: np.ndarray, count: int, *, others: bool = False
) -> np.ndarray:
    """The metric on each part, or on all samples but that part; NaN where it has none. Without a function, means."""
    if compute is None:
        sums, sizes = np.bincount(parts, outcomes, count), np.bincount(parts, minlength=count)
        if others:
            sums, sizes = sums.sum() - sums, sizes.sum() - sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            means: np.ndarray = sums / sizes
        return means
    weights = (parts[None, :] == np.arange(count)[:, None]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        values: np.ndarray = np.asarray(compute(outcomes, 1 - weights if others else weights), dtype=float)
    return values


def _under_exchange(
    compute: Statistic | None,
    outcomes: Outcomes,
    parts: np.ndarray,
    slices: int,
    groups: np.ndarray | None,
    rng: np.random.Generator,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Values of all slices, and their differences from the rest, with slices exchanged so many times."""
    if compute is None and groups is None and bool(np.isin(outcomes, (0.0, 1.0)).all()):
        sizes, total = np.bincount(parts, minlength=slices), int(outcomes.sum())
        hits = rng.multivariate_hypergeometric(sizes, total, count)  # of a slice, all that its value depends on
        values = hits / sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            return values, values - (total - hits) / (len(parts) - sizes)
    rows = []
    for _ in range(count):
        shuffled = _exchanged(parts, groups, rng)
        drawn = _values(compute, outcomes, shuffled, slices)
        rows.append((drawn, drawn - _values(compute, outcomes, shuffled, slices, others=True)))
    return np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows])


def _exchanged(parts: np.ndarray, groups: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Slices dealt to other samples: of whole clusters that are in one slice each, else within clusters."""
    if groups is None:
        return rng.permutation(parts)
    first = np.unique(groups, return_index=True)[1]
    if (parts == parts[first][groups]).all():
        dealt: np.ndarray = rng.permutation(parts[first])[groups]
        return dealt
    order = np.lexsort((np.arange(len(groups)), groups))
    mixed = np.lexsort((rng.random(len(groups)), groups))
    shuffled = np.empty_like(parts)
    shuffled[order] = parts[mixed]
    return shuffled


def _own(
    metric: str,
    outcomes: Outcomes,
    members: np.ndarray,
    groups: np.ndarray | None,
    how: Mapping[str, Any],
) -> tuple[float | None, float | None]:
    """A slice's own interval, as if it had been the whole test set; `how` is what `cluster_interval` takes."""
    part = _taken(outcomes, members)
    if groups is not None:
        mine = groups[members].tolist()
        if len(set(mine)) < 2:
            return None, None
        _, low, high = cluster_interval(metric, part, mine, **how)
        return (low, high) if math.isfinite(low) else (None, None)
    if how["statistic"] is None and metric in METRICS:
        drawing = {name: how[name] for name in ("seed", "resamples", "level")}
        try:
            score = score_outcomes(metric, part, **drawing)
        except (UndefinedMetricError, ValueError):
            return None, None
        return score.low, score.high
    if len(members) < 2:
        return None, None
    _, low, high = cluster_interval(metric, part, range(len(members)), **how)
    return (low, high) if math.isfinite(low) else (None, None)


def _taken(outcomes: Outcomes, members: np.ndarray) -> Outcomes:
    return outcomes[members] if isinstance(outcomes, np.ndarray) else outcomes.take(members)


def _worst(
    outcomes: Outcomes,
    parts: np.ndarray,
    groups: np.ndarray | None,
    able: Sequence[int],
    worst: int,
    values: np.ndarray,
    sign: float,
    rng: np.random.Generator,
    resamples: int,
    level: float,
    compute: Statistic,
    means: bool,
) -> tuple[float | None, float | None]:
    """An interval of the worst slice's value, given that it was chosen as the worst."""
    from scipy.stats import t as student

    members = np.flatnonzero(parts == worst)
    runner_up = float(sign * min(sign * values[at] for at in able if at != worst))
    value, size = float(values[worst]), len(members)
    is_share = means and bool(np.isin(outcomes, (0.0, 1.0)).all())
    freedom = math.inf if groups is None else len(np.unique(groups[members])) - 1
    furthest = float(student.isf(_BAND / 2 / len(able), freedom))
    tail = ((1 - level) - _BAND) / (1 - _BAND) / 2
    if is_share and groups is None:
        shares = (value, runner_up) if sign > 0 else (1 - value, 1 - runner_up)
        chance = _binomial_chance(round(shares[0] * size), shares[1] * size, size, furthest, float(rng.random()))
        low, high = _inverted(chance, wilson(shares[0], size, 1 - _BAND / len(able)), tail)
        return (low, high) if sign > 0 else (1 - high, 1 - low)
    error = _error(outcomes, members, groups, rng, resamples, compute)
    at, limit = sign * value, sign * runner_up  # the worst is the lowest
    if is_share:  # log-odds, of half a sample more of either kind
        ends = [(size * share + 0.5) / (size + 1) for share in (value, runner_up)]
        at, limit = (sign * math.log(end / (1 - end)) for end in ends)
        error = max(math.sqrt(1 / (size * ends[0] * (1 - ends[0]))), error / (ends[0] * (1 - ends[0])))
    if not (error > 0 and math.isfinite(error)):
        return None, None
    limit = max(limit, at + 0.05 * error)  # of equal values either may have been chosen
    bottom = float(student.cdf(-furthest, freedom))

    def chance_at(centre: float) -> float:
        """Probability of a value as low as seen, given that it is below the others' lowest and within the band."""
        top = float(student.cdf(min((limit - centre) / error, furthest), freedom))
        below = float(student.cdf((at - centre) / error, freedom))
        return (below - bottom) / max(top - bottom, 1e-300)

    low, high = _inverted(chance_at, (at - furthest * error, at + furthest * error), tail)
    low, high = sorted((sign * low, sign * high))
    return (1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))) if is_share else (low, high)


def _binomial_chance(hits: int, limit: float, size: int, furthest: float, part: float) -> Callable[[float], float]:
    """Probability of fewer hits, or (in part) of as many, given that they are not above the limit, by their share.

    The part is drawn: near the limit one count holds a fifth of the probability, and half of it would cover too often.
    Half of the draws at the limit would have chosen this slice, the others one that is equal.
    """
    from scipy.special import bdtr

    def up_to(count: int, share: float) -> float:
        return float(bdtr(count, size, share)) if count >= 0 else 0.0

    last = math.floor(limit + 1e-9)
    is_tie = abs(limit - last) < 1e-9

    def chance(share: float) -> float:
        reach = furthest * math.sqrt(share * (1 - share) * size)
        first, top = math.floor(share * size - reach), min(last, math.ceil(share * size + reach))
        bottom = up_to(first - 1, share)
        tied = 0.5 * (up_to(last, share) - up_to(last - 1, share)) if is_tie and top == last else 0.0
        weight = part * (0.5 if is_tie and hits == last else 1.0)
        below = up_to(hits - 1, share)
        below += weight * (up_to(hits, share) - below)
        return (below - bottom) / max(up_to(top, share) - tied - bottom, 1e-300)

    return chance


def _inverted(chance: Callable[[float], float], band: tuple[float, float], tail: float) -> tuple[float, float]:
    """Centres, within a band, at which the probability falls to both tails."""
    from scipy.optimize import brentq

    bounds = []
    for end in (1 - tail, tail):
        first, last = (chance(at) - end for at in band)
        inside = first > 0 > last
        bound = brentq(lambda centre, end=end: chance(centre) - end, *band) if inside else band[int(last >= 0)]
        bounds.append(float(bound))
    return bounds[0], bounds[1]


def _error(
    outcomes: Outcomes,
    members: np.ndarray,
    groups: np.ndarray | None,
    rng: np.random.Generator,
    resamples: int,
    compute: Statistic,
) -> float:
    part = _taken(outcomes, members)
    at = np.arange(len(members)) if groups is None else numbered(groups[members].tolist())
    count = int(at.max()) + 1
    drawn = np.concatenate(
        [
            compute(part, weights[:, at])
            for weights in resamples_of(count, resamples, rng, cells=max(1, CELLS * count // len(members)))
        ]
    )
    return float(np.nanstd(drawn)) * math.sqrt(count / (count - 1))

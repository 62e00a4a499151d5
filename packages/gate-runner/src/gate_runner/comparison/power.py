"""How many test samples, seeds or benchmarks it takes to see a difference, from runs' own per-sample outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from gate_data.ragged import Outcomes
from gate_runner.comparison.paired import Statistic, resamples_of, value_of
from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type

_NORMAL = NormalDist()
_RESAMPLES = 1000


@dataclass(frozen=True)
class Power:
    r"""What a benchmark can tell.

    Args:
        name: the benchmark's.
        metric: its headline metric.
        samples: test samples that it has now.
        seeds: with which it was run.
        spread: standard deviation of one sample's contribution to the difference, in the metric's unit.
        between: standard deviation of the difference between seeds, in the metric's unit; None for one seed.
        power: probability that a paired test sees the difference with today's samples and seeds.
        smallest: the difference that today's samples and seeds show with the wanted probability.
        samples_needed: for the difference, with today's seeds' spread left out.
        seeds_needed: with today's samples; 0 where no number of seeds suffices, None where there is one seed.
        paired: False where one run was given, and the other is taken to be unrelated: an upper bound.

    Example:
        >>> one = Power("digits", "acc@1", 360, 1, 0.4, None, 0.76, 0.06, 12_559, None, True)
        >>> one.samples_needed > one.samples
        True
    """

    name: str
    metric: str
    samples: int
    seeds: int
    spread: float
    between: float | None
    power: float
    smallest: float
    samples_needed: int
    seeds_needed: int | None
    paired: bool


@dataclass(frozen=True)
class PowerReport:
    """What one run, or two, can tell.

    Args:
        difference: that is to be seen, in the metrics' unit.
        alpha: of the two-sided test.
        wanted: the probability to see it.
        benchmarks: one row each.
        benchmarks_needed: how many benchmarks it takes to see that the mean over benchmarks differs, from the
            differences on those that two runs share; None for one run or fewer than three.
        left_out: benchmarks without outcomes in both runs, with the reason.

    Example:
        >>> PowerReport(0.01, 0.05, 0.8, (), None, ("digits: not in both runs",)).left_out[0]
        'digits: not in both runs'
    """

    difference: float
    alpha: float
    wanted: float
    benchmarks: tuple[Power, ...]
    benchmarks_needed: int | None
    left_out: tuple[str, ...]


def power_of(
    first: StoredRun,
    second: StoredRun | None = None,
    *,
    difference: float = 0.01,
    alpha: float = 0.05,
    wanted: float = 0.8,
    seed: int = 0,
) -> PowerReport:
    r"""How large a difference the benchmarks of a run show, and what it takes to show a smaller one.

    With $\sigma$ the standard deviation of one sample's contribution to the difference (the paired bootstrap's error
    times $\sqrt n$), $\tau$ that of seeds and S seeds, the difference's error is $\sqrt{\sigma^2 / n + \tau^2 / S}$. A
    two-sided test of level $\alpha$ sees a difference d with probability
    $\Phi(d / \text{error} - z_{1 - \alpha / 2})$, so that
    $n = (z_{1 - \alpha / 2} + z_\text{wanted})^2 \sigma^2 / d^2$ samples suffice.

    Args:
        first: a run.
        second: another on the same samples. Without it, the other model is taken to be as variable and unrelated,
            $\sigma = \sqrt 2 \sigma_1$: similar models agree on most samples and need fewer.
        difference: to be seen, in the metrics' unit (0.01 is one point of accuracy), > 0.
        alpha: level of the two-sided test, in (0, 1).
        wanted: probability to see it, in (0, 1), larger than alpha.
        seed: of the bootstrap.

    Returns:
        A row per benchmark, and the number of benchmarks for a mean over them.

    Raises:
        UsageError: a number out of its range, or no benchmark with outcomes (in both); the message shows which.

    Numerics:
        A normal approximation: with fewer than about 30 samples, or fewer than 5 wrong answers, it is rough.

    Source:
        The sample size of a paired z test, e.g. Miller, Adding Error Bars to Evals, 2024, section 5.

    Example:
        >>> from gate_runner.runs.stored import read_run
        >>> power_of(read_run(Path("runs/a")), difference=0.02).benchmarks[0].samples_needed  # doctest: +SKIP
        2140
    """
    if not difference > 0 or not math.isfinite(difference):
        raise UsageError(f"the difference to see must be positive, not {difference}")
    if not 0 < alpha < wanted < 1:
        raise UsageError(f"expected 0 < alpha < power < 1, got alpha {alpha} and power {wanted}")
    rows, gaps, left_out = [], [], []
    for name in dict.fromkeys(result.name for result in first.results):
        sides, reason = _outcomes(name, first, second)
        if reason:
            left_out.append(f"{name}: {reason}")
            continue
        result = next(one for one in first.named(name) if one.scores)
        metric = result.scores[0].metric
        by_seed, spread = _spread(known_task_type(result.task).statistic(metric) or value_of(metric), sides, seed)
        rows.append(_row(name, metric, sides, by_seed, spread, difference, alpha, wanted))
        gaps.append(float(np.mean(by_seed)))
    if not rows:
        raise UsageError(f"nothing to compute power from ({'; '.join(left_out)})")
    needed = None
    if second is not None and len(gaps) >= 3:
        needed = max(2, _count(float(np.std(gaps, ddof=1)), difference, alpha, wanted))
    return PowerReport(difference, alpha, wanted, tuple(rows), needed, tuple(left_out))


def samples_needed(spread: float, difference: float, *, alpha: float = 0.05, wanted: float = 0.8) -> int:
    r"""Paired samples for a two-sided test: $\lceil (z_{1 - \alpha / 2} + z_\text{wanted})^2 \sigma^2 / d^2 \rceil$.

    Args:
        spread: $\sigma$, the standard deviation of one sample's difference.
        difference: d > 0, in the same unit.
        alpha: level of the test.
        wanted: probability to see the difference.

    Returns:
        At least 1.

    Example:
        >>> samples_needed(0.5, 0.02)
        4906
    """
    return _count(spread, difference, alpha, wanted)


def _count(spread: float, difference: float, alpha: float, wanted: float) -> int:
    return max(1, math.ceil((_reach(alpha, wanted) * spread / difference) ** 2))


def _reach(alpha: float, wanted: float) -> float:
    return _NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(wanted)


def _outcomes(name: str, first: StoredRun, second: StoredRun | None) -> tuple[list[list[Outcomes]], str]:
    """Outcomes of one run or two by seed, of the seeds that both have; or why there are none."""
    runs = [first] if second is None else [first, second]
    found = [{one.seed: one for one in run.named(name) if one.status == "ok"} for run in runs]
    for run, results in zip(runs, found, strict=True):
        if not results:
            return [], f"no finished result in {run.label}"
    seeds = sorted(set.intersection(*(set(results) for results in found)))
    if not seeds:
        return [], "no seed in common"
    if len({one.data.get("sha256") for results in found for one in results.values()}) > 1:
        return [], "the runs saw different data"
    return [[run.outcomes(results[seed]) for seed in seeds] for run, results in zip(runs, found, strict=True)], ""


def _spread(measure: Statistic, sides: list[list[Outcomes]], seed: int) -> tuple[list[float], float]:
    """The difference (of one run: the metric) with each seed, and one sample's standard deviation."""
    count = len(sides[0][0])
    even = np.ones((1, count))

    def value(which: int, weights: np.ndarray) -> np.ndarray:
        found = [measure(side[which], weights) for side in sides]
        return found[0] if len(found) == 1 else found[1] - found[0]

    seeds = range(len(sides[0]))
    by_seed = [float(value(which, even)[0]) for which in seeds]
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            np.mean([value(which, weights) for which in seeds], axis=0)
            for weights in resamples_of(count, _RESAMPLES, rng)
        ]
    )
    error = float(np.nanstd(drawn))
    return by_seed, error * math.sqrt(count) * (math.sqrt(2) if len(sides) == 1 else 1.0)


def _row(
    name: str,
    metric: str,
    sides: list[list[Outcomes]],
    by_seed: Sequence[float],
    spread: float,
    difference: float,
    alpha: float,
    wanted: float,
) -> Power:
    count, seeds = len(sides[0][0]), len(by_seed)
    unrelated = math.sqrt(2) if len(sides) == 1 else 1.0
    between = float(np.std(by_seed, ddof=1)) * unrelated if seeds > 1 else None
    variance = spread**2 / count
    error = math.sqrt(variance + (between or 0.0) ** 2 / seeds)
    reach = _reach(alpha, wanted)
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
        samples_needed=_count(spread, difference, alpha, wanted),
        seeds_needed=seeds_needed,
        paired=len(sides) == 2,
    )

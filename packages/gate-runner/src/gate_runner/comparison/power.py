"""What runs' own per-sample outcomes say of the samples, seeds or benchmarks that it takes to see a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gate_data.ragged import Outcomes, taken
from gate_runner.comparison.by_slice import groups_in
from gate_runner.errors import UsageError
from gate_runner.runs.item_subsets import samples_asked
from gate_runner.runs.stored import Stored, StoredRun, read_runs
from gate_runner.tasks.registry import known_task_type
from paired_scores.power import Power, power_of_outcomes, samples_needed


@dataclass(frozen=True)
class PowerReport:
    """What one run, or two, can tell."""

    difference: float  # that is to be seen, in the metrics' unit
    alpha: float  # of the two-sided test
    wanted: float  # the probability to see it
    benchmarks: tuple[Power, ...]
    # How many benchmarks it takes to see that the mean over benchmarks differs, from the differences on those that two
    # runs share; None for one run or fewer than three.
    benchmarks_needed: int | None
    left_out: tuple[str, ...]  # benchmarks without outcomes in both runs, with the reason


def power(
    first: Stored,
    second: Stored | None = None,
    *,
    difference: float = 0.01,
    alpha: float = 0.05,
    wanted: float = 0.8,
    seed: int = 0,
) -> PowerReport:
    r"""How large a difference the benchmarks of a run show, and what it takes to show a smaller one.

    See `paired_scores.power.power_of_outcomes`.

    Args:
        first: a run, or its folder.
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

    Example:
        >>> import tempfile
        >>> import gate_runner
        >>> folder = tempfile.mkdtemp()
        >>> done = gate_runner.run("digits", encoder="micro-clip/random", output=folder, limit=40, show=False)
        >>> power(done, difference=0.05).benchmarks[0].samples_needed > 40
        True
    """
    try:
        samples_needed(1.0, difference, alpha=alpha, power=wanted)
    except ValueError as error:
        raise UsageError(str(error)) from error
    runs = read_runs([first] if second is None else [first, second])
    rows, left_out = [], []
    for name in dict.fromkeys(result.name for result in runs[0].results):
        sides, counted, reason = _outcomes(name, runs)
        if reason:
            left_out.append(f"{name}: {reason}")
            continue
        result = next(result for result in runs[0].named(name) if result.scores)
        metric = result.scores[0].metric
        statistic = known_task_type(result.task).statistic(metric)
        groups = groups_in([(run, next(row for row in run.named(name) if row.scores)) for run in runs])
        if groups is not None and counted is not None:
            groups = [groups[int(at)] for at in counted]
        how = {"difference": difference, "alpha": alpha, "power": wanted, "seed": seed}
        options = {"name": name, "clusters": groups, **how}
        rows.append(power_of_outcomes(metric, *sides, statistic=statistic, **options))  # type: ignore[arg-type]  # named
    if not rows:
        raise UsageError(f"nothing to compute power from ({'; '.join(left_out)})")
    needed = None
    if len(runs) == 2 and len(rows) >= 3:
        spread = float(np.std([np.mean(row.by_seed) for row in rows], ddof=1))
        needed = max(2, samples_needed(spread, difference, alpha=alpha, power=wanted))
    return PowerReport(difference, alpha, wanted, tuple(rows), needed, tuple(left_out))


def _outcomes(name: str, runs: Sequence[StoredRun]) -> tuple[list[list[Outcomes]], np.ndarray | None, str]:
    """Outcomes of one run or two, of the seeds that both have, and which samples count; or why there are none."""
    by_seed = [{result.seed: result for result in run.named(name) if result.status == "ok"} for run in runs]
    for run, results in zip(runs, by_seed, strict=True):
        if not results:
            return [], None, f"no finished result in {run.label}"
        if any(result.imported for result in results.values()):
            return [], None, f"{run.label} was imported, without outcomes"
    seeds = sorted(set.intersection(*(set(results) for results in by_seed)))
    if not seeds:
        return [], None, "no seed in common"
    if len({result.data.get("sha256") for results in by_seed for result in results.values()}) > 1:
        return [], None, "the runs saw different data"
    if len({samples_asked(result) for results in by_seed for result in results.values()}) > 1:
        return [], None, "the runs asked for other test samples each"
    sides = [[run.outcomes(results[seed]) for seed in seeds] for run, results in zip(runs, by_seed, strict=True)]
    if len({len(outcomes) for side in sides for outcomes in side}) > 1:
        return [], None, "the runs have other numbers of outcomes"
    plain = [outcomes for side in sides for outcomes in side if isinstance(outcomes, np.ndarray) and outcomes.ndim == 1]
    counted = np.flatnonzero(~np.isnan(plain).any(axis=0)) if plain else None  # NaN: a sample that counts for nothing
    if counted is not None:
        sides = [[taken(outcomes, counted) for outcomes in side] for side in sides]
    return sides, counted, "" if counted is None or len(counted) else "no sample counts in all of them"

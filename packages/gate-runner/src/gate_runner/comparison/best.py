"""Runs of many encoders against the best of them, which the same test samples picked."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from statistics import NormalDist

from gate_data.ragged import Ragged
from gate_runner.comparison.by_slice import groups_in
from gate_runner.comparison.contrasts import refuse_other_conditions
from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type
from paired_scores.best import worse_than_another
from paired_scores.clusters import cluster_interval
from paired_scores.metrics import METRICS, score_outcomes


def worse_runs(runs: Sequence[StoredRun]) -> dict[str, float]:
    """Return for each run's label the adjusted p value of "no other run's encoder is better".

    Of samples in groups, whole groups are exchanged.

    Args:
        runs: of one benchmark each, on the same data.

    Raises:
        UsageError: the runs saw other data, or with other settings; outcomes that cannot be paired.
    """
    name = runs[0].results[0].name
    for run in runs[1:]:
        refuse_other_conditions(name, runs[0], run)
    first = runs[0].named(name)[0]
    score = first.scores[0]
    try:
        p = worse_than_another(
            score.metric,
            [[run.outcomes(result) for result in run.named(name)] for run in runs],
            direction="lower" if score.direction == "lower" else "higher",
            statistic=known_task_type(first.task).statistic(score.metric),
            clusters=groups_in([(run, run.named(name)[0]) for run in runs]),
        )
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    return dict(zip([run.label for run in runs], p, strict=True))


def interval_among(run: StoredRun, encoders: int, alpha: float) -> tuple[float, float]:
    """Return an interval of the run's headline that holds for all encoders of a choice at once, the chosen one too.

    Each has the level 1 - alpha / encoders (Bonferroni): picking the best of them leaves the joint level as it is. With
    several seeds the ends are means over seeds. Of samples in groups, the wider of the samples' and the groups' counts.
    """
    level = 1 - alpha / encoders
    ends = []
    for result in run.named(run.results[0].name):
        score = result.scores[0]
        outcomes = run.outcomes(result)
        kind = known_task_type(result.task)
        own = kind.statistic(score.metric)
        if score.metric in METRICS and own is None and not isinstance(outcomes, Ragged):
            wide = score_outcomes(score.metric, outcomes, level=level, resamples=4_000)
            low, high = wide.low, wide.high
            groups = groups_in([(run, result)])
            if groups is not None:
                _, *of_groups = cluster_interval(score.metric, outcomes, groups, level=level, resamples=4_000)
                low, high = min(low, of_groups[0]), max(high, of_groups[1])
            ends.append((low, high))
        else:  # resampled by the task: its distances from the value are scaled as those of a normal distribution
            times = NormalDist().inv_cdf((1 + level) / 2) / NormalDist().inv_cdf(0.975)
            least, most = kind.within(score.metric, score.direction, outcomes)
            low = max(least, score.value - times * (score.value - score.low))
            ends.append((low, min(most, score.value + times * (score.high - score.value))))
    return statistics.fmean(low for low, _ in ends), statistics.fmean(high for _, high in ends)

"""Two runs within each slice of the test samples: a paired test of each, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gate_data.near_splits import NEAR
from gate_data.original_files import GROUP
from gate_runner.runs.results import Result
from gate_runner.runs.slicing import from_rows
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type
from paired_scores.paired import PairedTest, holm, paired_test


@dataclass(frozen=True)
class SliceContrast:
    """One slice of a benchmark, two runs.

    Args:
        first: label of the run that is compared with.
        second: label of the other.
        name: the benchmark's.
        by: the property that samples are sliced by.
        slice: its value.
        test: values, difference (second less first), interval and p values.
        p_adjusted: ``test.p`` after Holm's correction over all slices of all contrasts.
    """

    first: str
    second: str
    name: str
    by: str
    slice: str
    test: PairedTest
    p_adjusted: float = 1.0


def groups_in(tested: Sequence[tuple[StoredRun, Result]]) -> list[str] | None:
    """Return the group of each test sample, if all results are of the same several groups; else None."""
    if not tested or not all("clusters" in result.training for _, result in tested):
        return None
    columns = [from_rows(run.tested(result)).get(GROUP) for run, result in tested]
    return columns[0] if all(column == columns[0] for column in columns) else None


def slice_contrasts(
    first: StoredRun, second: StoredRun, name: str, *, resamples: int, permutations: int, seed: int
) -> list[SliceContrast]:
    """Return a paired test for each slice of at least two samples (or groups) of a benchmark."""
    ours, theirs = first.named(name), second.named(name)
    columns = _columns(first, second, ours, theirs)
    sliced = {by: values for by, values in columns.items() if by not in (GROUP, NEAR)}
    if not sliced:
        return []
    groups = columns.get(GROUP)
    sides: list[list[Any]] = [[run.outcomes(result) for result in results] for run, results in
                              ((first, ours), (second, theirs))]  # fmt: skip
    metric = ours[0].scores[0].metric
    statistic = known_task_type(ours[0].task).statistic(metric)
    contrasts = []
    for by, values in sliced.items():
        for value in sorted(set(values)):
            members = np.flatnonzero(np.array(values) == value)
            mine = None if groups is None else [groups[at] for at in members]
            if len(members if mine is None else set(mine)) < 2:
                continue
            parts = [[_taken(outcomes, members) for outcomes in side] for side in sides]
            try:
                test = paired_test(
                    metric, *parts, seed=seed, resamples=resamples, permutations=permutations, statistic=statistic,
                    clusters=mine,
                )  # fmt: skip
            except ValueError:  # a slice on which the metric has no value
                continue
            contrasts.append(SliceContrast(first.label, second.label, name, by, value, test))
    return contrasts


def corrected(contrasts: Sequence[SliceContrast]) -> tuple[SliceContrast, ...]:
    """Return them with p values corrected by Holm's method over all of them."""
    adjusted = holm([contrast.test.p for contrast in contrasts])
    return tuple(replace(contrast, p_adjusted=p) for contrast, p in zip(contrasts, adjusted, strict=True))


def _columns(
    first: StoredRun, second: StoredRun, ours: Sequence[Result], theirs: Sequence[Result]
) -> dict[str, list[str]]:
    """What both runs kept of each test sample."""
    sides = [from_rows(run.tested(results[0])) for run, results in ((first, ours), (second, theirs))]
    return {name: values for name, values in sides[0].items() if sides[1].get(name) == values}


def _taken(outcomes: Any, members: np.ndarray) -> Any:
    return outcomes[members] if isinstance(outcomes, np.ndarray) else outcomes.take(members)

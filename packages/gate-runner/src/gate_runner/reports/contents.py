"""What a report shows, before any form is given to it: a row per benchmark, a cell per run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from gate_data.imports import named
from gate_runner.charts.table import Table
from gate_runner.comparison.by_slice import groups_in
from gate_runner.runs.item_subsets import samples_asked
from gate_runner.runs.results import IMPORTED, Result, other_versions, untrained
from gate_runner.runs.stored import StoredRun
from gate_runner.settings import Settings
from gate_runner.tasks.registry import known_task_type, task_types
from paired_scores.best import worse_than_another

_PERMUTATIONS = 1999
SWEEP = "elevater"
"""The task type of a sweep's units, which `TaskType.overview` shows."""
_OF_SOURCE = {"micro": "synthetic stand-in", "file": "own data", IMPORTED: "imported"}
PHASES = ("data", "encode", "train", "test")


@dataclass(frozen=True)
class Cell:
    """One run on one benchmark, its seeds taken together; value, interval and chance are means over them."""

    value: float | None = None  # headline metric; None where there is no score
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    by_seed: tuple[float, ...] = ()
    share: float | None = None  # (value - chance) / (perfect - chance), negative below chance
    rank: int | None = None  # 1 for the best of the row; None where there are not two values that can be ranked
    near_best: bool = False  # not significantly worse than another value of the row, and not its best
    reason: str = ""  # why there is no score
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase, summed over seeds
    joules: float | None = None  # over devices and seeds; None where nothing was measured
    curve: tuple[tuple[tuple[float, float], ...], ...] = ()  # for each seed steps and validation values


@dataclass(frozen=True)
class Row:
    """One benchmark."""

    name: str  # in reports; stand-ins begin with micro/
    benchmark: str
    source: str
    task: str
    metric: str  # the headline's; empty where every run failed
    direction: str
    note: str
    samples: int
    mixed: str  # why the values cannot be ranked (other data, other limits); empty where they can
    cells: Mapping[str, Cell]  # by label; a run that did not run the benchmark has none
    untrained: float | None = None  # what the untrained encoder scores on the same data, where that is shipped

    @property
    def chance(self) -> float | None:
        """What the best answer scores that never looks; None where nobody finished."""
        return next((cell.chance for cell in self.cells.values() if cell.chance is not None), None)

    @property
    def shown_metric(self) -> str:
        """The headline metric, with an arrow to its better side."""
        return f"{self.metric} {'↑' if self.direction == 'higher' else '↓'}" if self.metric else "no score"

    @property
    def ranked(self) -> bool:
        """Whether the runs' values are compared."""
        return any(cell.rank for cell in self.cells.values())


@dataclass(frozen=True)
class Contents:
    """All that a report shows."""

    runs: tuple[StoredRun, ...]
    rows: tuple[Row, ...]  # by task type, then name
    mean_ranks: Mapping[str, float]  # by label, over the benchmarks that all runs finished; empty for one run
    shares: Mapping[str, Mapping[str, float]]  # by label and task type, the mean of Cell.share

    @property
    def labels(self) -> list[str]:
        """What the runs are called."""
        return [run.label for run in self.runs]

    @property
    def swept(self) -> dict[str, str]:
        """Sources of the data sets over which a sweep went, by name; its units have no rows."""
        units = [result for run in self.runs for result in run.results if result.task == SWEEP]
        return {result.name.partition("@")[0]: result.source for result in units}

    @property
    def not_comparable(self) -> str:
        """Which rows hold values that must not be compared, and why; empty where there are none."""
        reasons: dict[str, list[str]] = {}
        for row in self.rows:
            if row.mixed:
                reasons.setdefault(row.mixed.partition(": ")[2], []).append(row.name)
        parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
        return f"Not comparable between runs: {'; '.join(parts)}." if parts else ""

    @property
    def other_versions(self) -> str:
        """Which packages of ours had several versions within a row; empty where none had."""
        names: dict[str, list[str]] = {}
        for row in self.rows:
            for package in other_versions(result for run in self.runs for result in run.named(row.name)):
                names.setdefault(package, []).append(row.name)
        parts = [f"{package} ({', '.join(listed)})" for package, listed in names.items()]
        return f"Results of several versions, whose code may differ: {'; '.join(parts)}." if parts else ""

    @property
    def stand_ins(self) -> int:
        """How many benchmarks are synthetic stand-ins."""
        return [*(row.source for row in self.rows), *self.swept.values()].count("micro")


def gather(runs: Sequence[StoredRun], *, tests: bool = True) -> Contents:
    """Arrange runs, whose labels are distinct, as rows of benchmarks.

    ``tests`` looks by paired permutation tests (1,999 permutations, 5 % within a row, over all pairs) which values are
    not significantly worse than another of their row.
    """
    results: dict[str, dict[str, tuple[Result, ...]]] = {}
    for run in runs:
        for result in run.results:
            if result.task != SWEEP:  # hundreds of units, whose tables are the overview's
                results.setdefault(result.name, {})[run.label] = run.named(result.name)
    order = {task: index for index, task in enumerate(task_types())}
    names = sorted(results, key=lambda name: (order.get(_with_score(results[name]).task, len(order)), name))
    labelled = {run.label: run for run in runs}
    rows = [_row(results[name], labelled, tests) for name in names]
    shares: dict[str, dict[str, float]] = {}
    for label in labelled:
        per_task: dict[str, list[float]] = {}
        for row in rows:
            if label in row.cells and (share := row.cells[label].share) is not None:
                per_task.setdefault(row.task, []).append(share)
        shares[label] = {task: fmean(values) for task, values in per_task.items()}
    return Contents(tuple(runs), tuple(rows), _mean_ranks(rows, list(labelled)), shares)


def overviews(runs: Sequence[StoredRun]) -> list[Table]:
    """Of each task type that has them, tables over all its results."""
    tasks = dict.fromkeys(result.task for run in runs for result in run.results)
    tables: list[Table] = []
    for task in tasks:
        maker = known_task_type(task).overview
        if maker:
            warning = other_data(runs, task)
            made = named(maker)(runs)
            tables += [replace(table, warning=warning) for table in made] if warning else made
    return tables


def other_data(runs: Sequence[StoredRun], task: str) -> str:
    """Return which benchmarks of a task type the runs saw on different data; empty where that is none."""
    digests: dict[tuple[str, int], set[str]] = {}
    for result in (result for run in runs for result in run.results):
        if result.task == task and result.status == "ok":
            digests.setdefault((result.name, result.seed), set()).add(str(result.data.get("sha256")))
    names = dict.fromkeys(name for (name, _), seen in digests.items() if len(seen) > 1)
    return f"Not comparable between runs, which saw different data: {', '.join(names)}." if names else ""


def joules_of(energy: Mapping[str, Any]) -> float | None:
    """Joules over all devices; None where nothing was measured."""
    totals = [phases["total"] for phases in energy.get("joules", {}).values() if "total" in phases]
    return float(sum(totals)) if totals else None


def _with_score(by_label: Mapping[str, tuple[Result, ...]]) -> Result:
    """A result with a score where there is one."""
    every = [result for results in by_label.values() for result in results]
    return next((result for result in every if result.scores), every[0])


def _row(by_label: Mapping[str, tuple[Result, ...]], runs: Mapping[str, StoredRun], tests: bool) -> Row:
    example = _with_score(by_label)
    direction = example.scores[0].direction if example.scores else "higher"
    cells, mixed = {label: _cell(results) for label, results in by_label.items()}, _mixed(by_label)
    if not mixed:
        cells = _ranked(cells, direction)
        if tests:
            cells = _near_best(cells, by_label, runs)
    return Row(
        name=example.name,
        benchmark=example.benchmark,
        source=example.source,
        task=example.task,
        metric=example.scores[0].metric if example.scores else "",
        direction=direction,
        note=example.note or _OF_SOURCE.get(example.source, ""),
        samples=int(example.data.get("test", 0)),
        mixed=mixed,
        cells=cells,
        untrained=None if mixed else untrained(example),
    )


def _cell(results: Sequence[Result]) -> Cell:
    seconds = {phase: sum(float(result.seconds.get(phase, 0.0)) for result in results) for phase in (*PHASES, "total")}
    joules = [joules_of(result.energy) for result in results]
    energy = sum(value for value in joules if value is not None) if None not in joules else None
    failed = [result for result in results if result.status != "ok"]
    if failed:
        return Cell(reason=failed[0].reason or "no reason given", seconds=seconds, joules=energy)
    scores = [result.scores[0] for result in results]
    value, low, high, chance = (
        _mean_of([getattr(score, name) for score in scores]) for name in ("value", "low", "high", "chance")
    )
    assert value is not None
    perfect = 1.0 if scores[0].direction == "higher" else 0.0
    return Cell(
        value,
        low,
        high,
        chance,
        by_seed=tuple(score.value for score in scores),
        share=None if chance is None or perfect == chance else (value - chance) / (perfect - chance),
        seconds=seconds,
        joules=energy,
        curve=tuple(_curve(result.training) for result in results),
    )


def _mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None where a value is not known."""
    mean = fmean(values)
    return None if math.isnan(mean) else mean


def _curve(training: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    points = []
    for row in training.get("validation", ()):
        values = [value for key, value in row.items() if key != "step"]
        if values:
            points.append((float(row["step"]), float(values[0])))
    return tuple(points)


def _mixed(by_label: Mapping[str, tuple[Result, ...]]) -> str:
    """In what the runs differ that must agree; how the encoder was trained is what may be compared."""
    done = [result for results in by_label.values() for result in results if result.status == "ok"]
    modes = Settings.modes()
    conditions = [{name: value for name, value in result.settings.items() if name not in modes} for result in done]
    if len({result.imported for result in done}) > 1:
        return "not ranked: some scores were imported, on data that are unknown"
    for aspect, values in (
        ("data", {str(result.data.get("sha256")) for result in done}),
        ("settings", {str(sorted(settings.items())) for settings in conditions}),
        ("metrics", {result.scores[0].metric for result in done}),
    ):
        if len(values) > 1:
            return f"not ranked: the runs saw different {aspect}"
    return ""


def _ranked(cells: Mapping[str, Cell], direction: str) -> dict[str, Cell]:
    sign = 1 if direction == "higher" else -1
    values = {label: sign * cell.value for label, cell in cells.items() if cell.value is not None}
    if len(values) < 2:
        return dict(cells)
    ranks = {label: 1 + sum(other > value for other in values.values()) for label, value in values.items()}
    return {label: replace(cell, rank=ranks.get(label)) for label, cell in cells.items()}


def _near_best(
    cells: Mapping[str, Cell], results: Mapping[str, tuple[Result, ...]], runs: Mapping[str, StoredRun]
) -> dict[str, Cell]:
    """Mark what is not significantly worse than another; runs with other seeds or samples are not tested."""
    best = next((label for label, cell in cells.items() if cell.rank == 1), None)
    if best is None or any(result.imported for listed in results.values() for result in listed):
        return dict(cells)
    conditions = {label: [(result.seed, samples_asked(result)) for result in results[label]] for label in cells}
    compared = [
        label
        for label, cell in cells.items()
        if label != best and cell.value is not None and conditions[label] == conditions[best]
    ]
    metric = results[best][0].scores[0].metric
    statistic = known_task_type(results[best][0].task).statistic(metric)
    outcomes = {label: [runs[label].outcomes(result) for result in results[label]] for label in (best, *compared)}
    if any(len(outcomes[label][0]) != len(outcomes[best][0]) for label in compared):
        return dict(cells)
    p = worse_than_another(
        metric,
        list(outcomes.values()),
        direction="lower" if results[best][0].scores[0].direction == "lower" else "higher",
        resamples=400,
        permutations=_PERMUTATIONS,
        statistic=statistic,
        clusters=groups_in([(runs[label], results[label][0]) for label in outcomes]),
    )
    near = {label for label, value in zip(outcomes, p, strict=True) if label != best and value > 0.05}
    return {label: replace(cell, near_best=label in near) for label, cell in cells.items()}


def _mean_ranks(rows: Sequence[Row], labels: Sequence[str]) -> dict[str, float]:
    shared = [row for row in rows if all(label in row.cells and row.cells[label].rank for label in labels)]
    if len(labels) < 2 or not shared:
        return {}
    return {label: fmean(row.cells[label].rank or 0 for row in shared) for label in labels}

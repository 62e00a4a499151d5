"""What a report shows, before any form is given to it: a row per benchmark, a cell per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from gate_data.imports import named
from gate_runner.charts.table import Table
from gate_runner.comparison import holm, paired_test
from gate_runner.runs.estimated import samples_asked
from gate_runner.runs.results import Result, untrained
from gate_runner.runs.stored import StoredRun
from gate_runner.settings import Settings
from gate_runner.tasks.registry import known_task_type, task_types

_PERMUTATIONS = 1999
SWEEP = "elevater"
"""The task type of a sweep's units, which `TaskType.overview` shows."""
PHASES = ("data", "encode", "train", "test")


@dataclass(frozen=True)
class Cell:
    """One run on one benchmark, its seeds taken together.

    Args:
        value: headline metric, mean over seeds; None where there is no score.
        low: lower end of the 95 % interval, mean over seeds.
        high: upper end likewise.
        chance: mean over seeds.
        by_seed: the value with each seed.
        share: how far from chance to perfect, (value - chance) / (perfect - chance); negative below chance.
        rank: 1 for the best value of the row; None where there are not two values that can be ranked.
        near_best: the paired test does not tell this value from the row's best.
        reason: why there is no score.
        seconds: by phase, summed over seeds.
        joules: in total over devices and seeds; None where nothing was measured.
        curve: for each seed steps and validation values.
        direction: ``"higher"`` or ``"lower"`` is better.

    Example:
        >>> Cell(value=0.8, low=0.7, high=0.9, chance=0.1, share=0.78).near_best
        False
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    by_seed: tuple[float, ...] = ()
    share: float | None = None
    rank: int | None = None
    near_best: bool = False
    reason: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    joules: float | None = None
    curve: tuple[tuple[tuple[float, float], ...], ...] = ()
    direction: str = "higher"


@dataclass(frozen=True)
class Row:
    """One benchmark.

    Args:
        name: in reports; stand-ins begin with ``micro/``.
        benchmark: its id.
        source: where the data came from.
        task: its task type.
        metric: the headline metric; empty where every run failed.
        direction: ``"higher"`` or ``"lower"`` is better.
        note: e.g. "synthetic stand-in".
        samples: how many were tested.
        mixed: why the runs' values cannot be ranked (other data, other limits); empty where they can.
        cells: by label; a run that did not run the benchmark has none.
        untrained: what the untrained encoder scores on the same data, where that is shipped.

    Example:
        >>> Row("digits", "digits", "built-in", "image-classification", "acc@1", "higher", "", 360, "", {}).samples
        360
    """

    name: str
    benchmark: str
    source: str
    task: str
    metric: str
    direction: str
    note: str
    samples: int
    mixed: str
    cells: Mapping[str, Cell]
    untrained: float | None = None


@dataclass(frozen=True)
class Contents:
    """All that a report shows.

    Args:
        runs: in the order given.
        rows: by task type, then name.
        mean_ranks: for each label its mean rank over the benchmarks that all runs finished; empty for one run.
        shares: for each label and task type the mean of ``Cell.share``.

    Example:
        >>> Contents(runs=(), rows=(), mean_ranks={}, shares={}).labels
        []
    """

    runs: tuple[StoredRun, ...]
    rows: tuple[Row, ...]
    mean_ranks: Mapping[str, float]
    shares: Mapping[str, Mapping[str, float]]

    @property
    def labels(self) -> list[str]:
        """What the runs are called."""
        return [run.label for run in self.runs]

    @property
    def tasks(self) -> list[str]:
        """The task types that occur, in the order of `task_types`."""
        return list(dict.fromkeys(row.task for row in self.rows))

    @property
    def swept(self) -> dict[str, str]:
        """Sources of the data sets over which a sweep went, by name; its units have no rows."""
        units = [result for run in self.runs for result in run.results if result.task == SWEEP]
        return {result.name.partition("@")[0]: result.source for result in units}

    @property
    def stand_ins(self) -> int:
        """How many benchmarks are synthetic stand-ins."""
        return [*(row.source for row in self.rows), *self.swept.values()].count("micro")

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        """Label, benchmark and reason of every failure."""
        return [(label, row.name, cell.reason) for row in self.rows for label, cell in row.cells.items() if cell.reason]


def gather(runs: Sequence[StoredRun], *, tests: bool = True) -> Contents:
    """Arrange runs as rows of benchmarks.

    Args:
        runs: with distinct labels, at least one.
        tests: look by paired permutation tests (1,999 permutations, Holm within a row, 5 %) which values cannot be
            told from the best of their row.

    Returns:
        The contents of a report.

    Raises:
        DataError: per-sample outcomes that a test needs cannot be read.

    Example:
        >>> from gate_runner.runs.stored import read_runs
        >>> gather(read_runs([Path("runs/a"), Path("runs/b")])).mean_ranks  # doctest: +SKIP
        {'a': 1.2, 'b': 1.8}
    """
    results: dict[str, dict[str, tuple[Result, ...]]] = {}
    for run in runs:
        for result in run.results:
            if result.task == SWEEP:
                continue  # hundreds of units, whose tables are the overview's
            results.setdefault(result.name, {})[run.label] = run.named(result.name)
    order = {task: index for index, task in enumerate(task_types())}
    names = sorted(results, key=lambda name: (order.get(_with_score(results[name]).task, len(order)), name))
    rows = [_row(results[name], {run.label: run for run in runs}, tests) for name in names]
    shares: dict[str, dict[str, float]] = {}
    for run in runs:
        per_task: dict[str, list[float]] = {}
        for row in rows:
            share = row.cells[run.label].share if run.label in row.cells else None
            if share is not None:
                per_task.setdefault(row.task, []).append(share)
        shares[run.label] = {task: fmean(values) for task, values in per_task.items()}
    return Contents(tuple(runs), tuple(rows), _mean_ranks(rows, [run.label for run in runs]), shares)


def _with_score(by_label: Mapping[str, tuple[Result, ...]]) -> Result:
    """A result with a score where there is one."""
    every = [result for results in by_label.values() for result in results]
    return next((result for result in every if result.scores), every[0])


def _row(by_label: Mapping[str, tuple[Result, ...]], runs: Mapping[str, StoredRun], tests: bool) -> Row:
    example = _with_score(by_label)
    cells = {label: _cell(results) for label, results in by_label.items()}
    mixed = _mixed(by_label)
    if not mixed:
        cells = _ranked(cells)
        if tests:
            cells = _near_best(cells, by_label, runs)
    return Row(
        name=example.name,
        benchmark=example.benchmark,
        source=example.source,
        task=example.task,
        metric=example.scores[0].metric if example.scores else "",
        direction=example.scores[0].direction if example.scores else "higher",
        note=example.note or {"micro": "synthetic stand-in", "file": "own data"}.get(example.source, ""),
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
    value, chance = (fmean(getattr(score, name) for score in scores) for name in ("value", "chance"))
    perfect = 1.0 if scores[0].direction == "higher" else 0.0
    return Cell(
        value=value,
        low=fmean(score.low for score in scores),
        high=fmean(score.high for score in scores),
        chance=chance,
        by_seed=tuple(score.value for score in scores),
        share=(value - chance) / (perfect - chance) if perfect != chance else None,
        seconds=seconds,
        joules=energy,
        curve=tuple(_curve(result.training) for result in results),
        direction=scores[0].direction,
    )


def joules_of(energy: Mapping[str, Any]) -> float | None:
    """Joules over all devices; None where nothing was measured."""
    totals = [phases["total"] for phases in energy.get("joules", {}).values() if "total" in phases]
    return float(sum(totals)) if totals else None


def chance_of(row: Row) -> float | None:
    """What the best answer scores that never looks; None where nobody finished."""
    return next((cell.chance for cell in row.cells.values() if cell.chance is not None), None)


def _curve(training: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    points = []
    for row in training.get("validation", ()):
        values = [value for key, value in row.items() if key != "step"]
        if values:
            points.append((float(row["step"]), float(values[0])))
    return tuple(points)


def _mixed(by_label: Mapping[str, tuple[Result, ...]]) -> str:
    done = [result for results in by_label.values() for result in results if result.status == "ok"]
    for aspect, values in (
        ("data", {str(result.data.get("sha256")) for result in done}),
        ("settings", {str(sorted(_conditions(result).items())) for result in done}),
        ("metrics", {result.scores[0].metric for result in done}),
    ):
        if len(values) > 1:
            return f"not ranked: the runs saw different {aspect}"
    return ""


def _conditions(result: Result) -> dict[str, Any]:
    """The settings that must agree; how the encoder was trained is what may be compared."""
    return {name: value for name, value in result.settings.items() if name not in Settings.modes()}


def _ranked(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    values = [_signed(cell) for cell in cells.values() if cell.value is not None]
    if len(values) < 2:
        return dict(cells)
    return {
        label: cell if cell.value is None else replace(cell, rank=1 + sum(value > _signed(cell) for value in values))
        for label, cell in cells.items()
    }


def _signed(cell: Cell) -> float:
    assert cell.value is not None
    return cell.value if cell.direction == "higher" else -cell.value


def _near_best(
    cells: Mapping[str, Cell], results: Mapping[str, tuple[Result, ...]], runs: Mapping[str, StoredRun]
) -> dict[str, Cell]:
    """Mark what a paired test does not tell from the best; runs with other seeds are not tested."""
    best = next((label for label, cell in cells.items() if cell.rank == 1), None)
    if best is None:
        return dict(cells)
    seeds, tested = [result.seed for result in results[best]], [samples_asked(result) for result in results[best]]
    compared = [
        label
        for label, cell in cells.items()
        if label != best
        and cell.value is not None
        and [result.seed for result in results[label]] == seeds
        and [samples_asked(result) for result in results[label]] == tested
    ]
    metric = results[best][0].scores[0].metric
    statistic = known_task_type(results[best][0].task).statistic(metric)
    outcomes = {label: [runs[label].outcomes(result) for result in results[label]] for label in (best, *compared)}
    tests = [
        paired_test(
            metric,
            outcomes[best],
            outcomes[label],
            resamples=400 if len(seeds) > 1 else 1,
            permutations=_PERMUTATIONS,
            statistic=statistic,
        ).p
        for label in compared
        if len(outcomes[label][0]) == len(outcomes[best][0])
    ]
    near = (
        {label for label, p in zip(compared, holm(tests), strict=True) if p > 0.05}
        if len(tests) == len(compared)
        else set()
    )
    return {label: replace(cell, near_best=label in near) for label, cell in cells.items()}


def _mean_ranks(rows: Sequence[Row], labels: Sequence[str]) -> dict[str, float]:
    shared = [row for row in rows if all(label in row.cells and row.cells[label].rank for label in labels)]
    if len(labels) < 2 or not shared:
        return {}
    return {label: fmean(row.cells[label].rank or 0 for row in shared) for label in labels}


def overviews(runs: Sequence[StoredRun]) -> list[Table]:
    """Of each task type that has them, tables over all its results."""
    tasks = dict.fromkeys(result.task for run in runs for result in run.results)
    makers = [known_task_type(task).overview for task in tasks]
    return [table for maker in makers if maker for table in named(maker)(runs)]

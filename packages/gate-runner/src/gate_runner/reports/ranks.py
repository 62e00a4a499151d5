"""Ranks that say who is tied: simultaneous intervals of every run's place, on other benchmarks and on other samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from gate_data.ragged import Ragged
from gate_runner.charts.markup import joined, note, table
from gate_runner.reports.contents import Contents, Row
from gate_runner.runs.item_subsets import samples_asked
from gate_runner.tasks.registry import known_task_type

if TYPE_CHECKING:
    from eevee import Outcomes, Ranking
    from eevee.answers.leaderboard import Place


def ranks(contents: Contents, others: Ranking | None) -> str:
    """A row for each run, and what is decided; ``others`` is the board on other benchmarks.

    Empty where there are too few runs or benchmarks to say it.
    """
    samples = on_other_samples(contents)
    boards = {"other benchmarks": others, "other test samples": samples}
    shown = {question: board for question, board in boards.items() if board is not None}
    if not shown:
        return ""
    first = others or samples
    assert first is not None
    by_label = [{place.model: place for place in board.places} for board in shown.values()]
    rows = [
        [place.model, f"{place.mean_rank:.1f}", f"{place.borda:.2f}", _strength(place)]
        + [between(places[place.model].first, places[place.model].last) for places in by_label]
        for place in first.places
    ]
    notes = [
        f"On {question}, {board.decided} of {board.pairs} pairs of runs are decided; the best may be "
        f"{', '.join(board.leaders)}."
        for question, board in shown.items()
    ]
    explained = (
        "The ranks that each run may have, all with 95 % at once; runs whose ranks overlap may be tied. Other "
        "benchmarks ask what holds in general, other test samples what holds on these, of those whose score is a mean "
        "over samples. Borda is the share of the others that a run beats; strength is Bradley and Terry's."
    )
    heads = ["Run", "mean rank", "Borda", "strength", *(f"rank on {question}" for question in shown)]
    return joined([note(explained), *map(note, notes), table(heads, rows)])


def _strength(place: Place) -> str:
    return f"{place.strength:+.2f} ({place.strength_low:+.2f} to {place.strength_high:+.2f})".replace("-", "−")


def between(first: int, last: int) -> str:
    """The ranks that a run may have."""
    return f"{first} to {last}" if last > first else str(first)


def on_other_benchmarks(contents: Contents) -> Ranking | None:
    """None for too few runs, or benchmarks that they share."""
    from eevee import Benchmark, EeveeError, Metric, ResultTable, rank_models

    rows = [row for row in contents.rows if row.ranked]
    values = [[_value(row, label) for row in rows] for label in contents.labels]
    metrics = tuple(Metric(row.name, row.name, cast(Literal["higher", "lower"], row.direction)) for row in rows)
    try:
        table = ResultTable("runs", tuple(contents.labels), metrics, tuple(Benchmark(row.name) for row in rows), values)  # type: ignore[arg-type]  # it makes an array of them
        return rank_models(table)
    except EeveeError:
        return None


def _value(row: Row, label: str) -> float:
    cell = row.cells.get(label)
    return float("nan") if cell is None or cell.value is None else cell.value


def on_other_samples(contents: Contents) -> Ranking | None:
    """None for too few runs, or no benchmark that all finished with a score for each sample."""
    from eevee import EeveeError, rank_outcomes

    boards = {row.name: board for row in contents.rows if (board := _outcomes(contents, row)) is not None}
    try:
        return rank_outcomes(boards)
    except EeveeError:
        return None


def _outcomes(contents: Contents, row: Row) -> Outcomes | None:
    """What each run made of each test sample, its seeds taken together; None where that is not the score."""
    from eevee import EeveeError, Outcomes

    whole = row.ranked and row.direction == "higher" and known_task_type(row.task).single_samples
    if not whole or not all(label in row.cells and row.cells[label].rank for label in contents.labels):
        return None
    by_run = []
    for run in contents.runs:
        results = run.named(row.name)
        if any(result.imported for result in results):
            return None
        outcomes = [run.outcomes(result) for result in results if samples_asked(result) == "all"]
        seeds = [seed for seed in outcomes if not isinstance(seed, Ragged) and seed.ndim == 1]
        if len(seeds) < len(results):
            return None
        by_run.append(np.mean(seeds, axis=0))
    try:
        return Outcomes(row.name, tuple(contents.labels), tuple(map(str, range(len(by_run[0])))), np.stack(by_run))
    except (EeveeError, ValueError):  # too few runs or samples, other numbers of samples, or nothing to tell them apart
        return None

"""The table of scores, a row per benchmark under its task type and a column per run; and how figures are written."""

from __future__ import annotations

import math
from itertools import groupby

from gate_runner.charts.markup import joined, note, piece, rendered, table
from gate_runner.reports.contents import Cell, Contents, Row


def scores_table(contents: Contents) -> str:
    """The section's markup; empty where there are no rows."""
    if not contents.rows:
        return ""
    groups = [
        (
            task.replace("-", " ").capitalize(),
            [
                (row, _tags(row), [(cell, _strip(row, cell)) for cell in map(row.cells.get, contents.labels)])
                for row in rows
            ],
        )
        for task, rows in groupby(contents.rows, key=lambda row: row.task)
    ]
    explained = note(
        "Value and 95 % interval of the headline metric, and where they lie between chance (upright line) and perfect "
        "(right end)."
    )
    drawn = rendered("scores.html", labels=contents.labels, groups=groups, number=number)
    return joined([explained, piece("scroll", drawn, "Table of scores")])


def _tags(row: Row) -> list[str]:
    """What stands below a benchmark's name."""
    metric = row.shown_metric
    metric += "" if row.chance is None else f", chance {number(row.chance)}"
    metric += "" if row.untrained is None else f", untrained {number(row.untrained)}"
    return [metric, *filter(None, (row.note, row.mixed))]


def _strip(row: Row, cell: Cell | None) -> dict[str, float | None] | None:
    """Where interval, value and chance lie on the row's scale, from 0 to 100."""
    if cell is None or cell.value is None or cell.low is None or cell.high is None:
        return None
    cells = row.cells.values()
    ends = [value for scored in cells for value in (scored.high, scored.chance) if value is not None]
    most = max(ends) * 1.02 if row.direction == "lower" else max(1.0, *ends)
    least = min(0.0, *(scored.low for scored in cells if scored.low is not None))

    def across(value: float) -> float:
        share = (value - least) / ((most - least) or 1.0)
        return 100 * (share if row.direction == "higher" else 1 - share)

    low, high = sorted((across(cell.low), across(cell.high)))
    chance = None if cell.chance is None else across(cell.chance)
    return {"low": low, "width": max(high - low, 0.8), "value": across(cell.value), "chance": chance}


def task_types(contents: Contents) -> str:
    """How far each run goes from chance to perfect by task type, and its mean rank; empty where nothing was run."""
    tasks = list(dict.fromkeys(row.task for row in contents.rows))
    if not tasks:
        return ""
    ranks = contents.mean_ranks
    rows = [
        [label, *(_percent(contents.shares[label].get(task)) for task in tasks)]
        + ([f"{ranks[label]:.1f}"] if ranks else [])
        for label in sorted(contents.labels, key=lambda label: ranks.get(label, 0))
    ]
    explained = "How far from chance (0) to a perfect score (100 %), mean over the benchmarks of each type."
    if ranks:
        explained += " Ranks, 1 for the best, are of the benchmarks that every run finished."
    if contents.not_comparable:
        explained += f" {contents.not_comparable}"
    if contents.other_versions:
        explained += f" {contents.other_versions}"
    return joined([note(explained), table(["Run", *tasks, *(["mean rank"] if ranks else [])], rows)])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}".replace("-", "−")


def number(value: float) -> str:
    """Three figures behind the point, fewer for large numbers; a dash for NaN, which an imported score may have."""
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"

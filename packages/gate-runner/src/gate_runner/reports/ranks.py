"""Ranks, and how far runs go by task type."""

from __future__ import annotations

from gate_runner.charts.markup import joined, note, table
from gate_runner.reports.contents import Cell, Contents


def task_types(contents: Contents) -> str:
    """How far each run goes from chance to perfect, by task type; empty where nothing was run."""
    tasks, shares = contents.tasks, contents.shares
    if not tasks:
        return ""
    rows = [[name, *(_percent(shares[name].get(task)) for task in tasks)] for name in contents.labels]
    explained = "How far from chance (0) to a perfect score (100 %), mean over the benchmarks of each type."
    return joined([note(explained), table(["Run", *tasks], rows)])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}".replace("-", "−")


def ranks(contents: Contents) -> str:
    """Ranks of each benchmark, runs of the best mean rank first; empty for one run."""
    if len(contents.runs) < 2 or not contents.rows:
        return ""
    means = contents.mean_ranks
    labels = sorted(contents.labels, key=lambda name: means.get(name, len(contents.runs)))
    rows = [[row.name, *(_rank(row.cells.get(name)) for name in labels)] for row in contents.rows]
    if means:
        rows.append(["mean rank", *(f"{means[name]:.1f}" for name in labels)])
    near = any(cell.near_best for row in contents.rows for cell in row.cells.values())
    marked = "; ≈ marks what a paired test does not tell from it" if near else ""
    explained = (
        f"1 is the best value of the row{marked}. A rank hides how large a difference is: the table of scores shows it."
    )
    return joined([note(explained), table(["Benchmark", *labels], rows)])


def _rank(cell: Cell | None) -> str:
    if cell is None or cell.rank is None:
        return "×" if cell is not None and cell.reason else "–"
    return f"{cell.rank}{' ≈' if cell.near_best else ''}"

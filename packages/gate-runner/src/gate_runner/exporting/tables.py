"""A run as one table: a row per benchmark, seed and metric, every figure unrounded."""

from __future__ import annotations

from gate_runner.exporting.model import Files, ModelName, published
from gate_runner.files import csv_text
from gate_runner.reports.contents import overviews
from gate_runner.runs.stored import StoredRun

COLUMNS = (
    "model", "encoder", "benchmark", "task", "source", "seed", "metric", "direction", "value", "low", "high", "chance",
    "test_samples", "limit", "note", "status", "reason",
)  # fmt: skip
"""The columns, in order; ``low`` and ``high`` bound the 95 % interval."""


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """``results.csv``, in which failed results are rows, too; ``suites.csv``; and tables over a task type's results.

    ``suites.csv`` has every line of suites' tables; ``detection-by-shots.csv`` and ``detection-sets.csv`` are those of
    detection.
    """
    rows: list[list[object]] = []
    for result in run.results:
        about = [model.id, run.encoder, published(result.name, result.source), result.task, result.source, result.seed]
        circumstances = [result.data.get("test"), result.settings.get("limit")]
        circumstances += [result.note, result.status, result.reason]
        scores = [[s.metric, s.direction, s.value, s.low, s.high, s.chance] for s in result.scores] or [[None] * 6]
        rows += [[*about, *score, *circumstances] for score in scores]
    suites = _suites(run, model)
    over = {f"{result.id}.csv": result.as_csv() for result in overviews([run])}
    return Files({"results.csv": csv_text(COLUMNS, rows), **({"suites.csv": suites} if suites else {}), **over})


def _suites(run: StoredRun, model: ModelName) -> str:
    """A row per line of each compositional suite's table; empty where the run has none."""
    rows: list[dict[str, object]] = []
    for result in run.results:
        for line in result.training.get("suite", {}).get("lines", ()):
            blind = max(line["blind"].items(), key=lambda item: item[1]["value"], default=("", {"value": None}))
            better = line["better_than_blind"] or dict.fromkeys(("value", "low", "high", "p"))
            rows.append(
                {"model": model.id, "benchmark": result.name, "seed": result.seed}
                | {name: value for name, value in line.items() if not isinstance(value, dict)}
                | {"better_than_blind": better["value"]}
                | {f"better_{name}": better[name] for name in ("low", "high", "p")}
                | {"best_blind": blind[0], "best_blind_value": blind[1]["value"]}
            )
    return csv_text(list(rows[0]), (row.values() for row in rows)) if rows else ""

"""A run as one table: a row per benchmark, seed and metric, every figure unrounded."""

from __future__ import annotations

import csv
import io

from gate_runner.exporting.files import Files
from gate_runner.exporting.model import ModelName
from gate_runner.reports.tables import inert
from gate_runner.runs.stored import StoredRun

COLUMNS = (
    "model", "encoder", "benchmark", "task", "source", "seed", "metric", "direction", "value", "low", "high", "chance",
    "test_samples", "limit", "note", "status", "reason",
)  # fmt: skip
"""The columns, in order; ``low`` and ``high`` bound the 95 % interval."""


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """``results.csv``; failed results are rows, too.

    Args:
        run: the run.
        model: what to call its encoder.
        organization: not shown.

    Returns:
        One file.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in run.results:
        known = [model.id, run.encoder, one.name, one.task, one.source, one.seed]
        told = [one.data.get("test"), one.settings.get("limit"), one.note, one.status, one.reason]
        scores = [[s.metric, s.direction, s.value, s.low, s.high, s.chance] for s in one.scores] or [[None] * 6]
        for score in scores:
            writer.writerow([inert(value) if isinstance(value, str) else value for value in (*known, *score, *told)])
    return Files({"results.csv": buffer.getvalue()})

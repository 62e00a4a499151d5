"""Reliability diagrams: how often predictions of some confidence are right, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.plot import Dot, lines_chart
from gate_runner.reports.contents import Contents

_OPEN = 6
"""Diagrams, at most, that show without being opened."""
_NAMES = {"calibration_error": "calibration error", "brier": "Brier score", "log_loss": "log-loss"}


def reliability(contents: Contents) -> str:
    """A diagram for each result whose head was calibrated; empty where none was."""
    drawn = {
        f"{result.name}, {run.label}, seed {result.seed}": _diagram(result.name, record)
        for run in contents.runs
        for result in run.results
        if "bins_before" in (record := result.training.get("calibration") or {})
    }
    if not drawn:
        return ""
    explained = (
        "Test samples in bins of equal mass by the probability of their predicted class; a point's height is how often "
        "it was right, its bar Wilson's 95 % interval. On the diagonal probabilities are right. A temperature is "
        "from labels that the head was not fitted on, and never from the test split."
    )
    few = len(drawn) <= _OPEN
    parts = [joined([piece("headed", name), shown]) if few else folded(name, shown) for name, shown in drawn.items()]
    return joined([note(explained), *parts])


def _diagram(name: str, record: Mapping[str, Any]) -> str:
    """The diagram, its figures, and on how many labels it rests."""
    labels, how = int(record["labels"]), record["how"]
    lines = [("right probabilities", [Dot(end, end, f"{end:.0f}", 0.0) for end in (0.0, 1.0)])]
    for when in ("before", "after") if labels else ("before",):
        lines.append((when, [_dot(row) for row in record[f"bins_{when}"]]))
    rows = [[shown, *(_cell(record[when][metric]) for when in ("before", "after"))] for metric, shown in _NAMES.items()]
    share = f", uniform share {record['uniform']:.2g}" if record.get("uniform") else ""
    fitted = f"temperature {record['temperature']:.3g}{share}"
    rests = f"{fitted} from {labels:,} labels ({how})" if labels else "not calibrated"
    if floor := record.get("floor_after"):
        rests += f"; right probabilities would have a calibration error of {floor[0]:.3f} on as many images"
    chart = lines_chart(
        f"{name}: reliability",
        lines,
        "probability of the predicted class",
        "share that is right",
        across=[(tick / 4, f"{tick / 4:g}") for tick in range(5)],
    )
    return joined([chart, note(rests), folded("Figures", table(["", "before", "after"], rows, words=[0]))])


def _dot(row: Sequence[float]) -> Dot:
    confidence, accuracy, low, high, samples = row
    hint = f"{confidence:.3f}: right {accuracy:.1%} of {int(samples)}"
    return Dot(confidence, accuracy, hint, 2.5, ends=(low, high))


def _cell(values: Sequence[float]) -> str:
    value, low, high = values
    return f"{value:.3f} ({low:.3f}–{high:.3f})"

"""Curves of scores over the strength of each shift, with intervals, and the change from the images as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.plot import Dot, lines_chart
from gate_runner.errors import UsageError
from gate_runner.files import csv_text
from gate_runner.reports.contents import Contents
from gate_runner.reports.scores import number


def shifts(contents: Contents) -> str:
    """A chart and a table for each result that has shifts; empty if none has."""
    parts = []
    for run in contents.runs:
        for result in run.results:
            rows = result.training.get("shifts")
            if rows and result.scores:
                name = f"{result.name}, {run.label}, seed {result.seed}"
                parts.append(joined([piece("headed", name), _shown(name, result.scores[0].value, rows)]))
    if not parts:
        return ""
    explained = (
        "The head is fitted on images as they are. Bars are 95 % intervals over test samples. The change is paired, "
        "from the same samples unshifted; the relative drop is its share of the unshifted score, with the interval's "
        "ends. Corruptions are ImageNet-C's at the encoder's input size; frost is a drawn texture."
    )
    return joined([note(explained), *parts])


def shifts_as_csv(contents: Contents) -> str:
    """Return a row for each shift at each strength, and for each slice under it, every figure unrounded.

    Raises:
        UsageError: no run has shifts.
    """
    heads = ["run", "benchmark", "seed", "metric", "shift", "strength", "by", "slice", "samples", "value"]
    heads += ["change", "change_low", "change_high"]
    rows: list[list[object]] = []
    for run in contents.runs:
        for result in run.results:
            for row in result.training.get("shifts", ()):
                start = [run.label, result.name, result.seed, row["metric"], row["shift"], row["strength"]]
                rows.append([*start, "", "", result.data["test"], row["value"], *row["change"]])
                for part in row.get("slices", ()):
                    rows.append([*start, part["by"], part["slice"], part["samples"], part["value"], *part["change"]])
    if not rows:
        folders = ", ".join(str(run.path) for run in contents.runs)
        raise UsageError(f"--format shifts needs runs with --setting shift=...; {folders} holds none")
    return csv_text(heads, rows)


def _shown(name: str, plain: float, rows: list[Mapping[str, Any]]) -> str:
    by_shift: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_shift.setdefault(row["shift"], []).append(row)
    lines = [
        (
            shift,
            [Dot(0.0, plain, f"{shift}: not shifted, {number(plain)}")]
            + [
                Dot(
                    float(row["strength"]),
                    row["value"],
                    f"{shift} {row['strength']}: {number(row['value'])}",
                    2.5,
                    ends=(row["low"], row["high"]),
                )
                for row in listed
            ],
        )
        for shift, listed in by_shift.items()
    ]
    heads = ["Shift", "strength", "score", "95 % CI", "change", "95 % CI of the change", "relative drop"]
    texts = [
        [
            row["shift"],
            str(row["strength"]),
            number(row["value"]),
            f"{number(row['low'])} to {number(row['high'])}",
            *_change(row["change"], plain),
        ]
        for row in rows
    ]
    drops = [
        [shift, number(sum(row["value"] for row in listed) / len(listed)), _share(listed, plain)]
        for shift, listed in by_shift.items()
    ]
    chart = lines_chart(
        f"{name}: shifts", lines, "strength", "score", across=[(float(tick), str(tick)) for tick in range(6)]
    )
    means = table(["Shift", "mean score", "mean relative drop"], drops, words=[0])
    return joined([chart, means, folded("Every strength", table(heads, texts, words=[0]))])


def _change(change: list[float], plain: float) -> list[str]:
    value, low, high = change
    words = [f"{value:+.3f}".replace("-", "−"), f"{low:+.3f} to {high:+.3f}".replace("-", "−")]
    if not plain:
        return [*words, "–"]
    return [*words, f"{-value / plain:.1%} ({-high / plain:.1%} to {-low / plain:.1%})".replace("-", "−")]


def _share(rows: list[Mapping[str, Any]], plain: float) -> str:
    if not plain:
        return "–"
    return f"{-sum(row['change'][0] for row in rows) / len(rows) / plain:.1%}".replace("-", "−")

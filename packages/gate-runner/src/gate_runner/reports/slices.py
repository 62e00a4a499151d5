"""Scores by slice, as a section of the page and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gate_runner.charts.markup import folded, joined, note, table
from gate_runner.comparison.contrasts import signed
from gate_runner.files import csv_text
from gate_runner.reports.contents import Contents
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun
from paired_scores.slices import FEWEST

_HEADS = ["slice", "samples", "score (95 % interval)", "from the rest", "p (Holm)"]


def slices(contents: Contents) -> str:
    """Return a table for each result and property, the worst slice first; empty where there are none."""
    parts = [
        folded(f"{result.name} by {about['by']}, {run.label}, seed {result.seed}", _table(result, about))
        for run, result, about in _tables(contents)
    ]
    if not parts:
        return ""
    explained = (
        "Each slice is tested against all other samples by permutation; p is corrected over all slices. The "
        "worst slice's interval accounts for its having been chosen. "
        f"Slices of fewer than {FEWEST} samples are not tested."
    )
    return joined([note(explained), *parts])


def slices_as_csv(contents: Contents) -> str:
    """Return a row for each slice, every figure unrounded."""
    heads = ["run", "benchmark", "seed", "metric", "by", "slice", "samples", "value", "low", "high"]
    heads += ["difference", "p", "p_holm", "worst", "worst_low", "worst_high"]
    rows = []
    for run, result, about in _tables(contents):
        start = [run.label, result.name, result.seed, result.scores[0].metric, about["by"]]
        for row in about["rows"]:
            is_worst = row["name"] == about["worst"]
            figures = [row[name] for name in ("value", "low", "high", "difference", "p", "p_adjusted")]
            bounds = [about["low"], about["high"]] if is_worst else ["", ""]
            shown = ["" if figure is None else figure for figure in figures]
            rows.append([*start, row["name"], row["samples"], *shown, int(is_worst), *bounds])
    return csv_text(heads, rows)


def _tables(contents: Contents) -> Iterator[tuple[StoredRun, Result, Mapping[str, Any]]]:
    for run in contents.runs:
        for result in run.results:
            for about in result.training.get("slices", ()):
                yield run, result, about


def _table(result: Result, about: Mapping[str, Any]) -> str:
    sign = 1 if result.scores[0].direction == "higher" else -1
    rows = sorted(about["rows"], key=lambda row: (row["value"] is None, sign * (row["value"] or 0.0)))
    listed = [
        [
            row["name"],
            f"{row['samples']:,}",
            _interval(row["value"], row["low"], row["high"]),
            "–" if row["difference"] is None else signed(row["difference"]),
            "–" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3f}",
        ]
        for row in rows
    ]
    return joined([*map(note, sentences(about)), table(_HEADS, listed)])


def sentences(about: Mapping[str, Any]) -> Iterator[str]:
    """Say which slice is the worst and how wide the gap is."""
    if about["worst"] and about["low"] is not None:
        (value,) = (row["value"] for row in about["rows"] if row["name"] == about["worst"])
        yield (
            f"The worst is {about['worst']} with {value:.3f}; chosen as the worst, it is between {about['low']:.3f} "
            f"and {about['high']:.3f}. The gap to the best is {about['gap']:.3f} (p = {about['p_gap']:.3f})."
        )
    if about["clusters"]:
        yield f"Intervals and tests draw {about['clusters']:,} whole groups."
        if any(row["low"] is None and row["samples"] >= FEWEST for row in about["rows"]):
            yield f"A slice of fewer than {FEWEST} groups has a score alone: no interval, and no test."


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"

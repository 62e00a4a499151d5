"""What differs between runs: each benchmark's difference with its interval and p, as `compare` tests it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gate_runner.charts.markup import joined, note, rendered
from gate_runner.comparison.contrasts import Contrast, compare, signed
from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun

_STYLES = {"better": "gained", "worse": "lost", "gained": "gained", "lost": "lost"}
_MOST_PAIRS = 40
"""Contrasts of a page, of which each takes a paired test."""


def differences(runs: Sequence[StoredRun]) -> str:
    """Runs against the first: a table of two runs, sentences for more; why there is none where they saw other data."""
    shared = set.intersection(*({result.name for result in run.results} for run in runs)) if len(runs) > 1 else set()
    if not shared:
        return ""
    if len(shared) * (len(runs) - 1) > _MOST_PAIRS:
        return note(f"gate-runner compare tests these {len(runs)} runs, benchmark by benchmark.")
    try:
        comparison = compare(*runs, only=sorted(shared))
    except UsageError as error:
        return note(f"Not tested: {error}.")
    sentences = joined(note(sentence) for sentence in comparison.sentences)
    if len(runs) > 2 or not comparison.contrasts:
        return sentences
    first, second = (run.label for run in runs)
    headings = {
        "better": f"{second} is better",
        "worse": f"{first} is better",
        "undecided": "Undecided: the test does not tell the two apart",
    }
    groups = grouped([("", contrast) for contrast in comparison.contrasts], headings)
    return joined([rendered("differences.html", groups=groups, first=first, second=second), sentences])


def grouped(
    contrasts: Sequence[tuple[str, Contrast]], headings: Mapping[str, str]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Rows of a table of differences, under a heading for each verdict, the largest first.

    Args:
        contrasts: each with a word that stands before its metric, which may be empty.
        headings: by verdict, in their order.
    """
    scales = _scales([contrast for _, contrast in contrasts])
    order = sorted(contrasts, key=lambda pair: -abs(pair[1].gain))
    groups = [
        (heading, [_row(kind, contrast, scales) for kind, contrast in order if contrast.verdict == verdict])
        for verdict, heading in headings.items()
    ]
    return [(f"{heading} ({len(rows)})", rows) for heading, rows in groups]


def _ends(contrast: Contrast) -> tuple[float, float]:
    """The interval of the gain, also where a smaller value is better."""
    test = contrast.test
    return (test.low, test.high) if contrast.direction == "higher" else (-test.high, -test.low)


def _scales(contrasts: Sequence[Contrast]) -> dict[str, float]:
    """The largest distance from no change, by scale."""
    scales: dict[str, float] = {}
    for contrast in contrasts:
        name = contrast.unit
        scales[name] = max(scales.get(name, 0.0), *(abs(end) for end in (contrast.gain, *_ends(contrast))))
    return scales


def _row(kind: str, contrast: Contrast, scales: Mapping[str, float]) -> dict[str, Any]:
    name, _, variant = contrast.name.partition("@")
    chance = "" if contrast.chance is None else f", chance {contrast.chance:.3f}"
    return {
        "name": name,
        "tags": [f"{f'{kind}: ' if kind else ''}{contrast.metric}{chance}", *([variant] if variant else [])],
        "before": f"{contrast.test.first:.3f}",
        "after": f"{contrast.test.second:.3f}",
        "p": f"{contrast.p_adjusted:.3f}" if contrast.p_adjusted >= 0.001 else "< 0.001",
        **gain_of(contrast.gain, *_ends(contrast), scales[contrast.unit], contrast.verdict),
    }


def gain_of(gain: float, low: float, high: float, most: float, verdict: str) -> dict[str, Any]:
    """Figures of a gain, and where its bar lies from 0 to 100 around no change at 50."""
    first, value, last = (50 + 50 * end / (most or 1.0) for end in (low, gain, high))
    style = _STYLES.get(verdict, "undecided")
    return {
        "gain": signed(gain),
        "interval": f"{signed(low)} to {signed(high)}",
        "strip": {"low": first, "width": max(last - first, 0.8), "value": value, "style": style},
    }

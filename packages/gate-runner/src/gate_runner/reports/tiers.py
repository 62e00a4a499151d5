"""Means over GATE's tiers and its full pool, and the ranks that follow: the last rows of the paper's table 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from gate_runner.benchmarks.registry import PACKS
from gate_runner.charts.markup import joined, note, table
from gate_runner.reports.contents import Contents

TIERS = ("small", "base", "big", "full")
_WORST_COUNT = 3.0
"""The paper's score of iWildCam is 100 (1 - MAE / 3)."""


class Tier(NamedTuple):
    """A tier of benchmarks: each run's mean in percent, and its rank among those that have one, 1 for the best."""

    name: str
    benchmarks: int
    means: Mapping[str, float | None]
    ranks: Mapping[str, int | None]


def tiers(contents: Contents) -> list[Tier]:
    """Every tier of which a run finished all benchmarks, whose values may be compared between runs.

    Means are of headline scores in percent, errors as 100 (1 - error / 3), as the paper counts iWildCam; stand-ins make
    a tier of their own.
    """
    rows = {row.name: row for row in contents.rows if not row.mixed}
    listed: list[Tier] = []
    for prefix in ("", "micro/"):
        for name in TIERS:
            members = [f"{prefix}{benchmark}" for benchmark in PACKS[name]]
            if not set(members) <= set(rows):
                continue
            means: dict[str, float | None] = {}
            for label in contents.labels:
                cells = [rows[member].cells.get(label) for member in members]
                values = [cell.value if cell is not None else None for cell in cells]
                if any(value is None for value in values):
                    means[label] = None
                    continue
                directions = [rows[member].direction for member in members]
                means[label] = fmean(_percent(value, way) for value, way in zip(values, directions, strict=True))
            known = sorted((value for value in means.values() if value is not None), reverse=True)
            ranks = {label: None if value is None else 1 + known.index(value) for label, value in means.items()}
            if known:
                listed.append(Tier(f"{prefix}{name}", len(members), means, ranks))
    return listed


def _percent(value: float | None, direction: str) -> float:
    assert value is not None
    return 100 * value if direction == "higher" else 100 * max(0.0, 1 - value / _WORST_COUNT)


def shown(contents: Contents) -> str:
    """The table of a report; empty where no run finished a tier."""
    listed = tiers(contents)
    if not listed:
        return ""
    heads = ["Run", *(f"{tier.name} ({tier.benchmarks})" for tier in listed)]
    rows: list[Sequence[str]] = [
        [label, *(_cell(tier.means[label], tier.ranks[label]) for tier in listed)] for label in contents.labels
    ]
    explained = (
        "Means of headline scores over the benchmarks of GATE's tiers, in percent, and the rank among these runs. "
        "Metrics differ between benchmarks: intervals of ranks are in the section above."
    )
    return joined([note(explained), table(heads, rows)])


def _cell(mean: float | None, rank: int | None) -> str:
    return "–" if mean is None else f"{mean:.1f} (rank {rank})"

"""A choice among encoders as a section of the page: what to take, quality against cost, features in fewer bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gate_runner.charts.markup import Section, joined, note, piece, table
from gate_runner.charts.plot import Dot, Line, plot, shortened

if TYPE_CHECKING:
    from gate_runner.choosing import Candidate, Choice
    from gate_runner.encoders.costs import Costs

WORDS = ("encoder", "verdict", "read out", "")
"""Heads of columns that hold words."""


def choice_section(choice: Choice) -> Section:
    """The section."""
    heads, rows = rows_of(choice)
    compressed = [
        [coded.code, f"{coded.row_bytes:,}", f"{coded.value:.3f}", f"{coded.low:.3f}–{coded.high:.3f}"]
        for coded in choice.compressed
    ]
    parts = [
        *map(note, choice.sentences),
        piece("scroll", picture, "Quality against speed") if (picture := _picture(choice)) else "",
        table(heads, rows, words=[number for number, head in enumerate(heads) if number and head in WORDS]),
        note("images/s and ms alone are the encoder's, of decoded pictures; read/s is with reading and decoding."),
        note("The best encoder's features in fewer bytes a picture:") if compressed else "",
        table(["Kept as", "bytes", choice.metric, "95 % CI"], compressed) if compressed else "",
    ]
    return Section("choice", "Which encoder", joined(parts))


def rows_of(choice: Choice) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row of texts for each encoder."""
    heads = ["encoder", choice.metric, "95 % CI for all", "verdict", "p adjusted", "images/s", "read/s", "ms alone",
             "parameters", "weights", "bytes", "$/million", "read out", "Pareto", "judged by", ""]  # fmt: skip
    front = choice.pareto()
    return heads, [_cells(candidate, candidate.encoder in front) for candidate in choice.candidates]


def _cells(candidate: Candidate, front: bool) -> list[str]:
    costs, p = candidate.costs, candidate.p
    if candidate.value is None:
        return [candidate.encoder, "–", "", candidate.verdict, *[""] * 11, candidate.reason]
    spent = ["–"] * 7 if costs is None else _spent(costs, candidate.row_bytes)
    return [
        candidate.encoder,
        f"{candidate.value:.3f}",
        f"{candidate.low:.3f}–{candidate.high:.3f}",
        candidate.verdict,
        "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
        *spent,
        candidate.readout,
        "yes" if front else "",
        f"{candidate.pictures:,}",
        candidate.reason,
    ]


def _spent(costs: Costs, row_bytes: int) -> list[str]:
    return [
        f"{costs.images_per_second:.1f}{' *' if costs.busy else ''}",
        "–" if costs.read_per_second is None else f"{costs.read_per_second:.1f}",
        f"{costs.milliseconds:.1f}",
        "unseen" if costs.parameters is None else f"{costs.parameters / 1e6:.1f} M",
        f"{costs.weight_bytes / 1e6:.0f} MB",
        f"{row_bytes:,}",
        "–" if costs.dollars is None else f"{costs.dollars:.2f}",
    ]


def _picture(choice: Choice) -> str:
    """Score over pictures a second, on a scale of powers; the line joins what nothing beats in both."""
    front = choice.pareto()
    dots = [
        Dot(
            math.log10(candidate.costs.images_per_second),
            candidate.value,
            f"{candidate.encoder}: {candidate.value:.3f} ({candidate.low:.3f}–{candidate.high:.3f})",
            5.0 if candidate.encoder in front else 3.0,
            candidate.encoder in front,
            shortened(candidate.encoder, 18),
            (candidate.low, candidate.high),
        )
        for candidate in choice.candidates
        if candidate.value is not None and candidate.costs is not None
    ]
    line = sorted((dot.x, dot.y) for dot in dots if dot.filled)
    if not dots:
        return ""
    speeds, ends = [dot.x for dot in dots], [end for dot in dots for end in dot.ends]
    description = "; ".join(f"{dot.hint} at {10**dot.x:.0f} a second" for dot in dots)
    return plot(
        f"{choice.metric} over speed",
        description,
        [Line("what nothing beats in both", line)] if len(line) > 1 else [],
        dots,
        across=[(speed, f"{10**speed:.0f}") for speed in (min(speeds), max(speeds))],
        up=[(value, f"{value:.2f}") for value in (min(ends), max(ends))],
        below="pictures a second, logarithmic",
        width=560.0,
        height=300.0,
        right=130.0,
        style="curve wide-figure",
    )

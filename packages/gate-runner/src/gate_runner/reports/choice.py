"""A choice among encoders as a section of the page: what to take, quality against cost, features in fewer bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gate_runner.charts.markup import Section, joined, note, piece, table
from gate_runner.charts.plot import Dot, Line, plot, shortened

if TYPE_CHECKING:
    from gate_runner.choosing.choice import Candidate, Choice
    from gate_runner.choosing.costs import Costs

WORDS = ("encoder", "verdict", "read out", "")
"""Heads of columns that hold words."""


def choice_section(choice: Choice) -> Section:
    """The section."""
    compressed = [
        [coded.code, f"{coded.row_bytes:,}", f"{coded.value:.3f}", f"{coded.low:.3f}–{coded.high:.3f}"]
        for coded in choice.compressed
    ]
    scores, costs = scores_of(choice), costs_of(choice)
    parts = [
        table(*scores, words=_words(scores[0])),
        piece("scroll", picture, "Quality against speed") if (picture := _picture(choice)) else "",
        table(*costs, words=_words(costs[0])) if costs[1] else "",
        note(
            "images/s and ms alone are the encoder's, of decoded images, with the range of the middle half of the "
            "batches; read/s is with reading and decoding. An encoder is efficient where each one that is over 10 % "
            "faster is shown to be worse."
        ),
        note("The best encoder's features in fewer bytes an image:") if compressed else "",
        table(["Kept as", "bytes", choice.metric, "95 % CI"], compressed) if compressed else "",
    ]
    return Section("choice", "Which encoder", joined(parts))


def scores_of(choice: Choice) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row of texts for each encoder: score, verdict and by how many images."""
    front = choice.pareto()
    heads = ["encoder", choice.metric, "95 % CI for all", "verdict", "p adjusted", "read out", "judged by"]
    rows = [_scored(candidate, candidate.encoder in front) for candidate in choice.candidates]
    return without_empty([*heads, "efficient", ""], rows)


def costs_of(choice: Choice) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row of texts for each encoder whose costs were measured."""
    heads = ["encoder", "images/s", "read/s", "ms alone", "parameters", "weights", "bytes", "$/million"]
    rows = [
        [candidate.encoder, *_spent(candidate.costs, candidate.row_bytes)]
        for candidate in choice.candidates
        if candidate.costs is not None
    ]
    return without_empty(heads, rows)


def without_empty(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Leave out the columns that say nothing in any row."""
    used = [number for number in range(len(heads)) if number == 0 or any(row[number] not in ("", "–") for row in rows)]
    return [heads[number] for number in used], [[row[number] for number in used] for row in rows]


def _words(heads: Sequence[str]) -> list[int]:
    return [number for number, head in enumerate(heads) if number and head in WORDS]


def _scored(candidate: Candidate, front: bool) -> list[str]:
    if candidate.value is None:
        return [candidate.encoder, "–", "", candidate.verdict, "", "", "", "", candidate.reason]
    p = candidate.p
    return [
        candidate.encoder,
        f"{candidate.value:.3f}",
        f"{candidate.low:.3f}–{candidate.high:.3f}",
        candidate.verdict,
        "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
        candidate.readout,
        f"{candidate.pictures:,}",
        "yes" if front else "",
        candidate.reason,
    ]


def _spent(costs: Costs, row_bytes: int) -> list[str]:
    return [
        f"{costs.images_per_second:.1f}{_range(costs)}{' *' if costs.busy else ''}",
        "–" if costs.read_per_second is None else f"{costs.read_per_second:.1f}",
        f"{costs.milliseconds:.1f}",
        "unseen" if costs.parameters is None else f"{costs.parameters / 1e6:.1f} M",
        f"{costs.weight_bytes / 1e6:.0f} MB",
        f"{row_bytes:,}",
        "–" if costs.dollars is None else f"{costs.dollars:.2f}",
    ]


def _range(costs: Costs) -> str:
    return "" if costs.slow is None or costs.fast is None else f" ({costs.slow:.1f}–{costs.fast:.1f})"


def _picture(choice: Choice) -> str:
    """Score over images a second, on a scale of powers; the line joins the efficient encoders."""
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
        [Line("efficient", line)] if len(line) > 1 else [],
        dots,
        across=[(speed, f"{10**speed:.0f}") for speed in (min(speeds), max(speeds))],
        up=[(value, f"{value:.2f}") for value in (min(ends), max(ends))],
        below="images a second, logarithmic",
        above=f"{choice.metric}, with its interval",
        width=560.0,
        height=300.0,
        right=130.0,
        style="curve wide-figure",
    )

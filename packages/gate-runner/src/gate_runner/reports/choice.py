"""A choice among encoders as a section of the page: what to take, quality against cost, features in fewer bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gate_runner.charts.markup import Section, joined, note, scroll, table
from gate_runner.charts.plot import Dot, Line, plot
from gate_runner.charts.svg import shortened

if TYPE_CHECKING:
    from gate_runner.choosing import Choice


def choice_section(choice: Choice) -> Section:
    """The section."""
    rows = [
        [
            *(candidate.encoder, candidate.verdict, f"{candidate.value:.3f}"),
            f"{candidate.low:.3f}–{candidate.high:.3f}",
            "–" if candidate.p is None else f"{candidate.p:.3f}",
            f"{candidate.costs.images_per_second:.1f}",
            "–" if candidate.costs.read_per_second is None else f"{candidate.costs.read_per_second:.1f}",
            f"{candidate.costs.milliseconds:.1f}",
            *(f"{candidate.row_bytes:,}", candidate.readout, f"{candidate.pictures:,}", candidate.reason),
        ]
        for candidate in choice.candidates
        if candidate.costs is not None
    ]
    heads = ["Encoder", "Verdict", choice.metric, "95 % CI", "p (Holm)", "images/s", "read/s", "ms alone", "bytes"]
    failed = [[candidate.encoder, candidate.reason] for candidate in choice.candidates if candidate.verdict == "failed"]
    codes = [
        [code["code"], str(code["bytes"]), f"{code['value']:.3f}", f"{code['low']:.3f}–{code['high']:.3f}"]
        for code in choice.codes
    ]
    parts = [
        *map(note, choice.sentences),
        scroll(_picture(choice), "Quality against speed"),
        table([*heads, "read out", "judged by", "Note"], rows, words=[1, 9, 11]),
        note("images/s and ms alone are the encoder's, of decoded pictures; read/s is with reading and decoding."),
        table(["Failed", "Reason"], failed, words=[1]) if failed else "",
        note("The best encoder's features in fewer bytes a picture:") if codes else "",
        table(["Kept as", "bytes", choice.metric, "95 % CI"], codes) if codes else "",
    ]
    return Section("choice", "Which encoder", joined(parts))


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
    line = sorted((dot.x, dot.y, 0.0) for dot in dots if dot.filled)
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

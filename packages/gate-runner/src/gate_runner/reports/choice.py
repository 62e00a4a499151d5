"""A choice among encoders as a section of the page: what to take, quality against cost, features in fewer bytes."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from gate_runner.charts.markup import note, scroll, table
from gate_runner.charts.svg import chart, element, label, points, shortened

if TYPE_CHECKING:
    from gate_runner.choosing import Choice

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 430.0, 16.0, 250.0


def choice_section(choice: Choice) -> str:
    """The section's markup."""
    scored = [one for one in choice.candidates if one.value is not None and one.costs is not None]
    rows = [
        [
            *(one.encoder, one.verdict, f"{one.value:.3f}", f"{one.low:.3f}–{one.high:.3f}"),
            "–" if one.p is None else f"{one.p:.3f}",
            *((f"{one.costs.images_per_second:.1f}", f"{one.costs.milliseconds:.1f}") if one.costs else ("", "")),
            *(f"{one.row_bytes:,}", one.readout, f"{one.pictures:,}", one.reason),
        ]
        for one in scored
    ]
    heads = ["Encoder", "Verdict", choice.metric, "95 % CI", "p (Holm)", "images/s", "ms alone", "bytes"]
    failed = [[one.encoder, one.reason] for one in choice.candidates if one.verdict == "failed"]
    codes = [
        [one["code"], str(one["bytes"]), f"{one['value']:.3f}", f"{one['low']:.3f}–{one['high']:.3f}"]
        for one in choice.codes
    ]
    parts = [
        *(note(sentence) for sentence in choice.sentences),
        scroll(_picture(choice), "Quality against speed"),
        table([*heads, "read out", "judged by", "Note"], rows, words=[1, 8, 10]),
        table(["Failed", "Reason"], failed, words=[1]) if failed else "",
        note("The best encoder's features in fewer bytes a picture:") if codes else "",
        table(["Kept as", "bytes", choice.metric, "95 % CI"], codes) if codes else "",
    ]
    return f'<section id="choice"><h2>Which encoder</h2>{"".join(parts)}</section>'


def _picture(choice: Choice) -> str:
    """Score over pictures a second, on a scale of powers; the line joins what nothing beats in both."""
    scored = [one for one in choice.candidates if one.value is not None and one.costs is not None]
    speeds = {one.encoder: math.log10(one.costs.images_per_second) for one in scored if one.costs}
    slow, fast = min(speeds.values()), max(speeds.values())
    lows, highs = min(one.low for one in scored), max(one.high for one in scored)
    wide, high = (fast - slow) or 1.0, (highs - lows) or 1.0

    def place(speed: float, value: float) -> tuple[float, float]:
        return _LEFT + (_RIGHT - _LEFT) * (speed - slow) / wide, _BOTTOM - (_BOTTOM - _TOP) * (value - lows) / high

    body = [element("line", x1=_LEFT, y1=_BOTTOM, x2=_RIGHT, y2=_BOTTOM, class_="ring")]
    for value, at in ((lows, _BOTTOM), (highs, _TOP)):
        body.append(label(f"{value:.2f}", _LEFT - 6, at + 4, text_anchor="end", class_="axis"))
    for speed, at in ((slow, _LEFT), (fast, _RIGHT)):
        body.append(label(f"{10**speed:.0f}", at, _BOTTOM + 16, text_anchor="middle", class_="axis"))
    middle = (_LEFT + _RIGHT) / 2
    body.append(label("pictures a second, logarithmic", middle, _BOTTOM + 34, text_anchor="middle", class_="axis"))
    front = [one for one in scored if one.encoder in choice.pareto()]
    line = sorted((place(speeds[one.encoder], one.value or 0.0) for one in front), key=lambda point: point[0])
    if len(line) > 1:
        body.append(element("polyline", points=points(line), class_="line c0"))
    for one in scored:
        across, down = place(speeds[one.encoder], one.value or 0.0)
        for end in (one.low, one.high):
            body.append(element("line", x1=across, x2=across, y1=down, y2=place(0.0, end)[1], class_="line c0"))
        hint = element("title", escape(f"{one.encoder}: {one.value:.3f} ({one.low:.3f}–{one.high:.3f})"))
        body.append(
            element("circle", hint, cx=across, cy=down, r=5.0 if one in front else 3.0, class_="line c0",
                    style="fill:currentColor" if one in front else None)
        )  # fmt: skip
        body.append(label(shortened(one.encoder, 18), across + 8, down + 4, class_="axis"))
    said = ", ".join(f"{one.encoder} {one.value:.3f} at {10 ** speeds[one.encoder]:.0f} a second" for one in scored)
    return chart(f"{choice.metric} over speed", said, _WIDTH, _HEIGHT, body, class_="curve")

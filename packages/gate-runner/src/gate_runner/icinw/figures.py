"""Sample-efficiency curves (ELEVATER's figures 6 and 7), and parameters against accuracy, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gate_runner.icinw.cells import FULL, shots_said
from gate_runner.icinw.record import Record
from gate_runner.icinw.tables import mean_over_sets, ok
from gate_runner.reports.svg import chart, element, label, points

_WIDTH, _HEIGHT = 520.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 400.0, 16.0, 220.0


class Line(NamedTuple):
    """A named line of (x, y, half a standard deviation or more) with x already placed on the axis."""

    name: str
    points: list[tuple[float, float, float]]


def curves(records: Sequence[Record], dataset: str | None = None) -> str:
    """Score over images per class, a line for each way to adapt; without knowledge.

    Args:
        records: of a grid.
        dataset: one data set, or None for the mean over all.

    Returns:
        SVG markup, or empty where no line has two points.
    """
    chosen = [one for one in ok(records) if one.cell.knowledge == "none" and dataset in (None, one.cell.dataset)]
    sets = sorted({one.cell.dataset for one in chosen})
    shots = sorted({one.cell.shots for one in chosen}, key=lambda one: math.inf if one == FULL else one)
    places = {one: float(at) for at, one in enumerate(shots)}
    lines = []
    for tune, init, projection in dict.fromkeys((r.cell.tune, r.cell.init, r.cell.projection) for r in chosen):
        found = []
        for number in shots:
            mean = mean_over_sets(
                [
                    one
                    for one in chosen
                    if one.cell.shots == number and (number == 0 or _way(one) == (tune, init, projection))
                ],
                lambda cell: True,
                sets,
            )
            if mean is not None and (number != 0 or init == "language"):
                found.append((places[number], mean[0], mean[1] or 0.0))
        lines.append(Line(f"{'LP' if tune == 'frozen' else 'FT'} {init.capitalize()}-{projection.upper()}", found))
    ticks = [(places[one], shots_said(one).removesuffix("-shot")) for one in shots]
    what = dataset or f"mean of {len(sets)} data sets"
    return _drawn(f"Score by images per class: {what}", lines, ticks, "images per class")


def _way(record: Record) -> tuple[str, str, str]:
    return record.cell.tune, record.cell.init, record.cell.projection


def parameters(records: Sequence[Record]) -> str:
    """Mean score over trained parameters, on a logarithmic axis; a line for each number of images per class."""
    chosen = [one for one in ok(records) if one.cell.knowledge == "none" and one.cell.shots != 0]
    sets = sorted({one.cell.dataset for one in chosen})
    lines = []
    for number in sorted({one.cell.shots for one in chosen}, key=lambda one: math.inf if one == FULL else one):
        found = []
        for way in dict.fromkeys(map(_way, chosen)):
            mine = [one for one in chosen if one.cell.shots == number and _way(one) == way]
            mean = mean_over_sets(mine, lambda cell: True, sets)
            trained = sum({one.cell.dataset: one.trained for one in mine}.values())
            if mean is not None and trained:
                found.append((math.log10(trained), mean[0], mean[1] or 0.0))
        lines.append(Line(shots_said(number), sorted(found)))
    every = [x for line in lines for x, *_ in line.points]
    ticks = [
        (float(at), f"10^{at}") for at in range(math.floor(min(every, default=0)), math.ceil(max(every, default=0)) + 1)
    ]
    return _drawn("Score by trained parameters", lines, ticks, "trained parameters of all data sets")


def _drawn(title: str, lines: list[Line], ticks: list[tuple[float, str]], below: str) -> str:
    lines = [line for line in lines if len(line.points) > 1]
    if not lines:
        return ""
    xs = [at for at, _ in ticks]
    ys = [value for line in lines for _, y, gap in line.points for value in (y - gap, y + gap)]
    low, high = min(ys) - 2, max(ys) + 2
    left, right = min(xs), max(xs)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / (right - left or 1.0)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - (y - low) / (high - low) * (_BOTTOM - _TOP)

    body = [element("line", x1=_LEFT, y1=_BOTTOM, x2=_RIGHT, y2=_BOTTOM, class_="axis")]
    for x, said in ticks:
        body.append(label(said, place(x, low)[0], _BOTTOM + 14, text_anchor="middle", class_="tick"))
    for part in range(5):
        value = low + (high - low) * part / 4
        at = place(left, value)[1]
        body.append(element("line", x1=_LEFT, y1=at, x2=_RIGHT, y2=at, class_="grid"))
        body.append(label(f"{value:.0f}", _LEFT - 6, at + 4, text_anchor="end", class_="tick"))
    body.append(label(below, (_LEFT + _RIGHT) / 2, _HEIGHT - 8, text_anchor="middle", class_="tick"))
    for number, line in enumerate(lines):
        style = f"s{number % 6}"
        drawn = [place(x, y) for x, y, _ in line.points]
        dash = "5 4" if number >= 6 else None
        body.append(element("polyline", points=points(drawn), class_=f"curve {style}", stroke_dasharray=dash))
        for x, y, gap in line.points:
            if gap:
                (across, top), (_, foot) = place(x, y + gap), place(x, y - gap)
                body.append(element("line", x1=across, y1=top, x2=across, y2=foot, class_=f"curve {style}"))
        body.append(
            element("rect", x=_RIGHT + 12, y=_TOP + 18 * number - 6, width=10, height=4, class_=f"swatch {style}")
        )
        body.append(label(line.name, _RIGHT + 28, _TOP + 18 * number, class_="tick"))
    said = "; ".join(f"{line.name}: {', '.join(f'{y:.1f}' for _, y, _ in line.points)}" for line in lines)
    return chart(title, said, _WIDTH, max(_HEIGHT, _TOP + 18 * len(lines) + 10), body, class_="grid-figure")

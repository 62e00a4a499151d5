"""Learning curves: one panel per benchmark, a line per encoder and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gate_runner.charts.svg import chart, element, label, points, shortened
from gate_runner.reports.contents import Contents, Row

_WIDTH, _HEIGHT = 260.0, 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 38.0, 252.0, 12.0, 142.0
COLOURED = 6


def coloured(contents: Contents) -> dict[str, int]:
    """Which runs get a colour of their own: all where there are six at most, else those of the best mean rank."""
    labels = contents.labels
    if len(labels) > COLOURED:
        labels = sorted(labels, key=lambda name: contents.mean_ranks.get(name, len(labels)))[:COLOURED]
    return {name: index for index, name in enumerate(labels)}


def curve_panels(contents: Contents) -> list[tuple[Row, str]]:
    """Benchmarks with a training, and a chart for each."""
    colours = coloured(contents)
    found = []
    for row in contents.rows:
        lines = {name: [line for line in cell.curve if len(line) > 1] for name, cell in row.cells.items()}
        lines = {name: drawn for name, drawn in lines.items() if drawn}
        if lines:
            found.append((row, _panel(row, lines, colours)))
    return found


Lines = Mapping[str, Sequence[Sequence[tuple[float, float]]]]


def _panel(row: Row, lines: Lines, colours: Mapping[str, int]) -> str:
    every = [point for drawn in lines.values() for line in drawn for point in line]
    most = max(step for step, _ in every)
    low, high = min(value for _, value in every), max(value for _, value in every)
    room = (high - low) * 0.06 or abs(high) * 0.06 or 0.05
    low, high = low - room, high + room

    def place(step: float, value: float) -> tuple[float, float]:
        return (
            _LEFT + (_RIGHT - _LEFT) * step / (most or 1),
            _BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low),
        )

    body = []
    for share in (0.0, 0.5, 1.0):
        value = low + share * (high - low)
        y = place(0, value)[1]
        body.append(element("line", x1=_LEFT, y1=y, x2=_RIGHT, y2=y, class_="ring"))
        body.append(label(_short(value), _LEFT - 5, y + 4, text_anchor="end", class_="axis"))
    for step, anchor in ((0.0, "middle"), (most, "end")):
        body.append(label(f"{step:g}", place(step, low)[0], _BOTTOM + 16, text_anchor=anchor, class_="axis"))
    middle = (_LEFT + _RIGHT) / 2
    body.append(label("optimiser step", middle, _BOTTOM + 16, text_anchor="middle", class_="axis faint"))
    grey_first = sorted(lines, key=lambda name: -colours.get(name, COLOURED))
    for name in grey_first:
        style = f"line c{colours[name]}" if name in colours else "line other"
        for line in lines[name]:
            hint = element("title", shortened(name, 60).replace("&", "&amp;").replace("<", "&lt;"))
            body.append(element("polyline", hint, points=points([place(*point) for point in line]), class_=style))
    ends = ", ".join(f"{name} ends at {drawn[0][-1][1]:.3f}" for name, drawn in lines.items())
    return chart(f"{row.name}: {row.metric} on validation while training", ends, _WIDTH, _HEIGHT, body, class_="curve")


def _short(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")

"""Lines of means with deviations over an axis of named places, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gate_runner.charts.svg import chart, element, label, points

_WIDTH, _HEIGHT = 520.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 400.0, 16.0, 220.0


class Line(NamedTuple):
    """A named line of (x, y, half a standard deviation or more) with x already placed on the axis."""

    name: str
    points: list[tuple[float, float, float]]


def lines_chart(title: str, lines: Sequence[Line], ticks: Sequence[tuple[float, str]], below: str) -> str:
    """Named lines with deviations, as inline SVG.

    Example:
        >>> lines_chart("a", [Line("b", [(0.0, 1.0, 0.0), (1.0, 2.0, 0.5)])], [(0.0, "0"), (1.0, "1")], "c")[:4]
        '<svg'
    """
    lines = [line for line in lines if len({x for x, *_ in line.points}) > 1]
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

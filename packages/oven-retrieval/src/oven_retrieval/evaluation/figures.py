"""The paper's figures 4 to 6 as SVG: accuracy over steps, by size of the knowledge base, and by popularity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from oven_retrieval.evaluation.intervals import Estimate

COLOURS = ("#2f6bd8", "#c2571a", "#2d8a57", "#8a4fc0", "#b08a00", "#c0397a")
_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 34, 14, 64
_DASHES = ("", "6 4", "2 3")


class Line(NamedTuple):
    """One line of a figure: its name, and the points from left to right.

    Example:
        >>> Line("unseen", [(0, 3.0), (100, 8.0)]).points[-1]
        (100, 8.0)
    """

    name: str
    points: Sequence[tuple[float, float]]


def line_figure(lines: Sequence[Line], x_label: str, y_label: str = "accuracy, %", *, log: bool = False) -> str:
    """Draw lines over one another as SVG.

    Args:
        lines: at least one, each with at least one finite point.
        x_label: of the axis.
        y_label: likewise.
        log: whether x is drawn on a logarithmic axis; all x must be above 0 then.

    Raises:
        ValueError: no point, a point that is not finite, or one at or below 0 on a logarithmic axis.

    Example:
        >>> svg = line_figure([Line("a < b", [(100, 20.0), (1000, 10.0)])], "entities", log=True)
        >>> svg.startswith("<svg"), "a &lt; b" in svg, svg.count("<polyline")
        (True, True, 1)
    """
    points = [point for line in lines for point in line.points]
    if not points or not all(math.isfinite(value) for point in points for value in point):
        raise ValueError(f"lines: expected finite points, got {points[:3]}")
    if log and min(x for x, _ in points) <= 0:
        raise ValueError(f"lines: expected x above 0 on a logarithmic axis, got {min(x for x, _ in points)}")
    along = math.log10 if log else float
    low, high = (along(end(x for x, _ in points)) for end in (min, max))
    highest = _ceiling(max(y for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (along(x) - low) / (high - low) if high > low else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT), _height(y, highest)

    different = sorted({x for x, _ in points})
    ticks = different if log or len(different) <= 8 else _ticks(low, high)
    drawn = [_frame(highest, y_label, x_label)]
    drawn += [_text(place(x, 0)[0], _HEIGHT - _BOTTOM + 16, f"{x:,.0f}", "middle") for x in ticks]
    for number, line in enumerate(lines):
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points)
        dash = f' stroke-dasharray="{_DASHES[number // len(COLOURS) % len(_DASHES)]}"' if number >= len(COLOURS) else ""
        colour = COLOURS[number % len(COLOURS)]
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, y in line.points:
            across, down = place(x, y)
            title = f"<title>{escape(f'{line.name}: {y:.1f} at {x:,.0f}')}</title>"
            drawn.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{colour}">{title}</circle>')
    return _svg(drawn, [line.name for line in lines])


def bar_figure(groups: Sequence[str], series: Mapping[str, Sequence[Estimate | None]], x_label: str) -> str:
    """Draw one bar a group of each series, with its interval, as SVG.

    Args:
        groups: names along the axis.
        series: name -> one estimate in percent a group; None where there is none.
        x_label: of the axis.

    Raises:
        ValueError: no groups or series, or another number of estimates than groups.

    Example:
        >>> svg = bar_figure(["from 0", "from 100"], {"mine": [Estimate(20.0, 15.0, 26.0), None]}, "page views")
        >>> svg.count("<rect") - 1  # and the legend's
        1
    """
    if not groups or not series or any(len(values) != len(groups) for values in series.values()):
        sizes = {name: len(values) for name, values in series.items()}
        raise ValueError(f"series: expected one estimate for each of {len(groups)} groups, got {sizes}")
    highest = _ceiling(max((value.high for values in series.values() for value in values if value), default=1.0))
    drawn, block = [_frame(highest, "accuracy, %", x_label)], (_WIDTH - _LEFT - _RIGHT) / len(groups)
    thick = 0.8 * block / len(series)
    for place, group in enumerate(groups):
        left = _LEFT + block * place
        drawn.append(_text(left + block / 2, _HEIGHT - _BOTTOM + 16, group, "middle"))
        for number, (name, values) in enumerate(series.items()):
            value = values[place]
            if value is None:
                continue
            x, top = left + 0.1 * block + thick * number, _height(value.value, highest)
            title = escape(f"{name}, {group}: {value.value:.1f} [{value.low:.1f}, {value.high:.1f}]")
            drawn.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{0.9 * thick:.1f}" height="{_HEIGHT - _BOTTOM - top:.1f}" '
                f'fill="{COLOURS[number % len(COLOURS)]}"><title>{title}</title></rect>'
            )
            centre = x + 0.45 * thick
            ends = f'y1="{_height(value.low, highest):.1f}" y2="{_height(value.high, highest):.1f}"'
            drawn.append(f'<line x1="{centre:.1f}" x2="{centre:.1f}" {ends} stroke="#1c2027" stroke-width="1.5"/>')
    return _svg(drawn, list(series))


def _height(value: float, highest: float) -> float:
    return _HEIGHT - _BOTTOM - value / highest * (_HEIGHT - _TOP - _BOTTOM)


def _ceiling(value: float) -> float:
    """The least round number that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 10) if step * power >= value * (1 - 1e-9))


def _ticks(low: float, high: float) -> list[float]:
    step = _ceiling((high - low) / 6)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _frame(highest: float, y_label: str, x_label: str) -> str:
    """The axes, and lines at four heights."""
    drawn = []
    for number in range(5):
        value = highest * number / 4
        y = _height(value, highest)
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d9dce2"/>')
        drawn.append(_text(_LEFT - 6, y + 4, f"{value:g}", "end"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    drawn.append(f'<g transform="rotate(-90 14 {middle:.1f})">{_text(14, middle + 4, y_label, "middle")}</g>')
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - _BOTTOM + 34, x_label, "middle"))
    return "".join(drawn)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(drawn: Sequence[str], names: Sequence[str]) -> str:
    """The figure with its legend, which takes a line for each three names."""
    legend, rows = [], math.ceil(len(names) / 3)
    for number, name in enumerate(names):
        x, y = _LEFT + number % 3 * (_WIDTH - _LEFT) / 3, _HEIGHT - 8 + 18 * (number // 3)
        colour = COLOURS[number % len(COLOURS)]
        legend.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colour}"/>')
        legend.append(_text(x + 15, y, name if len(name) <= 24 else name[:23] + "…", "start"))
    height = _HEIGHT + 18 * (rows - 1) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="#5c6472">{"".join([*drawn, *legend])}</svg>'
    )

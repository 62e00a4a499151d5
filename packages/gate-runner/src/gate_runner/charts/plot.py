"""Lines and points over two axes, as inline SVG: learning curves, read-outs over depth, score over shots or cost.

Every name is escaped; colours come from the page's style sheet, which knows dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from gate_runner.charts.markup import joined, piece, rendered

Ticks = Sequence[tuple[float, str]]


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end around an ellipsis."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


class Line(NamedTuple):
    """A named line of points (x, y); ``style`` is a class of the style sheet."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "c0"


class Dot(NamedTuple):
    """A point of its own, with what a pointer over it reads, what stands beside it, and its interval's ends."""

    x: float
    y: float
    hint: str
    radius: float = 3.0
    filled: bool = True
    text: str = ""
    ends: tuple[float, ...] = ()
    style: str = "c0"


def plot(
    title: str,
    description: str,
    lines: Sequence[Line] = (),
    dots: Sequence[Dot] = (),
    *,
    across: Ticks,
    up: Ticks,
    below: str,
    above: str,
    width: float = 260.0,
    height: float = 168.0,
    right: float = 8.0,
    style: str = "curve",
) -> Markup:
    """A chart whose axes end where its ticks do; ``below`` and ``above`` say what lies across and up."""
    left, top, bottom = 42.0, 24.0 if above else 12.0, height - 32.0
    (first_x, last_x), (low, high) = ((min(ends), max(ends)) for ends in ([x for x, _ in across], [y for y, _ in up]))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (width - right - left) * (x - first_x) / ((last_x - first_x) or 1.0),
            bottom - (bottom - top) * (y - low) / ((high - low) or 1.0),
        )

    return rendered(
        "plot.html",
        title=title,
        description=description,
        below=below,
        above=above,
        style=style,
        width=width,
        height=height,
        left=left,
        right=right,
        bottom=bottom,
        up=[(text, at(first_x, value)[1]) for value, text in up],
        # Words of the right end stay inside.
        across=[(text, min(at(value, low)[0], width - 4.0 * len(text))) for value, text in across],
        lines=[(line, [at(x, y) for x, y in line.points]) for line in lines],
        dots=[(dot, *at(dot.x, dot.y), [at(dot.x, end)[1] for end in dot.ends]) for dot in dots],
    )


def lines_chart(
    title: str,
    lines: Sequence[tuple[str, Sequence[Dot]]],
    below: str,
    above: str,
    *,
    across: Ticks = (),
    level: tuple[str, float] | None = None,
    dots: Sequence[Dot] = (),
) -> Markup:
    """Named lines through points, with a key; empty where none has two points.

    ``level`` is a dashed line by its name, ``dots`` are points beside the lines.
    """
    shown = [(name, line) for name, line in lines if len(line) > 1]
    if not shown:
        return Markup("")
    drawn, points, entries = [], list(dots), []
    for number, (name, line) in enumerate(shown):
        style = f"{number % 6}{' dashed' * (number > 5)}"
        drawn.append(Line(name, [(dot.x, dot.y) for dot in line], f"c{style}"))
        points += [dot._replace(style=f"c{style}") for dot in line]
        entries.append((name, f"k{style}"))
    ends = [min(dot.x for dot in points), max(dot.x for dot in points)]
    heights = [height for dot in points for height in (dot.y, *dot.ends)]
    if level:
        drawn.append(Line(level[0], [(end, level[1]) for end in ends], "other dashed"))
        heights.append(level[1])
        entries.append((level[0], "ko"))
    low, high = min(heights), max(heights)
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 0.05
    up = [low - margin + (high - low + 2 * margin) * quarter / 4 for quarter in range(5)]
    picture = plot(
        title,
        "; ".join(f"{name}: {', '.join(dot.hint for dot in line)}" for name, line in shown),
        drawn,
        points,
        across=across or [(end, _figure(end)) for end in sorted(set(ends))],
        up=[(value, _figure(value)) for value in up],
        below=below,
        above=above,
        width=520.0,
        height=270.0,
        right=120.0 if any(dot.text for dot in points) else 8.0,
        style="curve wide-figure",
    )
    return joined([piece("key", entries), picture])


def powers_of_ten(lines: Sequence[tuple[str, Sequence[Dot]]]) -> Ticks:
    """Where points are at logarithms, the powers around them."""
    every = [dot.x for _, dots in lines for dot in dots] or [0.0]
    return [(float(power), f"10^{power}") for power in range(math.floor(min(every)), math.ceil(max(every)) + 1)]


def _figure(value: float) -> str:
    return f"{round(value, 3):.3g}".replace("-", "−")

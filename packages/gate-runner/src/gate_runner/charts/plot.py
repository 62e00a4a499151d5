"""Lines and points over two axes, as inline SVG: learning curves, read-outs over depth, score over shots or cost.

Every name is escaped; colours come from the page's style sheet, which knows dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from gate_runner.charts.markup import joined, piece

Ticks = Sequence[tuple[float, str]]


def element(name: str, *children: str, **attributes: object) -> Markup:
    """One element. Underscores in attribute names become dashes; children are escaped unless they are markup."""
    pairs = Markup("").join(
        Markup(' {}="{}"').format(key if key in _CASED else key.rstrip("_").replace("_", "-"), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    start = Markup(f"<{name}{pairs}")  # noqa: S704 - names are ours, and the attributes escaped above
    return start + Markup(">") + Markup("").join(children) + Markup(f"</{name}>") if children else start + Markup("/>")  # noqa: S704


_CASED = frozenset({"viewBox", "preserveAspectRatio"})


def label(text: str, x: float, y: float, **attributes: object) -> Markup:
    """Text at a place."""
    return element("text", escape(text), x=x, y=y, **attributes)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end around an ellipsis."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if value != int(value) else str(int(value))
    return str(value)


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
    width: float = 260.0,
    height: float = 168.0,
    right: float = 8.0,
    style: str = "curve",
) -> Markup:
    """A chart whose axes end where its ticks do."""
    margin, top, bottom = 42.0, 12.0, height - 32.0
    (first_x, last_x), (low, high) = ((min(ends), max(ends)) for ends in ([x for x, _ in across], [y for y, _ in up]))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            margin + (width - right - margin) * (x - first_x) / ((last_x - first_x) or 1.0),
            bottom - (bottom - top) * (y - low) / ((high - low) or 1.0),
        )

    body = []
    for value, text in up:
        y = at(first_x, value)[1]
        body.append(element("line", x1=margin, y1=y, x2=width - right, y2=y, class_="ring"))
        body.append(label(text, margin - 5, y + 4, text_anchor="end", class_="axis"))
    for value, text in across:
        x = min(at(value, low)[0], width - 4.0 * len(text))  # words of the right end stay inside
        body.append(label(text, x, bottom + 14, text_anchor="middle", class_="axis"))
    body.append(label(below, (margin + width - right) / 2, height - 4, text_anchor="middle", class_="axis faint"))
    for line in lines:
        drawn = " ".join(",".join(map(_plain, at(x, y))) for x, y in line.points)
        body.append(element("polyline", element("title", line.name), points=drawn, class_=f"line {line.style}"))
    for dot in dots:
        x, y = at(dot.x, dot.y)
        marked = f"line {dot.style}"
        body += [element("line", x1=x, x2=x, y1=y, y2=at(dot.x, end)[1], class_=marked) for end in dot.ends]
        inside = {"style": "fill:currentColor"} if dot.filled else {}
        hint = element("title", dot.hint)
        body.append(element("circle", hint, cx=x, cy=y, r=dot.radius, class_=marked, **inside))
        if dot.text:
            body.append(label(dot.text, x + 8, y + 4, class_="axis"))
    names = element("title", title or " "), element("desc", description or " ")  # for those who cannot see it
    return element("svg", *names, *body, viewBox=f"0 0 {_plain(width)} {_plain(height)}", role="img", class_=style)


def lines_chart(
    title: str,
    lines: Sequence[tuple[str, Sequence[Dot]]],
    below: str,
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
        width=520.0,
        height=260.0,
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

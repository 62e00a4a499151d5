"""Lines and points over two axes, as inline SVG: learning curves, depth, quality against cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from gate_runner.charts.svg import chart, element, label, points

Ticks = Sequence[tuple[float, str]]


class Line(NamedTuple):
    """A named line of (x, y, half the length of a bar through the point); ``style`` is a class of the style sheet."""

    name: str
    points: Sequence[tuple[float, float, float]]
    style: str = "c0"
    dots: bool = False


class Dot(NamedTuple):
    """A point of its own, with what a pointer over it reads, and what stands beside it."""

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
    level: float | None = None,
    keyed: bool = False,
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
    if level is not None:
        y = at(first_x, level)[1]
        body.append(element("line", x1=margin, y1=y, x2=width - right, y2=y, class_="ring", stroke_dasharray="4 3"))
    for number, line in enumerate(lines):
        drawn = [at(x, y) for x, y, _ in line.points]
        hint = element("title", line.name)
        body.append(element("polyline", hint, points=points(drawn), class_=f"line {line.style}"))
        for x, y, gap in line.points:
            (middle, upper), (_, lower) = at(x, y + gap), at(x, y - gap)
            if gap:
                body.append(element("line", x1=middle, y1=upper, x2=middle, y2=lower, class_=f"line {line.style}"))
            if line.dots:
                body.append(element("circle", cx=middle, cy=at(x, y)[1], r=2.0, class_=f"line {line.style}"))
        if keyed:
            y = top + 18 * number
            body.append(
                element("line", x1=width - right + 12, y1=y, x2=width - right + 22, y2=y, class_=f"line {line.style}")
            )
            body.append(label(line.name, width - right + 28, y + 4, class_="axis"))
    for dot in dots:
        x, y = at(dot.x, dot.y)
        body += [
            element("line", x1=x, x2=x, y1=y, y2=at(dot.x, end)[1], class_=f"line {dot.style}") for end in dot.ends
        ]
        inside = {"style": "fill:currentColor"} if dot.filled else {}
        hint = element("title", dot.hint)
        body.append(element("circle", hint, cx=x, cy=y, r=dot.radius, class_=f"line {dot.style}", **inside))
        if dot.text:
            body.append(label(dot.text, x + 8, y + 4, class_="axis"))
    tall = max(height, top + 18 * len(lines) + 10) if keyed else height
    return chart(title, description, width, tall, body, class_=style)

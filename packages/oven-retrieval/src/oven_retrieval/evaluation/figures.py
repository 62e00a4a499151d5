"""OVEN's figures 5 and 6 as SVG: accuracy by size of the knowledge base, and by popularity of the entity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from oven_retrieval.evaluation.curves import Bin, SizePoint
from oven_retrieval.refusal import RiskCoverage

_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 18, 56


def _number(value: float) -> str:
    """A count in few characters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def _top(values: Sequence[float]) -> float:
    """A round number at or above all values, for the end of an axis in percent."""
    highest = max([*values, 1e-9])
    step: float = 10 ** math.floor(math.log10(highest))
    return min(100.0, next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= highest - 1e-12))


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _frame(label: str, top: float, x_label: str, body: list[str]) -> str:
    """An SVG with a percent axis around a body."""
    lines = []
    for i in range(5):
        value = top * i / 4
        y = _y(value, top)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return (
        f'<svg class="figure" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{''.join(lines)}{''.join(body)}"
        f'<text class="axis" x="{middle:.0f}" y="{_HEIGHT - 7}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text class="axis" transform="translate(13 {(_TOP + _HEIGHT - _BOTTOM) / 2:.0f}) rotate(-90)" '
        'text-anchor="middle">accuracy, %</text></svg>'
    )


def _whisker(x: float, low: float, high: float, top: float) -> str:
    a, b = _y(min(high, top), top), _y(max(low, 0), top)
    return f'<path class="whisker" d="M{x:.1f} {a:.1f}V{b:.1f}M{x - 4:.1f} {a:.1f}h8M{x - 4:.1f} {b:.1f}h8"/>'


def popularity_figure(bins: Sequence[Bin]) -> str:
    """Bars of accuracy by popularity of the right entity, with their intervals (OVEN figure 6).

    Raises:
        ValueError: there is no bin.

    Example:
        >>> from oven_retrieval.evaluation import accuracy_by_popularity
        >>> popularity_figure(accuracy_by_popularity([1, 0], [5, 9000]))[:29]
        '<svg class="figure" viewBox="'
    """
    if not bins:
        raise ValueError("bins: expected at least one, got none")
    top = _top([bar.accuracy.high for bar in bins])
    space = (_WIDTH - _LEFT - _RIGHT) / len(bins)
    wide = min(space * 0.6, 64)
    body = []
    for i, bar in enumerate(bins):
        x = _LEFT + space * (i + 0.5)
        y = _y(bar.accuracy.value, top)
        body.append(
            f'<rect class="bar" x="{x - wide / 2:.1f}" y="{y:.1f}" width="{wide:.1f}" '
            f'height="{_HEIGHT - _BOTTOM - y:.1f}"/>'
        )
        body.append(_whisker(x, bar.accuracy.low, bar.accuracy.high, top))
        upper = "" if math.isinf(bar.high) else _number(bar.high)
        span = f"{_number(bar.low)} to {upper}" if upper else f"{_number(bar.low)} and more"
        below = _HEIGHT - _BOTTOM
        body.append(f'<text x="{x:.1f}" y="{below + 16}" text-anchor="middle">{span}</text>')
        body.append(
            f'<text class="small" x="{x:.1f}" y="{below + 30}" text-anchor="middle">n = {bar.questions:,}</text>'
        )
    return _frame("Accuracy by popularity of the right entity", top, "popularity (monthly page views)", body)


def size_figure(points: Sequence[SizePoint]) -> str:
    """A line of accuracy against the number of candidate entities, on a logarithmic axis (OVEN figure 5).

    Raises:
        ValueError: there is no point.

    Example:
        >>> from oven_retrieval.evaluation.curves import SizePoint, wilson
        >>> size_figure([SizePoint(10, wilson(9, 10)), SizePoint(1000, wilson(5, 10))]).startswith("<svg")
        True
    """
    if not points:
        raise ValueError("points: expected at least one, got none")
    points = sorted(points)
    top = _top([point.accuracy.high for point in points])
    logs = [math.log10(point.size) for point in points]
    span = (logs[-1] - logs[0]) or 1.0
    inner = _WIDTH - _LEFT - _RIGHT - 46
    xs = [_LEFT + 20 + inner * (value - logs[0]) / span for value in logs]
    line = " ".join(f"{x:.1f},{_y(point.accuracy.value, top):.1f}" for x, point in zip(xs, points, strict=True))
    body = [f'<polyline class="line" points="{line}"/>']
    last_label = -math.inf
    for x, point in zip(xs, points, strict=True):
        body.append(_whisker(x, point.accuracy.low, point.accuracy.high, top))
        body.append(f'<circle class="dot" cx="{x:.1f}" cy="{_y(point.accuracy.value, top):.1f}" r="4"/>')
        if x - last_label > 44:
            body.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_number(point.size)}</text>'
            )
            last_label = x
    return _frame("Accuracy by size of the knowledge base", top, "candidate entities (logarithmic)", body)


def coverage_figure(curve: RiskCoverage) -> str:
    """A line of the accuracy among the surest answers against how many of the questions they are."""
    inner = _WIDTH - _LEFT - _RIGHT
    shown = np.unique(np.linspace(0, len(curve.coverage) - 1, 200).astype(int))
    line = " ".join(
        f"{_LEFT + inner * coverage:.1f},{_y(100 * (1 - risk), 100.0):.1f}"
        for coverage, risk in zip(curve.coverage[shown].tolist(), curve.risk[shown].tolist(), strict=True)
    )
    body = [f'<polyline class="line" points="{line}"/>']
    for share in (0, 25, 50, 75, 100):
        x = _LEFT + inner * share / 100
        body.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{share}</text>')
    return _frame("Accuracy of the surest answers", 100.0, "answered, % of the questions", body)

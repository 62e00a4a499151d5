"""Charts as SVG text, in the page's own colours: densities over one axis, and bars with intervals."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

    from eqben_builder.scoring import Share

COLOURS = ("var(--one)", "var(--two)", "var(--three)", "var(--four)")
_WIDTH = 560


class Curve(NamedTuple):
    """One model's values, drawn as a density."""

    name: str
    values: NDArray[np.float64]


class Bar(NamedTuple):
    """A line of bars: one share for each model."""

    name: str
    shares: tuple[Share, ...]


def legend(names: Sequence[str]) -> str:
    """Names with their colours; nothing for a single one."""
    if len(names) < 2:
        return ""
    lines = [
        f'<li><i style="background:{COLOURS[k % len(COLOURS)]}"></i>{escape(name)}</li>' for k, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(lines)}</ul>'


def smoothed(values: Float64[np.ndarray, " n"], grid: Float64[np.ndarray, " g"]) -> Float64[np.ndarray, " g"]:
    """Gaussian density estimate of values of at least 0, reflected at 0, with Silverman's width.

    f(x) = 1/(n h) sum_i [phi((x - v_i) / h) + phi((x + v_i) / h)], h = 0.9 min(sd, iqr / 1.34) n^(-1/5).
    """
    low, high = np.quantile(values, (0.25, 0.75))
    spread = min(float(values.std()), float(high - low) / 1.34) or float(values.std())
    width = max(0.9 * spread * len(values) ** -0.2, float(grid[-1] - grid[0]) / 400)
    # Values are binned first: the estimate of 250,000 pairs is as quick as that of 400.
    step = (grid[-1] - grid[0]) / 1000
    counts = np.bincount((values[values <= 1.5 * grid[-1]] / step).astype(np.int64))
    centres = (np.arange(len(counts)) + 0.5) * step
    density = np.zeros_like(grid)
    for sign in (-1, 1):
        z = (grid[:, None] + sign * centres[None, :]) / width
        density += np.exp(-0.5 * z * z) @ counts
    result: NDArray[np.float64] = density / (len(values) * width * np.sqrt(2 * np.pi))
    return result


def density_chart(curves: Sequence[Curve], label: str) -> str:
    """Densities of several models over one axis from 0, with a mark at each median."""
    top, height, left, bottom = 12, 260, 12, 40
    end = max(float(np.quantile(curve.values, 0.99)) for curve in curves) or 1.0
    grid = np.linspace(0.0, end, 240)
    densities = [smoothed(curve.values, grid) for curve in curves]
    peak = max(float(density.max()) for density in densities) or 1.0
    plot_width, plot_height = _WIDTH - 2 * left, height - top - bottom

    def x(value: float) -> float:
        return left + value / end * plot_width

    def y(value: float) -> float:
        return top + (1 - value / peak) * plot_height

    parts = [f'<line class="axis" x1="{left}" x2="{_WIDTH - left}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>']
    for tick in _ticks(end):
        parts.append(f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y(0):.1f}" y2="{y(0) + 5:.1f}"/>')
        anchor = "start" if tick == 0 else "middle"
        parts.append(f'<text x="{x(tick):.1f}" y="{y(0) + 18:.1f}" text-anchor="{anchor}">{tick:g}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{height - 4}" text-anchor="middle">{escape(label)}</text>')
    for k, (curve, density) in enumerate(zip(curves, densities, strict=True)):
        colour = COLOURS[k % len(COLOURS)]
        line = " ".join(f"{x(float(a)):.1f},{y(float(b)):.1f}" for a, b in zip(grid, density, strict=True))
        area = f"{x(0):.1f},{y(0):.1f} {line} {x(end):.1f},{y(0):.1f}"
        parts.append(f'<polygon points="{area}" fill="{colour}" opacity="0.12"/>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        middle = float(np.median(curve.values))
        if middle <= end:
            at = float(np.interp(middle, grid, density))
            parts.append(
                f'<line x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="{y(0):.1f}" y2="{y(at):.1f}" stroke="{colour}">'
                f"<title>median of {escape(curve.name)}: {middle:.4g}</title></line>"
            )
    names = ", ".join(curve.name for curve in curves)
    return _svg(height, f"Density of {label}: {names}", parts)


def bar_chart(bars: Sequence[Bar], names: Sequence[str], label: str) -> str:
    """Horizontal bars from 0 to 1 with intervals, and a mark where chance is."""
    left, right, thick, gap, top = 140, 52, 14, 10, 4
    block = thick * len(names) + gap
    height = top + block * len(bars) + 24
    plot = _WIDTH - left - right

    def x(value: float) -> float:
        return left + value * plot

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{height - 20}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 5}" text-anchor="middle">{tick:.0%}</text>')
    for row, bar in enumerate(bars):
        start = top + row * block + gap / 2
        middle = start + thick * len(names) / 2 + 4
        shown = bar.name if len(bar.name) <= 20 else bar.name[:19] + "…"
        parts.append(
            f'<text class="name" x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(shown)}'
            f"<title>{escape(bar.name)}</title></text>"
        )
        for k, share in enumerate(bar.shares):
            y, colour = start + k * thick, COLOURS[k % len(COLOURS)]
            centre = y + (thick - 2) / 2
            said = f"{names[k]}, {bar.name}: {share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"
            parts.append(
                f'<rect x="{left}" y="{y:.1f}" width="{max(share.value * plot, 1):.1f}" height="{thick - 2}" '
                f'fill="{colour}"><title>{escape(said)}</title></rect>'
                f'<line x1="{x(share.low):.1f}" x2="{x(share.high):.1f}" y1="{centre:.1f}" y2="{centre:.1f}" '
                f'stroke="var(--text)" stroke-width="1.5"/>'
                f'<text x="{x(max(share.high, share.value)) + 6:.1f}" y="{centre + 4:.1f}">{share.value:.1%}</text>'
            )
        chance = x(bar.shares[0].chance)
        parts.append(
            f'<line class="chance" x1="{chance:.1f}" x2="{chance:.1f}" y1="{start - 3:.1f}" '
            f'y2="{start + thick * len(names) + 1:.1f}"/>'
        )
    return _svg(height, label, parts)


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _ticks(end: float) -> list[float]:
    """Four to ten round numbers from 0 to the end."""
    power = 10.0 ** np.floor(np.log10(end))
    step = next(power * factor for factor in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if end / (power * factor) <= 8)
    return [round(k * step, 12) for k in range(int(end / step + 1e-9) + 1)]

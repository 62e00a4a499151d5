"""The distribution of a score over pairs, by subset, several models over one another: the paper's figures 6 and 13."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

_WIDTH, _HEIGHT = 420, 220
_TOP, _LEFT, _BOTTOM = 12, 14, 40


def density_charts(
    values: Mapping[str, Float64[np.ndarray, " n"]], subsets: Sequence[str], label: str
) -> list[dict[str, Any]]:
    """Return what the template draws: one chart a subset, all over one axis, a curve a model, a mark at each median.

    Args:
        values: Name of a model -> its value of each pair, at least 0.
        subsets: Of each pair.
        label: Of the axis.
    """
    names = np.asarray(subsets)
    end = max(float(np.quantile(model, 0.99)) for model in values.values()) or 1.0
    charts = []
    for subset in dict.fromkeys(subsets):
        members = {model: of_pairs[names == subset] for model, of_pairs in values.items()}
        charts.append(_chart(members, end, label) | {"name": subset, "pairs": int((names == subset).sum())})
    return charts


def _chart(values: Mapping[str, NDArray[np.float64]], end: float, label: str) -> dict[str, Any]:
    grid = np.linspace(0.0, end, 200)
    densities = [smoothed(of_model, grid) for of_model in values.values()]
    highest = max(float(density.max()) for density in densities) or 1.0
    x = partial(_along, _LEFT, (_WIDTH - 2 * _LEFT) / end)
    y = partial(_along, _HEIGHT - _BOTTOM, -(_HEIGHT - _TOP - _BOTTOM) / highest)
    curves = []
    for (name, of_model), density in zip(values.items(), densities, strict=True):
        line = " ".join(f"{x(value)},{y(at)}" for value, at in zip(grid.tolist(), density.tolist(), strict=True))
        median = float(np.median(of_model))
        curves.append({"name": name, "line": line, "median": median, "peak": float(np.interp(median, grid, density))})
    sizes = {"width": _WIDTH, "height": _HEIGHT, "end": end, "ticks": _ticks(end)}
    return sizes | {"x": x, "y": y, "curves": curves, "label": label}


def _along(start: float, scale: float, value: float, beyond: float = 0) -> str:
    """A place on an axis, in the drawing's units."""
    return f"{start + scale * value + beyond:.1f}"


def _ticks(end: float) -> list[float]:
    """Round numbers from 0 to the end, at most nine."""
    power = 10.0 ** np.floor(np.log10(end))
    step = next(power * factor for factor in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if end / (power * factor) <= 8)
    return [round(k * step, 12) for k in range(int(end / step + 1e-9) + 1)]


def smoothed(values: Float64[np.ndarray, " n"], grid: Float64[np.ndarray, " g"]) -> Float64[np.ndarray, " g"]:
    """Return a Gaussian density estimate of values of at least 0, reflected at 0, with Silverman's width.

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

"""The results page: scores with their intervals and chance, the distribution of figure 6, and the worst pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.formats.row import videos_of
from eqben_builder.pages.rendering import write_page
from eqben_builder.scoring import equivariance_scores, score_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxtyping import Float64
    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow
    from eqben_builder.scoring import ScoreTable, Share

_WIDTH = 560


class Model(NamedTuple):
    """A model's similarities and what they give."""

    name: str
    scores: NDArray[np.float64]
    table: ScoreTable


class Curve(NamedTuple):
    """One model's values, drawn as a density."""

    name: str
    values: NDArray[np.float64]


class Bar(NamedTuple):
    """A line of bars: one share for each model."""

    name: str
    shares: tuple[Share, ...]


def write_results_page(
    rows: Sequence[PairRow],
    scores: Mapping[str, NDArray[np.float64]],
    path: str | os.PathLike[str],
    *,
    title: str = "Minimal pairs",
    worst: int = 12,
    seed: int = 0,
) -> Path:
    """Write one static HTML page about one or several models on the same pairs.

    Args:
        rows: The pairs, of two pictures each.
        scores: Name of a model -> [n, 2, 2] with `scores[k, caption, image]`; the first model's worst pairs are shown.
        path: The file to write.
        title: Of the page.
        worst: Pairs to show, at least 0: those with the smallest margin min(s00, s11) - max(s01, s10).
        seed: Of the intervals.

    Returns:
        The path. Everything is within the file; names are escaped.

    Raises:
        ValueError: No models; what `score_table` refuses.

    Example:
        >>> import tempfile
        >>> from eqben_builder.formats import PairRow, Picture, encode_png
        >>> white, black = (Picture(content=encode_png(np.full((2, 2, 3), v, np.uint8))) for v in (255, 0))
        >>> row = PairRow("a", "micro", "", white, black, "a white square", "a black square")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_results_page([row], {"mine": np.eye(2)[None]}, f"{folder}/results.html")
        ...     "<td>100.0<small>" in path.read_text()
        True
    """
    if not scores:
        raise ValueError("no scores to show")
    subsets, aspects, videos = [row.subset for row in rows], [row.aspect for row in rows], videos_of(rows)
    models = [
        Model(name, np.asarray(s, dtype=np.float64), score_table(s, subsets, aspects, clusters=videos, seed=seed))
        for name, s in scores.items()
    ]
    curves = [Curve(model.name, _equivariance(model.scores)) for model in models]
    medians = [
        f"{model.name}: median {np.median(curve.values):.3g}, group {100 * model.table.row('macro').group.value:.1f} %"
        for model, curve in zip(models, curves, strict=True)
    ]
    bars = [Bar(row.name, tuple(model.table.row(row.name).group for model in models)) for row in models[0].table.rows]
    order = np.argsort(margins(models[0].scores), kind="stable")[: max(worst, 0)].tolist()
    return write_page(
        path,
        "results.html",
        title=title,
        pairs=len(rows),
        models=models,
        bars=bar_chart(bars, list(scores), "Group score"),
        groups=medians,
        densities=density_chart(curves, "equivariance score"),
        worst=[(rows[k], models[0].scores[k].tolist()) for k in order],
    )


def _equivariance(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    # A constant model has no spread to divide by: its scores are all 0 on any scale.
    return equivariance_scores(scores, scale="spread" if np.ptp(scores) > 0 else "given")


def margins(scores: Float64[np.ndarray, "n 2 2"]) -> Float64[np.ndarray, " n"]:
    """How clearly each pair is right: min(s00, s11) - max(s01, s10), above 0 where the group score counts it."""
    own = np.minimum(scores[:, 0, 0], scores[:, 1, 1])
    result: NDArray[np.float64] = own - np.maximum(scores[:, 0, 1], scores[:, 1, 0])
    return result


def bar_chart(bars: Sequence[Bar], names: Sequence[str], label: str) -> dict[str, Any]:
    """What the template draws: horizontal bars from 0 to 1 with intervals, and a mark where chance is."""
    left, right, thick, gap, top = 140, 52, 14, 10, 4
    block = thick * len(names) + gap
    plot = _WIDTH - left - right
    sizes = {"left": left, "thick": thick, "gap": gap, "top": top, "block": block, "plot": plot, "width": _WIDTH}
    height = top + block * len(bars) + 24
    return sizes | {"height": height, "x": partial(_along, left, plot), "bars": bars, "names": names, "label": label}


def density_chart(curves: Sequence[Curve], label: str) -> dict[str, Any]:
    """What the template draws: densities of several models over one axis from 0, with a mark at each median."""
    top, height, left, bottom = 12, 260, 12, 40
    end = max(float(np.quantile(curve.values, 0.99)) for curve in curves) or 1.0
    grid = np.linspace(0.0, end, 240)
    densities = [smoothed(curve.values, grid) for curve in curves]
    highest = max(float(density.max()) for density in densities) or 1.0
    x = partial(_along, left, (_WIDTH - 2 * left) / end)
    y = partial(_along, height - bottom, -(height - top - bottom) / highest)
    drawn = []
    for curve, density in zip(curves, densities, strict=True):
        line = " ".join(f"{x(value)},{y(at)}" for value, at in zip(grid.tolist(), density.tolist(), strict=True))
        median = float(np.median(curve.values))
        peak = float(np.interp(median, grid, density))
        drawn.append({"name": curve.name, "line": line, "median": median, "peak": peak})
    sizes = {"width": _WIDTH, "height": height, "end": end, "ticks": _ticks(end)}
    return sizes | {"x": x, "y": y, "curves": drawn, "label": label}


def _along(start: float, scale: float, value: float, beyond: float = 0) -> str:
    """A place on an axis, in the drawing's units."""
    return f"{start + scale * value + beyond:.1f}"


def _ticks(end: float) -> list[float]:
    """Four to ten round numbers from 0 to the end."""
    power = 10.0 ** np.floor(np.log10(end))
    step = next(power * factor for factor in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if end / (power * factor) <= 8)
    return [round(k * step, 12) for k in range(int(end / step + 1e-9) + 1)]


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

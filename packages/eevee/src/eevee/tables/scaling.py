r"""From values to the scale that scorers work on, and back: a link for bounds, then plain, winsorised or ranked.

- **bounds**: a value between l and h becomes $\arcsin\sqrt{(v - l) / (h - l)}$, which stabilises the variance of a
  share and has an inverse for every number, so that predictions and both ends of their intervals keep to the bounds;
- `plain`: mean and standard deviation of the column;
- `winsor`: values further than three robust deviations (1.4826 times the median absolute one) from the median count as
  that far; then as `plain`. A column that is mostly one value keeps its values;
- `rank`: normal scores: the r-th of n values becomes the $(r - \frac12) / n$ quantile of the normal distribution.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from eevee.tables.table import ResultTable

FENCE = 3 * 1.4826
_NORMAL = NormalDist()


class Link:
    """Takes bounded columns to the line by the arcsine of their root; leaves the others as they are."""

    def __init__(self, table: ResultTable) -> None:
        bounds = [metric.bounds for metric in table.metrics]
        self.bounded: Bool[np.ndarray, " metrics"] = np.array([b is not None for b in bounds])
        self.low = np.array([0.0 if b is None else b[0] for b in bounds])
        self.span = np.array([1.0 if b is None else b[1] - b[0] for b in bounds])

    def forward(self, values: Float[np.ndarray, "n metrics"]) -> Float[np.ndarray, "n metrics"]:
        """Values on the line; NaN stays."""
        if not self.bounded.any():
            return values
        share = np.clip((values - self.low) / self.span, 0.0, 1.0)
        return np.where(self.bounded, np.arcsin(np.sqrt(share)), values)

    def backward(self, line: Float[np.ndarray, "n metrics"]) -> Float[np.ndarray, "n metrics"]:
        """Values of points on the line: those of a bounded metric lie within its bounds."""
        if not self.bounded.any():
            return line
        share = np.sin(np.clip(line, 0.0, np.pi / 2)) ** 2
        return np.where(self.bounded, self.low + self.span * share, line)


def fences(line: Float[np.ndarray, "n metrics"]) -> tuple[Float[np.ndarray, " metrics"], Float[np.ndarray, " metrics"]]:
    """Ends of what `winsor` leaves as it is; infinite where more than half of a column is one value.

    Example:
        >>> low, high = fences(np.array([[0.0], [1.0], [2.0], [3.0], [99.0]]))
        >>> high.round(3).tolist()
        [6.448]
    """
    middle = np.nanmedian(line, axis=0)
    spread = np.nanmedian(np.abs(line - middle), axis=0)
    reach = np.where(spread > 0, FENCE * spread, np.inf)
    return middle - reach, middle + reach


class Ranks:
    """Normal scores of columns, by linear interpolation between the values that were seen; straight on beyond them."""

    def __init__(self, line: Float[np.ndarray, "n metrics"]) -> None:
        self.knots = [_knots(column[~np.isnan(column)]) for column in line.T]

    def forward(self, line: Float[np.ndarray, "n metrics"]) -> Float[np.ndarray, "n metrics"]:
        """Normal scores; NaN stays."""
        return np.stack([_bent(line[:, j], *knots) for j, knots in enumerate(self.knots)], axis=1)

    def backward(self, scores: Float[np.ndarray, "n metrics"]) -> Float[np.ndarray, "n metrics"]:
        """Points on the line of normal scores."""
        return np.stack([_bent(scores[:, j], y, x) for j, (x, y) in enumerate(self.knots)], axis=1)


def _knots(values: Float[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    ordered = np.sort(values)
    unique, first, count = np.unique(ordered, return_index=True, return_counts=True)
    middle = (first + count / 2) / max(len(ordered), 1)
    return unique, np.array([_NORMAL.inv_cdf(float(p)) for p in middle])


def _bent(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if len(x) < 2:
        return np.where(np.isnan(at), np.nan, at - x[0] + y[0]) if len(x) else at
    out = np.interp(at, x, y)
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    out = np.where(at < x[0], y[0] + (at - x[0]) * slope, out)
    out = np.where(at > x[-1], y[-1] + (at - x[-1]) * slope, out)
    return np.where(np.isnan(at), np.nan, out)

r"""From values to the scale that scorers work on, and back: a link for bounds, then plain, winsorised or ranked.

- **bounds**: a value between l and h becomes $\arcsin\sqrt{(v - l) / (h - l)}$, which stabilises the variance of a
  share and has an inverse for every number, so that predictions and both ends of their intervals keep to the bounds;
- `plain`: mean and standard deviation of the column, over the models that are learnt from;
- `winsor`: values further than three robust deviations (1.4826 times the median absolute one) from the median count as
  that far; then as `plain`. A column that is mostly one value keeps its values;
- `rank`: normal scores: the r-th of n values becomes the $(r - \frac12) / n$ quantile of the normal distribution.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

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
    """Ends of what `winsor` leaves as it is; infinite where more than half of a column is one value."""
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


CONSTANT = 1e-9
FAR = 6.0
"""Deviations from the other models' mean beyond which a result is an outlier."""


@dataclass(frozen=True, eq=False)
class Standardised:
    """A table with zero mean and unit variance in every column, and zeros where a cell is missing.

    Args:
        values: (models, metrics), zero where missing and in constant columns.
        mask: where a value was measured.
        centre: mean of each column over its measured cells.
        scale: standard deviation (divisor n) of each column; 1 where it is constant.
        varies: columns that are not constant: only these are predicted and counted.
        signs: +1 where higher is better, -1 where lower is.
        groups: for each model the number of its group.
        columns: for each benchmark position, its metric columns.
        link: takes bounded metrics to the line.
        fence: ends of what `winsor` leaves as it is; None for other scalings.
        ranks: of the scaling `rank`; None for others.
    """

    values: Float[np.ndarray, "models metrics"]
    mask: Bool[np.ndarray, "models metrics"]
    centre: Float[np.ndarray, " metrics"]
    scale: Float[np.ndarray, " metrics"]
    varies: Bool[np.ndarray, " metrics"]
    signs: Float[np.ndarray, " metrics"]
    groups: Int[np.ndarray, " models"]
    columns: tuple[tuple[int, ...], ...]
    link: Link
    fence: tuple[Float[np.ndarray, " metrics"], Float[np.ndarray, " metrics"]] | None = None
    ranks: Ranks | None = None

    def encode(self, rows: Float[np.ndarray, "m metrics"]) -> Float[np.ndarray, "m metrics"]:
        """Rows of values on the scale of this table; NaN where missing.

        Example:
            >>> from eevee import load_table
            >>> table = load_table("gate")
            >>> data = standardise(table)
            >>> bool(np.allclose(data.decode(data.encode(table.values)), table.values))
            True
        """
        line = self.link.forward(rows)
        if self.fence is not None:
            line = np.clip(line, *self.fence)
        if self.ranks is not None:
            line = self.ranks.forward(line)
        return np.asarray((line - self.centre) / self.scale)

    def decode(self, rows: Float[np.ndarray, "m metrics"]) -> Float[np.ndarray, "m metrics"]:
        """Values of rows on the scale of this table; those of a bounded metric keep to its bounds."""
        line = rows * self.scale + self.centre
        if self.ranks is not None:
            line = self.ranks.backward(line)
        return self.link.backward(line)

    @property
    def complete(self) -> bool:
        """True where no cell is missing."""
        return bool(self.mask.all())

    @cached_property
    def measured(self) -> Float[np.ndarray, "models metrics"]:
        """The mask as numbers: 1 where a value was measured."""
        return self.mask.astype(np.float64)

    @property
    def owner(self) -> Int[np.ndarray, " metrics"]:
        """For each metric the position of its benchmark."""
        owner = np.zeros(self.values.shape[1], dtype=np.int64)
        for position, columns in enumerate(self.columns):
            owner[list(columns)] = position
        return owner

    @cached_property
    def twins(self) -> list[Int[np.ndarray, " members"]]:
        """Positions of the models of each group with two members or more."""
        order = np.argsort(self.groups, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(self.groups))[:-1])
        return [part for part in parts if len(part) > 1]

    def without(self, held: Sequence[int] | np.ndarray) -> Standardised:
        """The same scale with these models left out; what remains need not have mean zero."""
        keep = np.setdiff1d(np.arange(len(self.values)), held)
        _, groups = np.unique(self.groups[keep], return_inverse=True)
        return replace(self, values=self.values[keep], mask=self.mask[keep], groups=groups.reshape(-1).astype(np.int64))

    def outside(
        self, candidate: Sequence[int], cells: Bool[np.ndarray, "n metrics"] | None = None
    ) -> Bool[np.ndarray, "n metrics"]:
        """The measured cells of varying metrics outside a candidate; all of them where there are none."""
        counted = (self.mask if cells is None else cells) & self.varies
        outside = counted.copy()
        outside[:, self.metric_columns(candidate)] = False
        return np.asarray(outside if outside.any() else counted)

    def metric_columns(self, candidate: Sequence[int]) -> list[int]:
        """Metric columns of the benchmarks at these positions, in order."""
        return [column for benchmark in candidate for column in self.columns[benchmark]]


def standardise(table: ResultTable, keep: Sequence[int] | None = None) -> Standardised:
    r"""Standardise: $z_{ij} = (v_{ij} - \bar v_j) / s_j$ over the measured cells of column j.

    Before that come the link and the scaling of `eevee.tables.standard`.

    Args:
        table: the results.
        keep: positions of the models to use; all by default. The others take no part, not even in means.

    Numerics: float64; a column whose standard deviation is below 1e-9 of its largest absolute value counts as constant.

    Example:
        >>> from eevee import load_table
        >>> data = standardise(load_table("gate"))
        >>> data.values.shape, bool(abs(data.values.mean()) < 1e-9)
        ((21, 30), True)

    Source: algorithm 1, line 2 of the EEVEE paper ("normalize x and y"), over all models as there; the nested
    estimate (`eevee.answers.nested`) standardises without the models that it holds out.
    """
    rows = list(range(len(table.models))) if keep is None else list(keep)
    link = Link(table)
    values = link.forward(table.values[rows])
    fence, ranks = None, None
    if table.scaling == "winsor":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value among these rows
            fence = fences(values)
        values = np.clip(values, *fence)
    elif table.scaling == "rank":
        ranks = Ranks(values)
        values = ranks.forward(values)
    mask = ~np.isnan(values)
    count = np.maximum(mask.sum(axis=0), 1)
    filled = np.where(mask, values, 0.0)
    centre = filled.sum(axis=0) / count
    offset = np.where(mask, values - centre, 0.0)
    deviation = np.sqrt((offset**2).sum(axis=0) / count)
    varies = deviation > CONSTANT * np.maximum(np.abs(filled).max(axis=0), 1e-300)
    scale = np.where(varies, deviation, 1.0)
    _, groups = np.unique(np.array(table.groups)[rows], return_inverse=True)
    by_benchmark = table.columns
    return Standardised(
        values=np.where(varies, offset / scale, 0.0),
        mask=mask,
        centre=centre,
        scale=scale,
        varies=varies,
        signs=table.signs,
        groups=groups.reshape(-1).astype(np.int64),
        columns=tuple(by_benchmark[key] for key in table.benchmark_ids),
        link=link,
        fence=fence,
        ranks=ranks,
    )


def overall_scores(table: ResultTable, rows: np.ndarray | None = None) -> Float[np.ndarray, " models"]:
    """Mean over metrics of the standardised, oriented values of each row; the table's own rows by default."""
    data = standardise(table)
    values = table.values if rows is None else rows
    scores = np.where(data.varies & ~np.isnan(values), data.encode(values) * data.signs, np.nan)
    return np.asarray(np.nanmean(scores, axis=1))

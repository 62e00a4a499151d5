"""How right predictions are: of held-out models' cells, of their order, and of a warning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import held_out
from eevee.tables.standard import overall_scores, standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float

    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised
    from eevee.tables.table import ResultTable


def kendall(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float:
    r"""Kendall's $\tau_b$: agreement of two orders, 1 the same, 0 none, -1 reversed; ties are accounted for.

    Returns:
        NaN where one of them is constant.

    Example:
        >>> kendall([1, 2, 3], [1, 3, 2]), kendall([1, 2], [2, 1])
        (0.3333333333333333, -1.0)
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    upper = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[:, None] - x[None])[upper], np.sign(y[:, None] - y[None])[upper]
    pairs = np.sqrt(float((dx**2).sum()) * float((dy**2).sum()))
    return float((dx * dy).sum() / pairs) if pairs else float("nan")


def auc(scores: Sequence[float] | np.ndarray, positive: Sequence[bool] | np.ndarray) -> float:
    """Area under the ROC curve: how often a positive has the higher score; ties count half.

    Example:
        >>> auc([1, 2, 3, 4], [False, False, True, True]), auc([1, 1], [True, False])
        (1.0, 0.5)
    """
    values, mask = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    yes, no = values[mask], values[~mask]
    if not len(yes) or not len(no):
        return float("nan")
    return float(((yes[:, None] > no).mean() + (yes[:, None] >= no).mean()) / 2)


def subset_mean_agreement(table: ResultTable, benchmarks: Sequence[str]) -> float:
    """Kendall's tau between the ranking by all metrics and by the mean over a subset's metrics.

    Example:
        >>> from eevee import load_table
        >>> -1 <= subset_mean_agreement(load_table("gate"), ["mini", "ucf"]) <= 1
        True
    """
    data = standardise(table)
    columns = data.metric_columns(table.positions(benchmarks))
    rows = np.full(table.values.shape, np.nan)
    rows[:, columns] = table.values[:, columns]
    usable = ~np.isnan(np.where(data.varies, rows, np.nan)).all(axis=1)
    if usable.sum() < 2:
        return float("nan")
    return kendall(overall_scores(table)[usable], overall_scores(table, rows[usable]))


def prediction_agreement(table: ResultTable, benchmarks: Sequence[str], scorer: Scorer | None = None) -> float:
    """Kendall's tau between the ranking by all metrics and by a scorer's (ridge's) prediction from a subset.

    Every model is predicted from a fit without its group.

    Example:
        >>> from eevee import load_table
        >>> prediction_agreement(load_table("gate"), ["mini", "ucf"]) > 0
        True
    """
    data = standardise(table)
    residual = held_out(scorer or RidgeScorer(), data, [table.positions(benchmarks)])[0]
    mask = data.mask & data.varies
    predicted = np.where(mask, (data.values + residual) * data.signs, np.nan)
    return kendall(overall_scores(table), np.nanmean(predicted, axis=1))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What held-out models say of one subset.

    Args:
        squares: squared errors, zero where nothing was measured or the metric does not vary.
        seen: which cells count.
        outside: which of them lie outside the subset.
        rows: the held-out models' standardised rows, NaN where missing.
    """

    squares: Float[np.ndarray, "held metrics"]
    seen: Bool[np.ndarray, "held metrics"]
    outside: Bool[np.ndarray, "held metrics"]
    rows: Float[np.ndarray, "held metrics"]

    def all_cells(self) -> Float[np.ndarray, " held"]:
        """Mean squared error of each model."""
        return np.asarray(self.squares.sum(axis=1) / np.maximum(self.seen.sum(axis=1), 1))

    def unmeasured(self) -> Float[np.ndarray, " held"]:
        """Mean squared error of each model over the cells outside the subset; NaN where it has none."""
        count = self.outside.sum(axis=1)
        total = np.where(self.outside, self.squares, 0.0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def judge_held_out(
    scorer: Scorer, table: ResultTable, train: Sequence[int], held: Sequence[int], candidate: Candidate
) -> HeldOut:
    """Predict held-out models from a subset; nothing of them is seen before, not even by means and deviations."""
    data = standardise(table, train)
    rows = np.where(data.varies, data.encode(table.values[list(held)]), np.nan)
    measured = ~np.isnan(rows)
    residual = np.where(measured, scorer.predict(data, candidate, rows) - rows, 0.0)
    outside = measured.copy()
    outside[:, data.metric_columns(candidate)] = False
    return HeldOut(residual**2, measured, outside, rows)


def held_out_errors(
    scorer: Scorer, table: ResultTable, train: Sequence[int], held: Sequence[int], candidates: Sequence[Candidate]
) -> Float[np.ndarray, "candidates held"]:
    """Mean squared error of each held-out model, in standard deviations of the training models.

    With the objective `unselected`, the candidate's own metrics are not counted.
    """
    out = np.empty((len(candidates), len(held)))
    for number, candidate in enumerate(candidates):
        judged = judge_held_out(scorer, table, train, held, candidate)
        out[number] = judged.unmeasured() if scorer.objective == "unselected" else judged.all_cells()
    return out


def unmeasured_error(scorer: Scorer, data: Standardised, candidate: Candidate) -> tuple[float, float]:
    """Leave-one-out error of the cells outside a subset, and its standard error; NaN where there are none."""
    residual = held_out(scorer, data, [candidate])[0]
    cells = data.mask & data.varies
    cells[:, data.metric_columns(candidate)] = False
    if not cells.any():
        return float("nan"), float("nan")
    squares = np.where(cells, residual, 0.0) ** 2
    error = float(squares.sum() / cells.sum())
    n = int(cells.any(axis=1).sum())
    off = squares.sum(axis=1) - error * cells.sum(axis=1)
    return error, float(np.sqrt((off**2).sum() * n / max(n - 1, 1)) / cells.sum())

"""Rankings of models from measured, averaged or predicted scores, and how far two of them agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import held_out
from eevee.tables.standard import overall_scores, standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.scorers.scorer import Scorer
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

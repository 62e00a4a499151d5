"""How right predictions are: of held-out models' cells, of their order, and of a warning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from eevee.errors import EeveeError
from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import held_out
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.standard import overall_scores, standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float

    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised
    from eevee.tables.table import ResultTable


def kendall(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> float:
    r"""Kendall's $\tau_b$: agreement of two orders, 1 the same, 0 none, -1 reversed; ties are accounted for."""
    return float(stats.kendalltau(a, b).statistic)


def auc(scores: Sequence[float] | np.ndarray, positive: Sequence[bool] | np.ndarray) -> float:
    """Area under the ROC curve: how often a positive has the higher score; ties count half."""
    values, mask = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    yes, no = values[mask], values[~mask]
    if not len(yes) or not len(no):
        return float("nan")
    return float(((yes[:, None] > no).mean() + (yes[:, None] >= no).mean()) / 2)


def subset_mean_agreement(table: ResultTable, benchmarks: Sequence[str]) -> float:
    """Kendall's tau between the ranking by all metrics and by the mean over a subset's metrics."""
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
    """
    data = standardise(table)
    residual = held_out(scorer or RidgeScorer(), data, [table.positions(benchmarks)])[0]
    mask = data.mask & data.varies
    predicted = np.where(mask, (data.values + residual) * data.signs, np.nan)
    return kendall(overall_scores(table), np.nanmean(predicted, axis=1))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What held-out models say of one subset."""

    residual: Float[np.ndarray, "held metrics"]  # prediction minus truth, 0 where a cell is missing
    measured: Bool[np.ndarray, "held metrics"]
    outside: Bool[np.ndarray, "held metrics"]  # measured cells outside the subset
    rows: Float[np.ndarray, "held metrics"]  # the models' own, on the scale of those that were learnt from

    def all_cells(self) -> Float[np.ndarray, " held"]:
        """Mean squared error of each model."""
        return np.asarray((self.residual**2).sum(axis=1) / np.maximum(self.measured.sum(axis=1), 1))

    def unmeasured(self) -> Float[np.ndarray, " held"]:
        """Mean squared error of each model over the cells outside the subset; NaN where it has none."""
        count = self.outside.sum(axis=1)
        total = np.where(self.outside, self.residual**2, 0.0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def judge_held_out(
    scorer: Scorer, data: Standardised, values: Float[np.ndarray, "held metrics"], candidate: Candidate
) -> HeldOut:
    """Predict models that took no part in `data`, not even in its means and deviations, from a subset."""
    rows = np.where(data.varies, data.encode(values), np.nan)
    measured = ~np.isnan(rows)
    residual = np.where(measured, scorer.predict(data, candidate, rows) - rows, 0.0)
    outside = measured.copy()
    outside[:, data.metric_columns(candidate)] = False
    return HeldOut(residual, measured, outside, rows)


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


def importance(table: ResultTable, benchmarks: Sequence[str], *, scorer: Scorer | None = None) -> dict[str, float]:
    """Rise of the error when each member is left out and the meta-model fitted again; most important first.

    A single member is compared with predicting the mean of the other models.

    Source: figure 4 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    data = standardise(table)
    chosen = table.positions(benchmarks)
    without = [tuple(i for i in chosen if i != out) for out in chosen]
    full = float(meta.score(data, [chosen])[0, 0])
    errors = [float(error) for error in meta.score(data, without)[:, 0]]
    rises = {table.benchmark_ids[out]: error - full for out, error in zip(chosen, errors, strict=True)}
    return dict(sorted(rises.items(), key=lambda item: -item[1]))


def predictiveness(table: ResultTable, *, scorer: Scorer | None = None) -> dict[str, float]:
    """Error of each benchmark alone, the most predictive first.

    Source: figure 3 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    errors = meta.score(standardise(table), [(i,) for i in range(len(table.benchmarks))])[:, 0]
    alone = {key: float(error) for key, error in zip(table.benchmark_ids, errors, strict=True)}
    return dict(sorted(alone.items(), key=lambda item: item[1]))


def error_against_k(
    table: ResultTable,
    sizes: Sequence[int],
    *,
    scorer: Scorer | None = None,
    method: str = "evolution",
    seed: int = 0,
    generations: int = 20,
) -> dict[int, tuple[float, ...]]:
    """Errors of the best candidates (up to 50) of a search at each size, lowest first.

    Source: figure 5 of the EEVEE paper.
    """
    meta = scorer or RidgeScorer()
    data = standardise(table)
    if not sizes:
        raise EeveeError("no sizes are given; expected at least one k")
    out = {}
    for k in sizes:
        space = Space(table, Constraints(k=k))
        result = search(method, Evaluator(meta, data), space, seed=seed, generations=generations)
        out[k] = tuple(error for _, error in result.winners)
    return out

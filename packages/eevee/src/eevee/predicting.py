"""`predict`: a new model's whole row from its scores on the subset, with intervals and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.ranking import overall_scores
from eevee.record import Recorded
from eevee.ridge import fit, residuals_from_columns
from eevee.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, Int

    from eevee.space import Candidate
    from eevee.standard import Standardised
    from eevee.table import ResultTable


@dataclass(frozen=True)
class Cell:
    """One predicted result: the middle and the ends of its interval; `given` where it was measured."""

    value: float
    low: float
    high: float
    given: bool


@dataclass(frozen=True)
class ModelPrediction:
    """Predictions for one model.

    Args:
        cells: for each metric id its prediction.
        overall: mean of all metrics, given or predicted, in standard deviations, higher is better.
        rank: place among the table's models and the new ones, 1 the best, by `overall`.
        outside: given metrics whose value lies outside what the table's models reached.
        extrapolates: True where the combination of scores is further out than any model of the table (leverage).
        missing: subset metrics that were not given.
    """

    cells: dict[str, Cell]
    overall: float
    rank: int
    outside: tuple[str, ...]
    extrapolates: bool
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Prediction(Recorded):
    """Predictions for new models from their scores on a subset.

    Args:
        table: name of the table that was learnt from.
        data_hash: its hash.
        benchmarks: the subset.
        level: share of cells that the intervals are meant to cover.
        models: for each new model its prediction.
        ranking: models of the table and new ones, best first, by measured or predicted overall score.
    """

    table: str
    data_hash: str
    benchmarks: tuple[str, ...]
    level: float
    models: dict[str, ModelPrediction]
    ranking: tuple[str, ...]


def intervals(
    data: Standardised, candidate: Candidate, rows: Float[np.ndarray, "m metrics"], alpha: float, level: float
) -> tuple[Float[np.ndarray, "m metrics"], Float[np.ndarray, "m metrics"], Float[np.ndarray, " m"]]:
    r"""Predictions, half-widths of their intervals and leverages, all in standard deviations.

    With $r_{it}$ the held-out residual of model i on metric t, $h_i$ its leverage when held out and $s_t$ the root
    mean square of $r_{it} / \sqrt{1 + h_i}$, the half-width for a new row is $q \, s_t \sqrt{1 + h}$, with q the
    $\frac{n+1}{n}$ `level` quantile of $|r_{it}| / (s_t \sqrt{1 + h_i})$ over all n models and all metrics outside
    the subset: the new model is one of n + 1 that could have been held out.

    Args:
        data: the standardised table to learn from.
        candidate: benchmark positions of the subset.
        rows: standardised rows of the new models, NaN where not measured.
        alpha: ridge penalty.
        level: in (0, 1).

    Numerics: one quantile for all metrics, since twenty models are too few for one each; so coverage holds on average
    over metrics and not for each. A row with gaps is treated as if its present columns were the subset. The search
    makes residuals a little small; what coverage remains is measured by `benchmarks/honesty.py`.
    """
    columns = np.array(data.metric_columns(candidate))
    given = ~np.isnan(rows[:, columns])
    predicted, half, leverage = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows))
    for pattern in np.unique(given, axis=0):
        same = np.flatnonzero((given == pattern).all(axis=1))
        present = columns[pattern]
        scale, quantile = _residual_scale(data, present, alpha, level)
        coefficients = fit(data, present, alpha)
        x, new = data.values[:, present], rows[np.ix_(same, present)]
        inverse = np.linalg.inv(x.T @ x + alpha * np.eye(len(present)))
        leverage[same] = 1 / len(x) + np.einsum("mi,ij,mj->m", new, inverse, new)
        predicted[same] = new @ coefficients[:-1] + coefficients[-1]
        half[same] = quantile * scale * np.sqrt(1 + leverage[same])[:, None]
    return predicted, half, leverage


def _residual_scale(
    data: Standardised, columns: Int[np.ndarray, " d"], alpha: float, level: float
) -> tuple[Float[np.ndarray, " metrics"], float]:
    """Scale of each metric's held-out residuals from these columns, and the quantile of the scaled ones."""
    residual = residuals_from_columns(data, columns[None], alpha)[0].numpy()
    counted = data.mask & data.varies
    spread = np.sqrt(1 + _held_out_leverage(data, columns, alpha))[:, None]
    scaled = np.where(counted, residual / spread, 0.0)
    scale = np.sqrt((scaled**2).sum(axis=0) / np.maximum(counted.sum(axis=0), 1))
    outside = counted.copy()
    outside[:, columns] = False
    usable = outside if outside.any() else counted
    n = len(scaled)
    ratios = (np.abs(scaled) / np.maximum(scale, 1e-12))[usable]
    return scale, float(np.quantile(ratios, min(1.0, level * (n + 1) / n)))


def _held_out_leverage(
    data: Standardised, columns: Sequence[int] | np.ndarray, alpha: float
) -> Float[np.ndarray, " models"]:
    x = data.values[:, list(columns)]
    own = (x * np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T).T).sum(axis=1) + 1 / len(x)
    return np.asarray(own / (1 - own))


def predict(
    table: ResultTable,
    benchmarks: Sequence[str],
    scores: Mapping[str, Mapping[str, float]],
    *,
    level: float = 0.9,
    alpha: float = 1.0,
) -> Prediction:
    """Predict every metric of new models from their scores on a subset, by ridge regression on the table's models.

    Args:
        table: results of models on all benchmarks.
        benchmarks: ids of the subset.
        scores: for each new model its values by metric id (or by benchmark id, where that has one metric). Some may be
            missing; the prediction is then a fit on those that are there. Values outside the subset are refused.
        level: of the intervals.
        alpha: ridge penalty.

    Raises:
        EeveeError: an unknown metric, a value that is not finite, a model without any score or with a name that the
            table has.

    Example:
        >>> from eevee import load_table
        >>> new = predict(load_table("gate"), ["ade20k", "acdc"], {"mine": {"ade20k": 45.0, "acdc": 55.0}})
        >>> cell = new.models["mine"].cells["imagenet1k/acc1"]
        >>> cell.low < cell.value < cell.high
        True
    """
    if not 0 < level < 1:
        raise EeveeError(f"level is {level}; expected a number between 0 and 1, exclusive")
    if not alpha > 0:
        raise EeveeError(f"alpha is {alpha}; expected a number > 0")
    chosen = table.positions(benchmarks)
    if not scores:
        raise EeveeError("no model to predict; expected scores of at least one")
    data = standardise(table)
    columns = data.metric_columns(chosen)
    raw = np.stack([_row(table, columns, model, given) for model, given in scores.items()])
    rows = (raw - data.centre) / data.scale
    predicted, half, leverage = intervals(data, chosen, rows, alpha, level)
    seen = ~np.isnan(raw)
    middle = np.where(seen, raw, predicted * data.scale + data.centre)
    width = np.where(seen, 0.0, half * data.scale)
    limit = _held_out_leverage(data, columns, alpha).max()
    own, new = overall_scores(table), overall_scores(table, middle)
    names = [*table.models, *scores]
    totals = np.concatenate([own, new])
    order = np.argsort(-totals, kind="stable")
    low, high = np.nanmin(table.values, axis=0), np.nanmax(table.values, axis=0)
    ids = table.metric_ids
    models = {}
    for i, model in enumerate(scores):
        models[model] = ModelPrediction(
            cells={
                ids[j]: Cell(
                    float(middle[i, j]),
                    float(middle[i, j] - width[i, j]),
                    float(middle[i, j] + width[i, j]),
                    bool(seen[i, j]),
                )
                for j in range(len(ids))
            },
            overall=float(new[i]),
            rank=int((totals > new[i]).sum()) + 1,
            outside=tuple(ids[j] for j in columns if seen[i, j] and not low[j] <= raw[i, j] <= high[j]),
            extrapolates=bool(leverage[i] > limit),
            missing=tuple(ids[j] for j in columns if not seen[i, j]),
        )
    return Prediction(
        table=table.name,
        data_hash=table.hash,
        benchmarks=tuple(table.benchmark_ids[i] for i in chosen),
        level=level,
        models=models,
        ranking=tuple(names[i] for i in order),
    )


def _row(table: ResultTable, columns: Sequence[int], model: str, given: Mapping[str, float]) -> np.ndarray:
    if model in table.models:
        raise EeveeError(f"model {model!r} is in the table already; give the new model another name")
    ids = table.metric_ids
    single = {key: found[0] for key, found in table.columns.items() if len(found) == 1}
    known = {**single, **{key: j for j, key in enumerate(ids)}}
    row = np.full(len(ids), np.nan)
    for key, value in given.items():
        if known.get(key) not in columns:
            allowed = ", ".join(ids[j] for j in columns)
            raise EeveeError(f"model {model!r}: {key!r} is not a metric of the subset; expected some of {allowed}")
        if np.isinf(value):
            raise EeveeError(f"model {model!r}, metric {key!r}: {value}; expected a finite number")
        row[known[key]] = value
    if np.isnan(row).all():
        raise EeveeError(f"model {model!r} has no score on the subset {', '.join(ids[j] for j in columns)}")
    return row

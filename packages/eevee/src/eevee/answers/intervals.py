"""Intervals around predictions: conformal, on what was held out, and wider for what is unlike the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.scorers.scorer import held_out, held_out_spread, spread
from eevee.tables.holdout import folds_of, held_together
from eevee.tables.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.scorers.scorer import Scorer
    from eevee.tables.table import ResultTable

UNLIKE = 0.9


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the held-out residuals of a subset say about the next model's.

    Args:
        scale: root mean square of each metric's residuals over their spread.
        quantile: of the absolute residuals over spread and scale.
        spreads: of the held-out models, sorted.
    """

    scale: Float[np.ndarray, " metrics"]
    quantile: float
    spreads: Float[np.ndarray, " held"]

    def unlike(self, row_spread: float) -> float:
        """Share of the held-out models that are more like the rest than a row with this spread."""
        return float(np.searchsorted(self.spreads, row_spread) / len(self.spreads))


def calibrate(
    table: ResultTable, candidate: Sequence[int], scorer: Scorer, *, level: float, holdout: str = "model"
) -> Calibration:
    r"""Calibrate intervals on what was held out.

    With $r_{it}$ the held-out residual of model i on metric t, $u_i$ the spread of its prediction and $s_t$ the root
    mean square of $r_{it} / u_i$, the half-width for a new row of spread u is $q\, s_t u$, with q the upper
    $\frac{n+1}{n}$ `level` quantile of $|r_{it}| / (s_t u_i)$ over all held-out models and all metrics outside the
    subset, and n the number of what is held out as a whole: of groups, or of families, not of the models in them.

    Args:
        table: the models to learn from.
        candidate: benchmark positions of the subset.
        scorer: what predicts.
        level: in (0, 1).
        holdout: what is held out as a whole: `model` for a new model of families like those of the table, `family` for
            one of a new family, `date` for one that is newer than all.

    Numerics: one quantile for all metrics, since twenty models are too few for one each; so coverage holds on average
    over metrics and not for each. What it is on real tables, `benchmarks/predictors.py` measures.

    Source: split-conformal prediction with normalised scores, on leave-one-group-out residuals; a choice of ours.
    """
    together = held_together(table, holdout)
    data = standardise(together)
    if holdout == "date":
        rows, spreads, parts = data.values, np.zeros(len(data.values)), np.zeros(len(data.values), dtype=bool)
        residual = np.zeros_like(rows)
        inputs = np.where(data.mask, rows, np.nan)
        for train, held in folds_of(together, holdout, None, 0):
            older = data.without([i for i in range(len(rows)) if i not in set(train)])
            residual[held] = scorer.predict(older, candidate, inputs[held]) - rows[held]
            spreads[held] = spread(scorer, older, candidate, inputs[held])
            parts[held] = True
        residual, spreads, mask = residual[parts], spreads[parts], data.mask[parts]
    else:
        residual = held_out(scorer, data, [candidate])[0]
        spreads, mask = held_out_spread(scorer, data, candidate), data.mask
    counted = mask & data.varies
    scaled = np.where(counted, residual / spreads[:, None], 0.0)
    scale = np.sqrt((scaled**2).sum(axis=0) / np.maximum(counted.sum(axis=0), 1))
    outside = counted.copy()
    outside[:, data.metric_columns(candidate)] = False
    usable = outside if outside.any() else counted
    n = len(scaled) if holdout == "date" else len(set(together.groups))
    ratios = (np.abs(scaled) / np.maximum(scale, 1e-12))[usable]
    return Calibration(
        scale, float(np.quantile(ratios, min(1.0, level * (n + 1) / n), method="higher")), np.sort(spreads)
    )


def intervals(
    table: ResultTable,
    candidate: Sequence[int],
    scorer: Scorer,
    rows: Float[np.ndarray, "m metrics"],
    *,
    level: float,
    holdout: str = "model",
) -> tuple[Float[np.ndarray, "m metrics"], Float[np.ndarray, "m metrics"], Float[np.ndarray, " m"]]:
    """Predictions of new rows, half-widths of their intervals, and how unlike the table each row is.

    Args:
        table: the models to learn from.
        candidate: benchmark positions of the subset.
        scorer: what predicts.
        rows: on the scale of `standardise(table)`, NaN where not measured. A row that lacks a benchmark of the subset
            gets the intervals of the subset without it.
        level: of the intervals, in (0, 1).
        holdout: see `calibrate`.

    Returns:
        Predictions, half-widths, and the share of held-out models that are less unlike than the row.
    """
    data = standardise(table)
    has = np.array([~np.isnan(rows[:, list(data.columns[b])]).all(axis=1) for b in candidate]).T
    predicted, half, unlike = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows))
    for pattern in np.unique(has, axis=0):
        same = np.flatnonzero((has == pattern).all(axis=1))
        present = tuple(b for b, there in zip(candidate, pattern, strict=True) if there)
        calibration = calibrate(table, present, scorer, level=level, holdout=holdout)
        predicted[same] = scorer.predict(data, present, rows[same])
        spreads = spread(scorer, data, present, rows[same])
        half[same] = calibration.quantile * calibration.scale * spreads[:, None]
        unlike[same] = [calibration.unlike(float(one)) for one in spreads]
    return predicted, half, unlike

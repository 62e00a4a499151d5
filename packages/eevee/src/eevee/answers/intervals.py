"""Intervals around predictions: conformal, on what was held out, and wider for what is unlike the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eevee.answers.evaluation import auc, judge_held_out
from eevee.errors import EeveeError
from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import held_out, held_out_spread, spread
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import ORDERED, folds_of, held_together
from eevee.tables.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float, Int

    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate
    from eevee.tables.standard import Standardised
    from eevee.tables.table import ResultTable

UNLIKE = 0.9
SEARCH_CELLS = 20_000
"""Of a table in which a search without each fold of models takes seconds."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the held-out residuals of a subset say about the next model's."""

    scale: Float[np.ndarray, " metrics"]
    quantile: float
    unlike: Float[np.ndarray, " held"]
    auc: float
    promise: float  # what the interval can promise: the level, or n / (n + 1) where that is less

    def share(self, unlike: float) -> float:
        """Share of the held-out models that are more like the rest than a row that is so unlike."""
        return float(np.searchsorted(self.unlike, unlike) / len(self.unlike))


class Intervals(NamedTuple):
    """Of new rows."""

    predicted: Float[np.ndarray, "m metrics"]
    half: Float[np.ndarray, "m metrics"]
    unlike: Float[np.ndarray, " m"]
    beyond: Float[np.ndarray, " m"]
    auc: float
    promise: float


class Fold(NamedTuple):
    """Held-out models: their residuals, how unlike they are, and the cells that count."""

    residual: Float[np.ndarray, "held metrics"]
    unlike: Float[np.ndarray, " held"]
    outside: Bool[np.ndarray, "held metrics"]


def calibrate(
    table: ResultTable,
    candidate: Sequence[int],
    scorer: Scorer,
    *,
    level: float,
    holdout: str = "model",
    searched: bool = False,
    falling: bool = False,
) -> Calibration:
    r"""Calibrate intervals on what was held out.

    With $r_{it}$ the held-out residual of model i on metric t, $u_i = p_i (1 + m_i^2)^{1/4}$ how unlike the others it
    is ($p_i$ the spread of its prediction, $m_i$ the error of predicting each measured benchmark from the other
    measured ones, over its root mean square) and $s_t$ the root mean square of $r_{it} / u_i$, the half-width for a
    new row is $q\, s_t u$, with q the upper $\frac{n+1}{n}$ `level` quantile of $|r_{it}| / (s_t u_i)$ over held-out
    models and metrics outside the subset. n is the number of what is held out as a whole, of groups or of families, or
    as many models as tell coverage as surely as these do, where that is more.

    Numerics: one quantile for all metrics, since twenty models are too few for one each; so coverage holds on average
    over metrics and not for each. What it is on real tables, `benchmarks/coverage.py` measures.

    Source: split-conformal prediction with normalised scores (Lei et al., 2018), on cross-validation's folds; a choice
    of ours.
    """
    together = held_together(table, holdout)
    data = standardise(together)
    inside = inside_fold(scorer, data, candidate)
    folds = [inside]
    scale = _scale(inside)
    ratios, models = [_ratios(inside, scale)], [np.arange(len(table.models))]
    if holdout in ORDERED or (searched and table.values.size <= SEARCH_CELLS):
        folds, ratios, models = [], [], []
        for train, held in folds_of(together, holdout, None, 0, falling=falling):
            older = standardise(together, train)
            subset = _search(together, train, len(candidate)) if searched else tuple(candidate)
            judged = judge_held_out(scorer, older, together.values[held], subset)
            unlike = unlike_rows(scorer, older, subset, judged.rows)
            fold = Fold(judged.residual, unlike, older.outside(subset, judged.measured))
            folds.append(fold)
            models.append(np.array(held))
            ratios.append(_ratios(fold, _scale(inside_fold(scorer, older, subset))))
    every = np.concatenate(ratios)
    n = float(len(every))
    if holdout not in ORDERED:
        n = _independent(every, data.groups[np.concatenate(models)], level)
    unlike = np.concatenate([fold.unlike for fold in folds])
    errors = np.concatenate([(fold.residual**2 * fold.outside).sum(1) / fold.outside.sum(1).clip(1) for fold in folds])
    return Calibration(
        scale,
        float(np.nanquantile(every, min(1.0, level * (n + 1) / n), method="higher")),
        np.sort(unlike),
        auc(unlike, errors >= np.quantile(errors, 0.75)),
        min(level, n / (n + 1)),
    )


def intervals(
    table: ResultTable,
    candidate: Sequence[int],
    scorer: Scorer,
    rows: Float[np.ndarray, "m metrics"],
    *,
    level: float,
    holdout: str = "model",
    searched: bool = False,
) -> Intervals:
    """Predictions of new rows, half-widths of their intervals, and how unlike the table each row is.

    A row whose measured part is better (or worse) than any model's of the table has the intervals of better (worse)
    models that were held out from the others, where these are wider.
    """
    data = standardise(table)
    own = np.where(data.mask, data.values, np.nan)
    predicted, half = np.empty_like(rows), np.empty_like(rows)
    unlike, beyond, warning_auc = np.empty(len(rows)), np.zeros(len(rows)), float("nan")
    promise = level
    for same, present in alike(data, candidate, rows):
        columns = data.metric_columns(present)
        best = _level(own, columns, data.signs)
        new = _level(rows[same], columns, data.signs)
        beyond[same] = np.where(new > np.nanmax(best), 1, np.where(new < np.nanmin(best), -1, 0))
        calibration = calibrate(table, present, scorer, level=level, holdout=holdout, searched=searched)
        warning_auc, promise = calibration.auc, min(promise, calibration.promise)
        predicted[same] = scorer.predict(data, present, rows[same])
        distance = unlike_rows(scorer, data, present, rows[same])
        half[same] = calibration.quantile * calibration.scale * distance[:, None]
        unlike[same] = [calibration.share(float(far)) for far in distance]
        for side in {-1, 1} & set(beyond[same].tolist()):
            try:
                wide = calibrate(table, present, scorer, level=level, holdout="frontier", falling=side < 0)
            except EeveeError:  # too few models for five worse ones
                continue
            out = same[beyond[same] == side]
            half[out] *= max(1.0, wide.quantile / calibration.quantile)
    return Intervals(predicted, half, unlike, beyond, warning_auc, promise)


def alike(
    data: Standardised, candidate: Sequence[int], rows: Float[np.ndarray, "m metrics"]
) -> Iterator[tuple[Int[np.ndarray, " same"], tuple[int, ...]]]:
    """Yield the places of rows that have the same benchmarks of a candidate, and these benchmarks."""
    has = np.array([~np.isnan(rows[:, list(data.columns[b])]).all(axis=1) for b in candidate]).T
    for pattern in np.unique(has, axis=0):
        present = tuple(b for b, has_it in zip(candidate, pattern, strict=True) if has_it)
        yield np.flatnonzero((has == pattern).all(axis=1)), present


def filled(
    data: Standardised, raw: Float[np.ndarray, "m metrics"], predicted: Float[np.ndarray, "m metrics"]
) -> Float[np.ndarray, "m metrics"]:
    """Return rows in their own units, with what was predicted where they have nothing."""
    return np.where(np.isnan(raw), data.decode(predicted), raw)


def inside_fold(scorer: Scorer, data: Standardised, candidate: Sequence[int]) -> Fold:
    """Every model of the table by the fits without its group."""
    unlike = held_out_spread(scorer, data, candidate)
    parts = _others(candidate)
    if parts:
        off = held_out(RidgeScorer(), data, parts)
        unlike = unlike * _surprise(data, candidate, off, data.mask)[0]
    return Fold(held_out(scorer, data, [candidate])[0], unlike, data.outside(candidate))


def unlike_rows(
    scorer: Scorer, data: Standardised, candidate: Sequence[int], rows: Float[np.ndarray, "m metrics"]
) -> Float[np.ndarray, " m"]:
    """How unlike the table new rows are."""
    unlike = spread(scorer, data, candidate, rows)
    parts = _others(candidate)
    if not parts:
        return unlike
    ridge = RidgeScorer()
    usual = _surprise(data, candidate, held_out(ridge, data, parts), data.mask)[1]
    measured = ~np.isnan(rows)
    off = np.stack([np.where(measured, ridge.predict(data, part, rows) - rows, 0.0) for part in parts])
    return np.asarray(unlike * _surprise(data, candidate, off, measured, usual)[0])


def _others(candidate: Sequence[int]) -> list[tuple[int, ...]]:
    """The subset without each of its members, where that leaves something."""
    return [tuple(b for b in candidate if b != out) for out in candidate] if len(candidate) > 1 else []


def _surprise(
    data: Standardised,
    candidate: Sequence[int],
    off: Float[np.ndarray, "members n metrics"],
    measured: Bool[np.ndarray, "n metrics"],
    usual: float | None = None,
) -> tuple[Float[np.ndarray, " n"], float]:
    r"""$(1 + m^2)^{1/4}$ of each row, and the root mean square that m is over."""
    total, count = np.zeros(len(measured)), np.zeros(len(measured))
    for residual, benchmark in zip(off, candidate, strict=True):
        columns = [column for column in data.columns[benchmark] if data.varies[column]]
        total += (residual[:, columns] ** 2 * measured[:, columns]).sum(1)
        count += measured[:, columns].sum(1)
    square = total / np.maximum(count, 1)
    usual = float(np.sqrt(square.mean())) if usual is None else usual
    return (1 + square / max(usual, 1e-12) ** 2) ** 0.25, usual


def _independent(
    ratios: Float[np.ndarray, "models metrics"], groups: Int[np.ndarray, " models"], level: float
) -> float:
    """As many independent models as tell coverage as surely as the groups do: at least the groups, at most all models.

    Groups of which each has its own share of large residuals count once each; where all have the same share, every
    model counts.
    """
    counted = ~np.isnan(ratios)
    large = ratios > np.nanquantile(ratios, level)
    cells, exceeded = (np.bincount(groups, part.sum(1)) for part in (counted, large))
    least, most = float(len(cells)), float(len(groups))
    off = exceeded - cells * exceeded.sum() / cells.sum()
    variance = (off**2).sum() / cells.sum() ** 2 * least / max(least - 1, 1)
    return float(np.clip(level * (1 - level) / max(variance, 1e-300), least, most))


def _scale(fold: Fold) -> Float[np.ndarray, " metrics"]:
    counted = fold.residual != 0
    scaled = (fold.residual / fold.unlike[:, None]) ** 2
    return np.asarray(np.sqrt(scaled.sum(axis=0) / np.maximum(counted.sum(axis=0), 1)))


def _ratios(fold: Fold, scale: Float[np.ndarray, " metrics"]) -> Float[np.ndarray, "held metrics"]:
    """Absolute residuals in what they are expected to be; NaN where a cell does not count."""
    scaled = np.abs(fold.residual) / fold.unlike[:, None] / np.maximum(scale, 1e-12)
    return np.where(fold.outside & (scale > 0), scaled, np.nan)


def _level(
    rows: Float[np.ndarray, "n metrics"], columns: Sequence[int], signs: Float[np.ndarray, " metrics"]
) -> Float[np.ndarray, " n"]:
    """Mean of the measured part of each row, higher is better; NaN where nothing is."""
    part = rows[:, list(columns)] * signs[list(columns)]
    measured = ~np.isnan(part)
    return np.asarray(np.where(measured.any(1), np.where(measured, part, 0.0).sum(1) / measured.sum(1).clip(1), np.nan))


def _search(table: ResultTable, train: Sequence[int], size: int) -> Candidate:
    """Greedy search with ridge on some of the models."""
    evaluate = Evaluator(RidgeScorer(objective="unselected"), standardise(table, train))
    return search("greedy", evaluate, Space(table, Constraints(k=min(size, len(table.benchmarks)))), seed=0).best

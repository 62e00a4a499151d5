"""`predict`: a new model's whole row from its scores on the subset, with intervals and warnings."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.answers.intervals import SEARCH_CELLS, UNLIKE, alike, filled, intervals
from eevee.answers.scorer_choice import AUTO, resolve_scorer
from eevee.errors import EeveeError
from eevee.tables.checking import derived_warning, shares_warning
from eevee.tables.given import as_number
from eevee.tables.holdout import families_note, held_together
from eevee.tables.serialization import Recorded, plain_data
from eevee.tables.standard import overall_scores, standardise
from eevee.tables.table import require_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.answers.scorer_choice import Choice
    from eevee.scorers.scorer import Scorer
    from eevee.tables.table import ResultTable


@dataclass(frozen=True)
class Cell:
    """One predicted result: the middle and the ends of its interval; `given` where it was measured."""

    value: float
    low: float
    high: float
    given: bool


@dataclass(frozen=True)
class ModelPrediction:
    """Predictions for one model."""

    cells: dict[str, Cell]  # for each metric id its prediction
    overall: float  # mean of all metrics, given or predicted, in standard deviations, higher is better
    rank: int  # place among the table's models and the new ones, 1 the best, by `overall`
    outside: tuple[str, ...]  # given metrics whose value lies outside what the table's models reached
    # share of the table's models whose scores are more like the other models' (by the spread of their predictions
    # when held out, and by how well the measured part tells itself)
    unlike: float
    extrapolates: bool  # True where that share is .9 or more, or the row lies beyond the table's models
    # `above` where the measured part is better on average than any model's of the table, `below` where it is
    # worse than any, else empty; the intervals are then those of such models, where these are wider
    beyond: str
    missing: tuple[str, ...]  # subset metrics that were not given
    mean: Cell | None = None  # of all metrics, given or predicted, in the table's unit, where it was asked for


@dataclass(frozen=True)
class Prediction(Recorded):
    """Predictions for new models from their scores on a subset.

    Args:
        table: name of the table that was learnt from.
        data_hash: its hash.
        benchmarks: the subset.
        level: share of cells that the intervals are meant to cover.
        scorer: what predicted.
        choice: what leave-one-out compared, where it chose the scorer.
        holdout: whom the intervals are for.
        warning_auc: how well the warning told the quarter of held-out models with the largest errors: 1 always, .5 not
            at all; of the last pattern of given scores.
        promise: what the intervals can promise: the level, or n / (n + 1) of n independent models held out, where that
            is less; the intervals are then the largest errors seen.
        notes: what a reader must know, in plain words.
        models: for each new model its prediction.
        ranking: models of the table and new ones, best first, by measured or predicted overall score.

    Example:
        >>> from eevee import load_table
        >>> table = load_table("gate")
        >>> new = {"mine": {"mini": 93.0, "ucf": 70.0}}
        >>> prediction = predict(table, ["mini", "ucf"], new, scorer="ridge")
        >>> len(prediction.ranking), prediction.models["mine"].cells["mini/acc1"].given
        (22, True)
    """

    table: str
    data_hash: str
    benchmarks: tuple[str, ...]
    level: float
    scorer: str
    choice: Choice | None
    holdout: str
    warning_auc: float
    promise: float
    notes: tuple[str, ...]
    models: dict[str, ModelPrediction]
    ranking: tuple[str, ...]

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each model and metric."""
        return [
            {"model": model, "metric": metric, **plain_data(cell)}
            for model, prediction in self.models.items()
            for metric, cell in prediction.cells.items()
        ]


def predict(
    table: ResultTable,
    benchmarks: Sequence[str],
    scores: Mapping[str, Mapping[str, float]],
    *,
    level: float = 0.9,
    scorer: Scorer | str = AUTO,
    holdout: str = "model",
    searched: bool = False,
    mean: bool = False,
) -> Prediction:
    """Predict every metric of new models from their scores on a subset, by what the table's models teach.

    Args:
        table: results of models on all benchmarks.
        benchmarks: ids of the subset.
        scores: for each new model its values by metric id (or by benchmark id, where that has one metric). Some may be
            missing; the prediction is then a fit on those that are there. Values outside the subset are refused.
        level: of the intervals.
        scorer: what predicts; by default what leave-one-out on this subset prefers, see `eevee.answers.scorer_choice`.
        holdout: whom the intervals are for: a `model` of families like the table's, one of a new `family`, or one newer
            than all (`date`) or better than all (`frontier`); see `eevee.answers.intervals`.
        searched: take intervals of searches without the models that they are measured on, in place of leave-one-out's
            on the given subset: wider, since they count that the search saw these models and learn from fewer.
        mean: also give the plain mean of all metrics, for a table of one unit, with a conformal interval: each of the
            table's models is left out in turn with its group (and family, where `holdout` is that), its mean is
            predicted from the same metrics, and the half-width is the ceil(level (n + 1))-th smallest of the n absolute
            errors, over models or over groups, where that is larger.

    Raises:
        EeveeError: an unknown metric, one that is given twice, an infinite value (NaN and None count as missing), a
            model without any score or with a name that the table has.

    Example:
        >>> from eevee import load_table
        >>> new = predict(load_table("gate"), ["ade20k", "acdc"], {"mine": {"ade20k": 45.0, "acdc": 55.0}})
        >>> cell = new.models["mine"].cells["imagenet1k/acc1"]
        >>> cell.low < cell.value < cell.high
        True
    """
    require_table(table)
    if not 0 < level < 1:
        raise EeveeError(f"level is {level}; expected a number between 0 and 1, exclusive")
    count = len(table.models)
    if mean and level > count / (count + 1):
        raise EeveeError(
            f"level is {level}; an interval of the mean holds for at most {count}/{count + 1} with {count} models"
        )
    chosen = table.positions(benchmarks)
    if len(scores) == 0:
        raise EeveeError("no model to predict; expected scores of at least one")
    data = standardise(table)
    columns = data.metric_columns(chosen)
    raw = np.stack([_row(table, columns, model, values) for model, values in scores.items()])
    meta, choice = resolve_scorer(scorer, table, [chosen])
    predicted, half, unlike, beyond, warning_auc, promise = intervals(
        table, chosen, meta, data.encode(raw), level=level, holdout=holdout, searched=searched
    )
    measured = ~np.isnan(raw)
    middle = filled(data, raw, predicted)
    lower = np.where(measured, raw, data.decode(predicted - half))
    upper = np.where(measured, raw, data.decode(predicted + half))
    together = held_together(table, holdout).groups
    if mean and len(set(together)) < 2:
        raise EeveeError(f"all {count} models are of one group: nothing is left to predict their mean from")
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
                    float(lower[i, j]),
                    float(upper[i, j]),
                    bool(measured[i, j]),
                )
                for j in range(len(ids))
            },
            overall=float(new[i]),
            rank=int((totals > new[i]).sum()) + 1,
            outside=tuple(ids[j] for j in columns if measured[i, j] and not low[j] <= raw[i, j] <= high[j]),
            unlike=float(unlike[i]),
            extrapolates=bool(unlike[i] >= UNLIKE or beyond[i]),
            beyond={1: "above", -1: "below"}.get(int(beyond[i]), ""),
            missing=tuple(ids[j] for j in columns if not measured[i, j]),
            mean=_mean(table, together, chosen, middle[i], measured[i], level, scorer) if mean else None,
        )
    return Prediction(
        table=table.name,
        data_hash=table.hash,
        benchmarks=tuple(table.benchmark_ids[i] for i in chosen),
        level=level,
        scorer=meta.name,
        choice=choice,
        holdout=holdout,
        warning_auc=warning_auc,
        promise=promise,
        notes=_notes(table, dict(zip(scores, raw, strict=True)), holdout, searched, level, promise),
        models=models,
        ranking=tuple(names[i] for i in order),
    )


def _mean(
    table: ResultTable,
    together: Sequence[str],
    chosen: Sequence[int],
    row: np.ndarray,
    measured: np.ndarray,
    level: float,
    scorer: Scorer | str,
) -> Cell:
    """The mean of a row with the half-width that the table's own models, each without its group, would have needed."""
    errors, groups = [], []
    for held, values in enumerate(table.values):
        known = ~np.isnan(values)
        if not (measured & known).any():
            continue
        others = _only(table, [at for at, group in enumerate(together) if group != together[held]])
        predicted = _completed(others, chosen, np.where(measured & known, values, np.nan), scorer)
        errors.append(abs(float(np.mean((predicted - values)[known]))))
        groups.append(together[held])
    independent = len(set(groups))
    if level > len(errors) / (len(errors) + 1):
        raise EeveeError(f"only {len(errors)} models of the table have any given metric: no interval of the mean")
    # Of few groups the rank among groups, each of which counts once, may lie above that among models.
    by_group = Counter(groups)
    order = np.argsort(errors)
    counted = np.cumsum([1 / by_group[groups[at]] for at in order])
    place = int(np.searchsorted(counted, min(math.ceil(level * (independent + 1)), independent) - 1e-9))
    half = max(sorted(errors)[math.ceil(level * (len(errors) + 1)) - 1], errors[order[min(place, len(order) - 1)]])
    mean = float(row.mean())
    return Cell(mean, mean - half, mean + half, bool(measured.all()))


def _completed(table: ResultTable, chosen: Sequence[int], row: np.ndarray, scorer: Scorer | str) -> np.ndarray:
    """Return a row with what it lacks predicted, as `predict` does, without intervals and notes."""
    data, (meta, _) = standardise(table), resolve_scorer(scorer, table, [tuple(chosen)])
    raw = row[None]
    encoded = data.encode(raw)
    ((_, present),) = alike(data, chosen, encoded)
    whole: np.ndarray = filled(data, raw, meta.predict(data, present, encoded))[0]
    return whole


def _only(table: ResultTable, rows: Sequence[int]) -> ResultTable:
    """The table of some of its models."""

    def those(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(values[at] for at in rows) if values else ()

    return replace(
        table,
        models=those(table.models),
        groups=those(table.groups),
        families=those(table.families),
        dates=those(table.dates),
        values=table.values[list(rows)],
    )


def _notes(
    table: ResultTable, new: Mapping[str, np.ndarray], holdout: str, searched: bool, level: float, promise: float
) -> tuple[str, ...]:
    notes = [shares_warning(table, new), derived_warning(table), families_note(table) if holdout == "family" else ""]
    if promise < level:
        notes.append(
            f"the intervals are the largest errors seen: so few models promise {promise:.0%} at most, not {level:.0%}"
        )
    if searched and table.values.size > SEARCH_CELLS:
        notes.append(
            f"{table.values.size:,} cells are many for a search without each fold: the intervals do not count that the "
            "search saw these models"
        )
    return tuple(filter(None, notes))


def _row(table: ResultTable, columns: Sequence[int], model: str, values: Mapping[str, float]) -> np.ndarray:
    if not isinstance(model, str):
        raise EeveeError(f"model {model!r:.60} is no text; expected models by name, each with its scores")
    if model in table.models:
        raise EeveeError(f"model {model!r} is in the table already; give the new model another name")
    ids = table.metric_ids
    single = {key: positions[0] for key, positions in table.columns.items() if len(positions) == 1}
    column_of = {**single, **{key: j for j, key in enumerate(ids)}}
    row = np.full(len(ids), np.nan)
    given: dict[int, str] = {}
    for key, value in values.items():
        if column_of.get(key) not in columns:
            allowed = ", ".join(ids[j] for j in columns)
            raise EeveeError(f"model {model!r}: {key!r} is not a metric of the subset; expected some of {allowed}")
        number = as_number(value, f"model {model!r}, metric {key!r}")
        if np.isinf(number):
            raise EeveeError(f"model {model!r}, metric {key!r}: {value}; expected a finite number")
        if (earlier := given.setdefault(column_of[key], key)) != key:
            raise EeveeError(f"model {model!r}: {earlier!r} and {key!r} are one metric; expected one of them")
        row[column_of[key]] = number
    if np.isnan(row).all():
        raise EeveeError(f"model {model!r} has no score on the subset {', '.join(ids[j] for j in columns)}")
    return row

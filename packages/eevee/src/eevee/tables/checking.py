"""`check`: what to know about a table before choosing from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.holdout import HOLDOUTS, families_note, folds_of, near_pairs
from eevee.tables.serialization import Recorded
from eevee.tables.standard import FAR, standardise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.tables.table import ResultTable

DUPLICATE = 1e-6
GAP, SLACK = 5.0, 1.5
"""Times by which values in per cent lie above shares, at least, and by which a share may leave their range."""


@dataclass(frozen=True)
class Check(Recorded):
    """Findings about a table; empty tuples are good news.

    Args:
        table: its name.
        data_hash: its hash.
        models: number of models.
        groups: number of groups of models.
        benchmarks: number of benchmarks.
        metrics: number of metrics.
        missing: share of missing cells.
        constant: metrics with the same value for every model; they are neither predicted nor counted.
        all_zero: those of them that are zero.
        unmeasured: metrics that fewer than five models have.
        duplicates: pairs of models with equal rows.
        near_duplicates: pairs nearer than a tenth of a standard deviation, with their distance.
        outliers: (model, metric, value, distance from the other models' mean in their deviations) beyond six.
        shares: (model, metrics) with values in 0 to 1 beside others' values in per cent: a hundredth of what they mean.
        percents: (model, metrics) with values in per cent beside those of more others in 0 to 1.
        derived: (metric, what it is) of columns that hold no results: numbers of the rows, ranks, means of the others.
        without_cost: benchmarks without a cost.
        holdouts: for each way of holding models out, its folds as (models to learn from, held-out ones), or why it has
            none.
        families: which families the names tell, where the table has none of its own.
        first_component: share of the variance on one principal component (gaps filled with the mean).

    Example:
        >>> from eevee import load_table
        >>> checked = check(load_table("gate"))
        >>> checked.models, checked.metrics, checked.missing
        (21, 30, 0.0)
    """

    table: str
    data_hash: str
    models: int
    groups: int
    benchmarks: int
    metrics: int
    missing: float
    constant: tuple[str, ...]
    all_zero: tuple[str, ...]
    unmeasured: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]
    near_duplicates: tuple[tuple[str, str, float], ...]
    outliers: tuple[tuple[str, str, float, float], ...]
    shares: tuple[tuple[str, tuple[str, ...]], ...]
    percents: tuple[tuple[str, tuple[str, ...]], ...]
    derived: tuple[tuple[str, str], ...]
    without_cost: tuple[str, ...]
    holdouts: dict[str, tuple[tuple[int, int], ...] | str]
    families: str
    first_component: float


def check(table: ResultTable) -> Check:
    """Look for what misleads a search: constant columns, duplicate models, outliers, gaps.

    An outlier lies more than six standard deviations of the other models from their mean: results are often bimodal
    (pretrained or not), where a distance from the median would accuse half a column.

    Example:
        >>> from eevee import load_table
        >>> check(load_table("gate-full")).constant
        ('winoground/img2txt-loss', 'winoground/txt2img-loss')
    """
    data = standardise(table)
    ids = table.metric_ids
    constant = [j for j in range(len(ids)) if not data.varies[j]]
    places, distances = near_pairs(table)
    pairs = [(j, i, float(d)) for (i, j), d in zip(places.tolist(), distances, strict=True)]
    names = table.models
    spectrum = np.linalg.svd(data.values, compute_uv=False) ** 2
    return Check(
        table=table.name,
        data_hash=table.hash,
        models=len(names),
        groups=len(set(table.groups)),
        benchmarks=len(table.benchmarks),
        metrics=len(ids),
        missing=float(np.isnan(table.values).mean()),
        constant=tuple(ids[j] for j in constant),
        all_zero=tuple(ids[j] for j in constant if np.nanmax(np.abs(table.values[:, j])) == 0),
        unmeasured=tuple(ids[j] for j in np.flatnonzero(data.mask.sum(axis=0) < 5)),
        duplicates=tuple((names[j], names[i]) for j, i, d in pairs if d < DUPLICATE),
        near_duplicates=tuple((names[j], names[i], d) for j, i, d in pairs if d >= DUPLICATE),
        outliers=tuple(_outliers(table)),
        shares=shares_beside_percent(table),
        percents=percent_beside_shares(table),
        derived=derived_columns(table),
        without_cost=tuple(b.id for b in table.benchmarks if b.cost is None),
        holdouts={holdout: _folds(table, holdout) for holdout in HOLDOUTS},
        families=families_note(table),
        first_component=float(spectrum[0] / max(spectrum.sum(), 1e-300)),
    )


def _folds(table: ResultTable, holdout: str) -> tuple[tuple[int, int], ...] | str:
    try:
        return tuple((len(train), len(held)) for train, held in folds_of(table, holdout, None, 0))
    except EeveeError as error:
        return str(error)


def shares_beside_percent(table: ResultTable) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Models, each with the metrics in which its value looks like a share and the other models' like per cent.

    Such values are at most 1 and a fifth of the least of the others, which reach over 1 and at most 100, are at least
    as many, and are as large as a hundred times the share. Several such models hide one another from `_outliers`.

    Example:
        >>> from eevee import load_table
        >>> shares_beside_percent(load_table("gate"))  # as bad as chance, of 100 classes
        (('mpnet', ('cifar100/acc1',)),)
    """
    return _in_another_unit(table.models, table.metric_ids, table.values)[0]


def percent_beside_shares(table: ResultTable) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return models, each with the metrics in which its value looks like per cent and those of more others like shares.

    Example:
        >>> from eevee import load_table
        >>> percent_beside_shares(load_table("gate"))
        ()
    """
    return _in_another_unit(table.models, table.metric_ids, table.values)[1]


_Cells = tuple[tuple[str, tuple[str, ...]], ...]


def _in_another_unit(models: Sequence[str], ids: Sequence[str], values: np.ndarray) -> tuple[_Cells, _Cells]:
    """Models with the metrics in which they alone seem to be in shares, and those in which they seem in per cent."""
    by_unit: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for j, metric in enumerate(ids):
        column = values[:, j]
        small, large = (column > 0) & (column <= 1), column > 1
        if not (small.any() and large.any()) or (column < 0).any() or column[large].max() > 100:
            continue
        low, high = column[large].min(), column[large].max()
        meant = 100 * column[small]
        if low < GAP * column[small].max() or meant.max() < low / SLACK or meant.min() > high * SLACK:
            continue
        fewer = int(large.sum() < small.sum())
        for i in np.flatnonzero((small, large)[fewer]):
            by_unit[fewer].setdefault(models[int(i)], []).append(metric)
    shares, percents = (tuple((model, tuple(metrics)) for model, metrics in side.items()) for side in by_unit)
    return shares, percents


def shares_warning(table: ResultTable, new: Mapping[str, np.ndarray] | None = None) -> str:
    """Return a sentence on models with several values in another unit than the others'; empty if there are none.

    Args:
        table: of models that are compared.
        new: values of further models, a row of the table for each; NaN where there is none.
    """
    new = new or {}
    rows = np.vstack([table.values, *new.values()])
    sentences = []
    units = ("in 0 to 1 where the other models are in per cent (shares?)",
             "in per cent where the other models are in 0 to 1 (shares?)")  # fmt: skip
    for unit, cells in zip(units, _in_another_unit((*table.models, *new), table.metric_ids, rows), strict=True):
        models = [model for model, metrics in cells if len(metrics) > 1]
        names = ", ".join(models[:5]) + " …" * (len(models) > 5)
        sentences += [f"{unit}: {names}"] if models else []
    return "; ".join([*sentences, "eevee check has the cells"]) if sentences else ""


NEAR_MEAN = 0.02
"""Standard deviations by which a column may differ from the mean of the others, at most, to be taken for it."""
_LEAST = 5
"""Models from which on a column is judged by its numbers."""


def derived_columns(table: ResultTable) -> tuple[tuple[str, str], ...]:
    """Return the metrics that hold no results, and what they are.

    These are numbers of the rows (an index), whole ranks from 1 to the number of models, and means of all others.

    Example:
        >>> from eevee import load_table
        >>> derived_columns(load_table("gate"))
        ()
    """
    values, count = table.values, len(table.models)
    if count < _LEAST:
        return ()
    derived: dict[int, str] = {}
    for j in range(values.shape[1]):
        column = values[:, j]
        if any(np.array_equal(column, np.arange(count) + first) for first in (0, 1)):
            derived[j] = "numbers of the rows"
        elif np.array_equal(np.sort(column), np.arange(count) + 1):
            derived[j] = "ranks"
    left = [j for j in range(values.shape[1]) if j not in derived]
    for j in left if len(left) > 2 else []:
        others = values[:, [k for k in left if k != j]]
        whole = ~np.isnan(others).any(axis=1) & ~np.isnan(values[:, j])
        if whole.sum() < _LEAST:
            continue
        column = values[whole, j]
        far = float(np.abs(column - others[whole].mean(axis=1)).max())
        if column.std() > 0 and far <= NEAR_MEAN * column.std():
            derived[j] = "means of the others"
    return tuple((table.metric_ids[j], what) for j, what in sorted(derived.items()))


def derived_warning(table: ResultTable) -> str:
    """Return a sentence on columns that hold no results; empty if there are none."""
    derived = derived_columns(table)
    if not derived:
        return ""
    listed = ", ".join(f"{metric} ({what})" for metric, what in derived)
    return (
        f"no results, and counted as such: {listed}; --drop {','.join(metric for metric, _ in derived)} leaves them out"
    )


def _outliers(table: ResultTable) -> list[tuple[str, str, float, float]]:
    outliers = []
    for j, metric in enumerate(table.metric_ids):
        rows = np.flatnonzero(~np.isnan(table.values[:, j]))
        column = table.values[rows, j]
        n = len(column)
        if n < 5:
            continue
        offset = column - np.median(column)  # squares of what is far from 0 lose what they differ by
        mean = (offset.sum() - offset) / (n - 1)
        square = ((offset**2).sum() - offset**2) / (n - 1)
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        floor = max(1e-6 * float(np.abs(offset).max()), 1e-12 * float(np.abs(column).max()), 1e-300)
        far = (offset - mean) / np.maximum(deviation, floor)
        outliers += [
            (table.models[rows[i]], metric, float(column[i]), float(far[i])) for i in np.flatnonzero(np.abs(far) > FAR)
        ]
    return sorted(outliers, key=lambda item: -abs(item[3]))

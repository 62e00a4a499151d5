"""`forecast`: what to expect of one model on all of a table, from its scores on some benchmarks, with what to doubt."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eevee.answers.predicting import predict
from eevee.errors import EeveeError

if TYPE_CHECKING:
    from eevee.answers.predicting import ModelPrediction
    from eevee.tables.table import ResultTable

_FEW = 4
"""Fewer benchmarks than these make a rough forecast."""


@dataclass(frozen=True)
class Forecast:
    """What to expect of a model on all of a table.

    Args:
        model: its name, with "(new)" if the table has one of that name.
        expected: its cells, mean and rank, in the table's unit.
        of: number of models that the rank counts.
        warnings: reasons to doubt the forecast, in plain words.

    Example:
        >>> from eevee import load_table
        >>> forecast(load_table("gate"), {"mini/acc1": [93.0, 92.0]}, "mine").warnings
        ("a rough forecast, from 1 of the table's 30 benchmarks",)
    """

    model: str
    expected: ModelPrediction
    of: int
    warnings: tuple[str, ...]


def forecast(table: ResultTable, scores: Mapping[str, Sequence[float]], model: str, *, level: float = 0.9) -> Forecast:
    """Expect a model's scores on all of a table, and their mean, from its scores on some of the benchmarks.

    Args:
        table: results of models on all benchmarks, in one unit.
        scores: for some metric ids (or ids of benchmarks with one metric) the model's values in the table's unit, of
            several seeds, which count by their mean.
        model: its name.
        level: share of new models that intervals are meant to hold for.

    Raises:
        EeveeError: no scores, an unknown metric, an infinite value; see `eevee.predict`.

    Example:
        >>> from eevee import load_table
        >>> made = forecast(load_table("gate"), {"ade20k/miou": [45.0], "acdc/dice-score": [55.0]}, "mine")
        >>> made.of, made.expected.cells["imagenet1k/acc1"].given
        (22, False)

    Source:
        `eevee.predict` with its conformal interval of the mean; the paper (EEVEE/GATE) gives no intervals.
    """
    if not scores:
        raise EeveeError(f"no score of {model!r}; expected some of {', '.join(table.benchmark_ids)}")
    name = f"{model} (new)" if model in table.models else model
    owners = {key: key for key in table.benchmark_ids} | {metric.id: metric.benchmark for metric in table.metrics}
    if unknown := [column for column in scores if column not in owners]:
        raise EeveeError(f"unknown metric {unknown[0]!r:.80}; the table has: {', '.join(table.metric_ids)}")
    chosen = list(dict.fromkeys(owners[column] for column in scores))
    means = {column: statistics.fmean(values) for column, values in scores.items()}
    expected = predict(table, chosen, {name: means}, level=level, mean=True).models[name]
    warnings = []
    if expected.outside:
        warnings.append(f"outside of what the table's models reach: {', '.join(expected.outside)}")
    if expected.extrapolates:
        warnings.append("this combination of scores is unlike every model of the table: the forecast extrapolates")
    if len(chosen) < _FEW:
        warnings.append(f"a rough forecast, from {len(chosen)} of the table's {len(table.benchmark_ids)} benchmarks")
    return Forecast(name, expected, len(table.models) + 1, tuple(warnings))

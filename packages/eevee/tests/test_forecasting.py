"""A forecast is a prediction of one model, over seeds, with what to doubt in it."""

from __future__ import annotations

import numpy as np
import pytest

import eevee

SCORES = {"mini/acc1": [93.0, 91.0], "ade20k/miou": [45.0], "acdc/dice-score": [55.0]}


def test_it_is_the_prediction_from_the_means_over_seeds() -> None:
    table = eevee.load_table("gate")
    means = {"mini/acc1": 92.0, "ade20k/miou": 45.0, "acdc/dice-score": 55.0}
    predicted = eevee.predict(table, ["mini", "ade20k", "acdc"], {"mine": means}, level=0.8, mean=True)
    made = eevee.forecast(table, SCORES, "mine", level=0.8)
    assert made.expected == predicted.models["mine"]
    assert made.expected.mean is not None
    assert (made.model, made.of) == ("mine", 22)
    assert made.warnings[-1] == "a rough forecast, from 3 of the table's 30 benchmarks"


def test_a_model_called_like_one_of_the_table_is_new() -> None:
    table = eevee.load_table("gate")
    assert eevee.forecast(table, SCORES, table.models[0]).model == f"{table.models[0]} (new)"


def test_scores_beyond_the_tables_models_are_doubted() -> None:
    table = eevee.load_table("gate")
    best = {metric: [99.9] for metric in ("mini/acc1", "ade20k/miou", "acdc/dice-score", "cifar100/acc1")}
    warnings = eevee.forecast(table, best, "mine").warnings
    assert any(
        "outside of what the table's models reach: " in warning and "ade20k/miou" in warning for warning in warnings
    )
    assert not any("rough" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("scores", "message"),
    [({}, "no score of 'mine'; expected some of "), ({"nothing/acc1": [1.0]}, "nothing")],
)
def test_scores_that_fit_no_column_are_refused(scores: dict[str, list[float]], message: str) -> None:
    with pytest.raises(eevee.EeveeError, match=message):
        eevee.forecast(eevee.load_table("gate"), scores, "mine")


@pytest.mark.parametrize("ids", [("own/x", "own/x"), ("acc", "x")])
def test_a_metric_belongs_to_the_benchmark_that_the_table_says(ids: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    values = 50 + 10 * (rng.normal(size=(12, 1)) + 0.4 * rng.normal(size=(12, 3)))
    metrics = [eevee.Metric(*ids, "higher"), *(eevee.Metric(key, key, "higher") for key in ("own/y", "z"))]
    benchmarks = [eevee.Benchmark(metric.benchmark) for metric in metrics]
    table = eevee.ResultTable("toy", tuple(f"m{i}" for i in range(12)), tuple(metrics), tuple(benchmarks), values)
    made = eevee.forecast(table, {ids[0]: [55.0]}, "mine")
    assert made.expected.cells[ids[0]].given
    assert not made.expected.cells["z"].given
    assert made.expected == eevee.forecast(table, {ids[1]: [55.0]}, "mine").expected

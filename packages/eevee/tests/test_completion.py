"""The completion of low rank against plain loops, and on sparse tables that a few factors made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eevee import Benchmark, EeveeError, LowRankScorer, Metric, ResultTable, predict, select, standardise
from eevee.answers.scorer_choice import choose_scorer
from eevee.scorers.scorer import held_out

from ._tables import made_up


def sparse(share: float, models: int = 50, new: int = 10) -> tuple[ResultTable, np.ndarray, list[int]]:
    """A table of two factors with noise, of which so many cells are measured; new models; the fullest benchmarks."""
    rng = np.random.default_rng(0)
    rows = 60 + 12 * (rng.normal(size=(models + new, 2)) * [1, 0.6]) @ rng.normal(size=(2, 40))
    rows += rng.normal(size=rows.shape)
    measured = rng.random((models, 40)) < share
    measured[np.arange(models)[:, None], rng.integers(0, 40, (models, 3))] = True
    measured[rng.integers(0, models, (6, 40)), np.arange(40)] = True
    ids = tuple(f"b{number}" for number in range(40))
    table = ResultTable(
        "sparse", tuple(f"m{i}" for i in range(models)), tuple(Metric(i, i, "higher") for i in ids),
        tuple(map(Benchmark, ids)), np.where(measured, rows[:models], np.nan),
    )  # fmt: skip
    return table, rows[models:], np.argsort(-measured.sum(0))[:5].tolist()


def error(table: ResultTable, new: np.ndarray, subset: list[int], scorer: str) -> float:
    names = table.benchmark_ids
    scores = {f"new{i}": {names[j]: float(row[j]) for j in subset} for i, row in enumerate(new)}
    models = predict(table, [names[j] for j in subset], scores, scorer=scorer).models
    rest = [j for j in range(len(names)) if j not in subset]
    predicted = np.array([[models[f"new{i}"].cells[names[j]].value for j in rest] for i in range(len(new))])
    return float(np.sqrt(np.square(predicted - new[:, rest]).mean()))


def loops(
    scorer: LowRankScorer, values: np.ndarray, mask: np.ndarray, columns: list[int], row: np.ndarray
) -> np.ndarray:
    """The definition: alternating regressions, one model and one metric at a time."""
    n, t = values.shape
    level = np.array([values[mask[:, j], j].mean() for j in range(t)])
    filled = np.where(mask, values - level, 0.0)
    _, size, right = np.linalg.svd(filled, full_matrices=False)
    weight = right[: scorer.rank].T * np.sqrt(size[: scorer.rank])
    shrunk = scorer.penalty * np.eye(scorer.rank)
    for _ in range(400):
        factors = np.zeros((n, scorer.rank))
        for i in range(n):
            own = weight[mask[i]]
            factors[i] = np.linalg.solve(own.T @ own + shrunk, own.T @ (values[i] - level)[mask[i]])
        for j in range(t):
            own = np.column_stack([np.ones(mask[:, j].sum()), factors[mask[:, j]]])
            penalty = np.diag([1e-3, *[scorer.penalty] * scorer.rank])
            level[j], *weight[j] = np.linalg.solve(own.T @ own + penalty, own.T @ values[mask[:, j], j])
    own = weight[columns]
    u = np.linalg.solve(own.T @ own + shrunk, own.T @ (row[columns] - level[columns]))
    return level + weight @ u


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_it_is_the_plain_loops(rank: int) -> None:
    table, new, subset = sparse(0.4, models=25, new=1)
    data = standardise(table)
    scorer = LowRankScorer(rank=rank)
    row = data.encode(new)
    expected = loops(scorer, data.values, data.mask, sorted(subset), row[0])
    np.testing.assert_allclose(scorer.predict(data, tuple(sorted(subset)), row)[0], expected, atol=2e-2)


def test_a_sparse_table_is_told_better_than_by_filling_gaps_and_auto_takes_it() -> None:
    table, new, subset = sparse(0.25)
    errors = {scorer: error(table, new, subset, scorer) for scorer in ("ridge", "gp", "lowrank", "auto")}
    assert errors["lowrank"] < 0.8 * min(errors["ridge"], errors["gp"])
    assert errors["auto"] == errors["lowrank"]
    chosen, choice = choose_scorer(table, [tuple(sorted(subset))])
    assert chosen.name == choice.chosen == "lowrank"


def test_a_full_table_is_not_asked_about_it() -> None:
    _, choice = choose_scorer(made_up(12, 8), [(0, 1, 2)])
    assert "lowrank" not in choice.errors


def test_held_out_residuals_are_those_of_refits_without_groups() -> None:
    table, _, subset = sparse(0.5, models=12)
    table = replace(table, groups=tuple(f"g{i // 3}" for i in range(12)))
    data, scorer, candidate = standardise(table), LowRankScorer(), tuple(sorted(subset))
    residual = scorer.residuals(data, [candidate])[0]
    rows = np.where(data.mask, data.values, np.nan)
    for group in range(4):
        held = np.flatnonzero(data.groups == group)
        expected = scorer.predict(data.without(held), candidate, rows[held]) - data.values[held]
        np.testing.assert_allclose(residual[held], np.where(data.mask[held], expected, 0.0), atol=1e-10)

    class Plain:
        name, objective, predict = "plain", "all", scorer.predict

    np.testing.assert_allclose(held_out(Plain(), data, [candidate])[0], residual, atol=1e-10)


def test_it_searches_and_refuses_numbers_out_of_range() -> None:
    table, *_ = sparse(0.5, models=15)
    assert select(table, 3, scorer="lowrank", method="greedy", nested=False, randoms=5).scorer == "lowrank"
    for options in ({"rank": 0}, {"penalty": 0.0}, {"penalty": float("nan")}):
        with pytest.raises(EeveeError, match="expected at least 1, and a number above 0"):
            LowRankScorer(**options)
    with pytest.raises(EeveeError, match="objective 'some'"):
        LowRankScorer("some")

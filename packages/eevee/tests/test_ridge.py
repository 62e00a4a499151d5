"""The closed form against refitting without each group, and its invariants."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eevee import EeveeError, RidgeScorer, load_table
from eevee.algebra import algebra_threads
from eevee.scorers.bordered import shared_bases
from eevee.scorers.ridge import _with_gaps, held_out_residuals, normal_equations, solve_for
from eevee.scorers.scorer import leave_out, padded_columns
from eevee.tables.standard import standardise

from ._reference import ridge_residuals
from ._tables import made_up

TWINS = ("a", "a", "b", "c", "c", "c", "d", "e", "f")


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("groups", [(), TWINS])
@pytest.mark.parametrize("per_benchmark", [1, 2])
def test_residuals_equal_refitting(missing, groups, per_benchmark):
    data = standardise(made_up(missing=missing, groups=groups, per_benchmark=per_benchmark))
    candidates = [(0,), (1, 3), (0, 2, 5), (0, 1, 2, 3, 4, 5)]
    got = held_out_residuals(data, candidates, alpha=0.7)
    for candidate, ours in zip(candidates, got, strict=True):
        want = ridge_residuals(data.values, data.mask, data.metric_columns(candidate), data.groups, 0.7)
        np.testing.assert_allclose(ours[data.mask], want[data.mask], rtol=0, atol=1e-7)


def test_gapless_and_masked_forms_agree():
    data = standardise(load_table("gate"))
    index = padded_columns(data, [(0, 5, 9), (1, 2, 29)])
    ours = held_out_residuals(data, [(0, 5, 9), (1, 2, 29)], 1.0)
    residual, room, blocks = _with_gaps(data, index, 1.0)
    np.testing.assert_allclose(leave_out(residual, room, data.twins, blocks), ours, rtol=0, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("objective", ["all", "unselected"])
def test_score_is_the_mean_of_squared_residuals(missing, objective):
    table = made_up(missing=missing, per_benchmark=2)
    data = standardise(table)
    candidate = (1, 4)
    residual = ridge_residuals(data.values, data.mask, data.metric_columns(candidate), data.groups, 1.0)
    counted = data.mask.copy()
    if objective == "unselected":
        counted[:, data.metric_columns(candidate)] = False
    error, stderr = RidgeScorer(objective=objective).score(data, [candidate])[0]
    assert error == pytest.approx((residual[counted] ** 2).mean(), abs=1e-7)
    if not missing:
        by_model = (np.where(counted, residual, 0) ** 2).sum(1) / counted.sum(1)
        assert stderr == pytest.approx(by_model.std(ddof=1) / np.sqrt(len(by_model)), abs=1e-7)


def test_scores_do_not_depend_on_order_or_batch():
    data = standardise(made_up(per_benchmark=2))
    candidates = [(0,), (1, 2), (3, 4, 5), (0, 5)]
    together = RidgeScorer().score(data, candidates)
    alone = np.concatenate([RidgeScorer().score(data, [c]) for c in reversed(candidates)])[::-1]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    assert RidgeScorer().score(data, []).shape == (0, 2)


@pytest.mark.parametrize("seed", range(5))
def test_units_and_order_of_models_do_not_matter(seed):
    from dataclasses import replace

    table = made_up(seed=seed, missing=0.1)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(table.models))
    scale, shift = generator.uniform(0.1, 9, len(table.metrics)), generator.normal(size=len(table.metrics))
    other = replace(
        table,
        models=tuple(table.models[i] for i in order),
        groups=tuple(table.groups[i] for i in order),
        values=(table.values * scale + shift)[order],
    )
    a = RidgeScorer().score(standardise(table), [(0, 3), (1, 2)])
    b = RidgeScorer().score(standardise(other), [(0, 3), (1, 2)])
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_constant_column_changes_nothing():
    from dataclasses import replace

    from eevee import Benchmark, Metric

    table = made_up()
    flat = replace(
        table,
        metrics=(*table.metrics, Metric("flat", "flat", "higher")),
        benchmarks=(*table.benchmarks, Benchmark("flat")),
        values=np.concatenate([table.values, np.full((9, 1), 3.0)], axis=1),
    )
    a, b = (RidgeScorer().score(standardise(t), [(0, 4)]) for t in (table, flat))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_prediction_of_a_held_out_model_is_its_held_out_residual(missing):
    """Leaving one out by hand, with the standardisation of all models, gives the closed form's number."""
    data = standardise(made_up(missing=missing))
    residual = held_out_residuals(data, [(0, 2)], 1.0)[0]
    keep = np.arange(1, 9)
    from dataclasses import replace

    train = replace(data, values=data.values[keep], mask=data.mask[keep], groups=data.groups[keep])
    predicted = RidgeScorer().predict(train, (0, 2), data.values[:1])
    np.testing.assert_allclose((predicted - data.values[:1])[data.mask[:1]], residual[0][data.mask[0]], atol=1e-7)


def test_prediction_with_a_gap_uses_what_is_there():
    data = standardise(made_up())
    row = np.array([[1.0, np.nan, 0.5, np.nan, 0.1, 0.2]])
    prediction = RidgeScorer().predict(data, (0, 1, 2), row)
    coefficients = solve_for(*normal_equations(data, [0, 2], 1.0), np.arange(2))
    np.testing.assert_allclose(prediction[0], np.array([1.0, 0.5, 1.0]) @ coefficients, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_alpha(alpha):
    with pytest.raises(EeveeError, match="alpha is"):
        RidgeScorer(alpha=alpha)


def test_bad_objective():
    with pytest.raises(EeveeError, match="'best'; expected one of all"):
        RidgeScorer(objective="best")


@pytest.mark.parametrize("objective", ["all", "unselected"])
@pytest.mark.parametrize("groups", [(), ("x", "x", "y", "z", "z", "z", "w", "w", "u", "v", "t")])
@pytest.mark.parametrize("per_benchmark", [1, 2, 3])
def test_candidates_that_share_a_base_equal_refitting(objective, groups, per_benchmark):
    table = made_up(models=11, benchmarks=7, missing=0.3, groups=groups, per_benchmark=per_benchmark)
    if per_benchmark == 3:  # benchmarks with one, two and three metrics
        table = narrower(table)
    data = standardise(table)
    candidates = [(0, 3, 6), (0, 1, 3), (0, 3, 4), (2,), (5,), (1, 4), (1, 6), (0, 2, 4, 5), (3, 6, 0)]
    scored = RidgeScorer(alpha=0.7, objective=objective).score(data, candidates)
    for candidate, (error, stderr) in zip(candidates, scored, strict=True):
        columns = data.metric_columns(candidate)
        residual = ridge_residuals(data.values, data.mask, columns, data.groups, 0.7)
        counted = data.mask.copy()
        if objective == "unselected":
            counted[:, columns] = False
        squares, share = (np.where(counted, residual, 0) ** 2).sum(1), counted.sum(1)
        want = squares.sum() / share.sum()
        spread = squares - want * share
        assert error == pytest.approx(want, abs=1e-7)
        n = (share > 0).sum()
        assert stderr == pytest.approx(np.sqrt((spread**2).sum() * n / (n - 1)) / share.sum(), abs=1e-7)


def narrower(table):
    """The table without some metrics, so that benchmarks have one to three."""
    keep = [j for j in range(len(table.metrics)) if j not in (1, 2, 8, 13)]
    return replace(table, metrics=tuple(table.metrics[j] for j in keep), values=table.values[:, keep])


def test_threads_do_not_change_scores():
    data = standardise(made_up(models=11, benchmarks=7, missing=0.3))
    candidates = list(itertools.combinations(range(7), 3))
    with threadpool_limits(1):
        assert algebra_threads() == 1
        alone = RidgeScorer().score(data, candidates)
    with threadpool_limits(2):
        assert algebra_threads() == 2
        together = RidgeScorer().score(data, candidates)
        assert algebra_threads() == 2
    np.testing.assert_array_equal(together, alone)


def test_shared_bases_cover_what_is_shared():
    candidates = list(itertools.combinations(range(6), 3))
    covered = [number for _, members in shared_bases(candidates) for number, _ in members]
    assert sorted(covered) == sorted(set(covered))
    for base, members in shared_bases(candidates):
        assert len(members) > 1
        for number, added in members:
            assert sorted((*base, added)) == list(candidates[number])

"""Held-out errors, predictions and their intervals, selections: against the same thing done by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from eevee import (
    EeveeError,
    MlpScorer,
    RidgeScorer,
    load_table,
    pareto,
    predict,
    published,
    read_selection,
    score,
    select,
    tiers,
)
from eevee.answers.evaluation import (
    error_against_k,
    importance,
    judge_held_out,
    kendall,
    prediction_agreement,
    predictiveness,
    subset_mean_agreement,
)
from eevee.answers.nested import learning_curve, nested_error
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import split_groups
from eevee.tables.serialization import read_result
from eevee.tables.standard import overall_scores, standardise

from ._reference import spearman
from ._tables import made_up

GATE = load_table("gate")


def by_hand(table, train, left_out, candidate, alpha=1.0, cells=slice(None)):
    """Squared error of one held-out model on some cells, everything from the training models alone."""
    values = table.values[train]
    mean, deviation = values.mean(0), values.std(0)
    z, new = (values - mean) / deviation, (table.values[left_out] - mean) / deviation
    x = np.column_stack([z[:, list(candidate)], np.ones(len(train))])
    penalty = np.diag([alpha] * len(candidate) + [1e-9])
    coefficients = np.linalg.solve(x.T @ x + penalty, x.T @ z)
    return ((np.append(new[list(candidate)], 1.0) @ coefficients - new) ** 2)[cells].mean()


def test_what_is_held_out_is_not_seen():
    train = [i for i in range(9) if i != 4]
    table = made_up()
    data = standardise(table, train)
    for candidate in ((0, 2), (1,)):
        error = judge_held_out(RidgeScorer(), data, table.values[[4]], candidate).all_cells()
        assert error == pytest.approx([by_hand(table, train, 4, candidate)], abs=1e-9)


def test_nested_by_hand():
    """Every fold: the best pair on the others, then its error on the one left out."""
    table = made_up()
    space = Space(table, Constraints(k=2))
    got = nested_error(table, space, RidgeScorer(), method="exhaustive", seed=0, randoms=5)
    outer, unmeasured = {}, {}
    for i in range(9):
        train = [j for j in range(9) if j != i]
        pairs = list(space.every())
        errors = RidgeScorer().score(standardise(table, train), pairs)[:, 0]
        best = pairs[int(errors.argmin())]
        outer[table.models[i]] = by_hand(table, train, i, best)
        rest = [j for j in range(6) if j not in best]
        unmeasured[table.models[i]] = by_hand(table, train, i, best, cells=rest)
    assert {m: pair[0] for m, pair in got.per_model.items()} == pytest.approx(unmeasured, abs=1e-9)
    assert got.unmeasured == pytest.approx(np.mean(list(unmeasured.values())), abs=1e-9)
    assert got.median == pytest.approx(np.median(list(unmeasured.values())), abs=1e-9)
    assert got.worst == max(unmeasured, key=unmeasured.get)
    assert got.outer == pytest.approx(np.mean(list(outer.values())), abs=1e-9)
    assert got.wins == sum(a < b for a, b in got.per_model.values())
    assert sum(got.chosen.values()) == pytest.approx(2)


def test_nested_on_the_paper_table():
    """Selection beats random subsets on at least 17 of 21 models, and its error is optimistic."""
    got = nested_error(GATE, Space(GATE, Constraints(k=8)), RidgeScorer(), method="greedy-swap", seed=0)
    assert got.wins >= 17
    assert 0.05 < got.optimism < 0.6
    assert got.outer < got.random


def test_a_table_of_noise_has_no_predictable_subset():
    """Where nothing can be learnt, the reported error looks better than it is, and the nested one says so."""
    table = replace(made_up(models=20), values=np.random.default_rng(0).normal(size=(20, 6)))
    got = nested_error(table, Space(table, Constraints(k=2)), RidgeScorer(), method="exhaustive", seed=0)
    unselected = RidgeScorer(objective="unselected").score(standardise(table), [(0, 1)])[0, 0]
    assert unselected > 0.9
    assert got.outer > got.inner


def test_folds_keep_groups_together():
    groups = ["a", "a", "b", "c", "c", "d"]
    for folds in (None, 2, 3):
        parts = split_groups(groups, folds, seed=1)
        assert sorted(i for part in parts for i in part) == list(range(6))
        for part in parts:
            assert all((groups[i] in {groups[j] for j in part}) == (i in part) for i in range(6))
    assert len(split_groups(groups, None, 0)) == 4
    assert len(split_groups([str(i) for i in range(40)], None, 0)) == 5
    with pytest.raises(EeveeError, match="folds is 9; expected 2 to 4"):
        split_groups(groups, 9, 0)


def test_learning_curve_falls():
    points = learning_curve(GATE, Space(GATE, Constraints(k=4)), RidgeScorer(), seed=0, repeats=3, sizes=(7, 17))
    assert [p.models for p in points] == [7, 17]
    assert points[0].outer > points[1].outer > points[1].inner


@pytest.mark.long
def test_selection_of_the_paper_table(tmp_path):
    chosen = select(GATE, 8, method="greedy-swap", randoms=300)
    assert len(chosen.benchmarks) == 8
    assert chosen.better_randoms == 0
    assert chosen.rival.method == "greedy"
    assert chosen.nested is not None
    assert any("21 models" in line for line in chosen.warnings)
    path = tmp_path / "selection.json"
    chosen.to_json(path)
    raw = json.loads(path.read_text())
    assert raw["data_hash"] == GATE.hash
    assert raw["benchmarks"] == list(chosen.benchmarks)
    assert read_selection(path, GATE) == chosen
    with pytest.raises(EeveeError, match="another table"):
        read_result(path, made_up())
    for change in ({"benchmarks": []}, {"benchmarks": [raw["benchmarks"][0]] * 2}, {"scorer": None}):
        path.write_text(json.dumps({**raw, **change}))
        with pytest.raises(EeveeError, match=r"selection\.json: (its benchmarks are none|not a complete selection)"):
            read_selection(path, GATE)
    path.write_text("{}")
    with pytest.raises(EeveeError, match="not a result"):
        read_result(path, GATE)
    path.write_text(json.dumps({"data_hash": GATE.hash, "benchmarks": [], "result": "Selection"}))
    with pytest.raises(EeveeError, match="not a complete selection"):
        read_selection(path, GATE)
    path.write_text("{")
    with pytest.raises(EeveeError, match="not JSON"):
        read_result(path, GATE)


def test_selection_is_the_same_for_the_same_seed():
    a, b = (select(GATE, 4, seed=7, generations=2, nested=False, randoms=50) for _ in range(2))
    assert replace(a, seconds=0) == replace(b, seconds=0)
    assert a.rival.method == "greedy-swap"


@pytest.mark.long
def test_selection_with_the_paper_scorer():
    table = made_up(models=12)
    scorer = MlpScorer(epochs=10, hidden=16, splits=3, held_out=0.3)
    chosen = select(table, 2, scorer=scorer, method="greedy", randoms=20, folds=3)
    assert chosen.scorer == "mlp"
    assert chosen.nested is not None
    assert chosen.nested.folds == 3
    assert np.isfinite(chosen.nested.outer)


@pytest.mark.parametrize("objective", ["all", "unselected"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_selection_with_every_objective(objective, missing):
    table = made_up(missing=missing)
    chosen = select(table, 2, scorer=RidgeScorer(objective=objective), method="exhaustive", randoms=30)
    errors = RidgeScorer(objective=objective).score(standardise(table), list(Space(table, Constraints(k=2)).every()))
    assert chosen.error == pytest.approx(errors[:, 0].min())
    assert chosen.objective == objective


def test_nothing_unselected_is_left():
    with pytest.raises(EeveeError, match="k is 6, every benchmark"):
        select(made_up(), 6, scorer=RidgeScorer(objective="unselected"))


def test_small_tier_is_no_better_than_random_here():
    judged = score(GATE, published().tiers["small"], randoms=1000)
    assert 0.6 < judged.better_randoms < 0.8
    base = score(GATE, published().tiers["base"], randoms=300)
    assert base.better_randoms < 0.12


def test_importance_and_predictiveness_by_hand():
    data = standardise(GATE)
    ids = GATE.benchmark_ids
    errors = RidgeScorer().score(data, [(2, 5), (5,), (2,), ()])[:, 0]
    got = importance(GATE, [ids[2], ids[5]])
    assert got == pytest.approx({ids[2]: errors[1] - errors[0], ids[5]: errors[2] - errors[0]})
    alone = predictiveness(GATE)
    assert list(alone.values()) == sorted(alone.values())
    assert alone[ids[5]] == pytest.approx(errors[1])
    assert importance(GATE, [ids[2]])[ids[2]] == pytest.approx(errors[3] - errors[2])


def test_single_order_agrees_with_figure_3():
    ours, paper = list(predictiveness(GATE)), published().single_order
    places = [[order.index(key) for key in GATE.benchmark_ids] for order in (ours, paper)]
    assert 0.65 < spearman(np.array(places[0], float), np.array(places[1], float)) < 0.9


def test_error_against_k_falls():
    errors = error_against_k(GATE, [1, 2, 4], method="greedy-swap")
    assert errors[1][0] > errors[2][0] > errors[4][0]
    assert all(list(e) == sorted(e) and len(e) <= 50 for e in errors.values())
    with pytest.raises(EeveeError, match="no sizes"):
        error_against_k(GATE, [])


def test_front_is_not_dominated():
    table = made_up(costs=True)
    front = pareto(table, largest=4, generations=15)
    every = [c for k in range(1, 5) for c in Space(table, Constraints(k=k)).every()]
    errors = RidgeScorer().score(standardise(table), every)[:, 0]
    costs = np.array([sum(1.0 + i for i in c) for c in every])
    best, lowest = [], np.inf
    for index in np.lexsort((errors, costs)):
        if errors[index] < lowest:
            best.append((costs[index], errors[index]))
            lowest = errors[index]
    np.testing.assert_allclose([(p.cost, p.error) for p in front.points], best, atol=1e-9)  # small enough to be exact
    assert front.unit == "cost"
    assert pareto(made_up(), largest=2, generations=1).unit == "benchmarks"


def test_front_refuses():
    with pytest.raises(EeveeError, match="largest is 0"):
        pareto(made_up(), largest=0)
    with pytest.raises(EeveeError, match="'b1' has no cost"):
        pareto(made_up().with_costs({"b0": 1.0}))


def test_tiers_from_budgets():
    table = made_up(costs=True)
    chosen = tiers(table, {"big": 12.0, "small": 4.0}, grow=True, method="greedy", nested=False, randoms=20)
    assert list(chosen) == ["small", "big"]
    assert set(chosen["small"].benchmarks) <= set(chosen["big"].benchmarks)
    for name, budget in (("small", 4.0), ("big", 12.0)):
        assert chosen[name].cost <= budget
    assert chosen["big"].error < chosen["small"].error
    with pytest.raises(EeveeError, match="cheapest feasible subset costs 1"):
        tiers(table, {"tiny": 0.5}, nested=False)
    with pytest.raises(EeveeError, match="has no cost"):
        tiers(made_up(), {"small": 4.0})


def test_prediction_recovers_a_linear_table():
    """Where every metric is a combination of the chosen ones, prediction is exact but for the penalty."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2))
    table = replace(made_up(models=40), values=np.column_stack([x, x @ generator.normal(size=(2, 4))]))
    row = np.array([0.3, -0.2])
    prediction = predict(table, ["b0", "b1"], {"new": {"b0": row[0], "b1": row[1]}}, scorer=RidgeScorer(alpha=1e-6))
    weights = np.linalg.lstsq(x, table.values[:, 2:], rcond=None)[0]
    cells = prediction.models["new"].cells
    np.testing.assert_allclose([cells[f"b{i}/m0"].value for i in range(2, 6)], row @ weights, atol=1e-5)
    assert cells["b0/m0"].given
    assert cells["b0/m0"].low == cells["b0/m0"].high == 0.3
    assert prediction.models["new"].outside == ()


def test_prediction_flags():
    subset = ["ade20k", "acdc", "mini"]
    far = predict(GATE, subset, {"new": {"ade20k": 99.0, "acdc": 1.0}}).models["new"]
    assert set(far.outside) == {"ade20k/miou", "acdc/dice-score"}
    assert far.extrapolates
    assert far.missing == ("mini/acc1",)
    near = predict(GATE, subset, {"new": {"ade20k": 33.0, "acdc": 48.0, "mini": 90.0}}).models["new"]
    assert not near.outside
    assert not near.extrapolates
    width = dict.fromkeys(("x",), near.cells["vgg/acc1"].high - near.cells["vgg/acc1"].low)["x"]
    assert far.cells["vgg/acc1"].high - far.cells["vgg/acc1"].low > width


def test_the_mean_has_the_interval_that_the_tables_models_would_have_needed():
    subset, scores = ["ade20k", "acdc", "mini"], {"ade20k": 33.0, "acdc": 48.0, "mini": 90.0}
    row = predict(GATE, subset, {"new": scores}, scorer="ridge", level=0.8, mean=True).models["new"]
    errors = []
    for left_out in range(len(GATE.models)):
        others = [index for index in range(len(GATE.models)) if index != left_out]
        table = replace(
            GATE, values=GATE.values[others], models=tuple(np.array(GATE.models)[others]),
            groups=tuple(np.array(GATE.groups)[others]), families=(), dates=(),
        )  # fmt: skip
        measured = {f"{key}": float(GATE.values[left_out, GATE.columns[key][0]]) for key in subset}
        cells = predict(table, subset, {"held": measured}, scorer="ridge").models["held"].cells
        errors.append(abs(np.mean([cell.value for cell in cells.values()]) - GATE.values[left_out].mean()))
    assert row.mean.value == pytest.approx(np.mean([cell.value for cell in row.cells.values()]))
    assert row.mean.high - row.mean.value == pytest.approx(sorted(errors)[18 - 1])  # .8 of 22 models, upwards
    assert predict(GATE, subset, {"new": scores}).models["new"].mean is None
    with pytest.raises(EeveeError, match="at most 21/22 with 21 models"):
        predict(GATE, subset, {"new": scores}, level=0.99, mean=True)


def test_prediction_ranks_the_new_among_the_old():
    best = {"ade20k": 47.0, "acdc": 63.0, "mini": 99.0}
    worst = {"ade20k": 0.4, "acdc": 17.0, "mini": 34.0}
    prediction = predict(GATE, list(best), {"best": best, "worst": worst})
    assert prediction.models["best"].rank < prediction.models["worst"].rank
    assert prediction.ranking.index("best") < prediction.ranking.index("worst")
    assert len(prediction.ranking) == 23


def test_intervals_cover():
    """On models that took no part, about nine cells of ten lie inside a 90 % interval."""
    inside = []
    for seed in range(5):
        table = made_up(models=200, benchmarks=12, seed=seed)
        keep = replace(table, models=table.models[:60], values=table.values[:60], groups=())
        chosen = ["b0", "b1", "b2", "b3"]
        new = {f"n{i}": {b: table.values[60 + i, int(b[1:])] for b in chosen} for i in range(140)}
        for i, row in enumerate(predict(keep, chosen, new).models.values()):
            cells = enumerate(row.cells.values())
            inside += [c.low <= table.values[60 + i, j] <= c.high for j, c in cells if not c.given]
    assert 0.88 < np.mean(inside) < 0.93


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        ({}, {}, "no model to predict"),
        ({"clip": {"acdc": 1.0}}, {}, "'clip' is in the table already"),
        ({"new": {"vgg": 1.0}}, {}, "'vgg' is not a metric of the subset; expected some of"),
        ({"new": {"acdc": float("inf")}}, {}, "metric 'acdc': inf; expected a finite"),
        ({"new": {"acdc": float("nan")}}, {}, "has no score on the subset"),
        ({"new": {"acdc": 1.0}}, {"level": 1.0}, "level is 1.0"),
        ({"new": {"acdc": 1.0}}, {"scorer": "hill"}, "scorer 'hill'"),
        ({"new": {"acdc": 1.0}}, {"holdout": "year"}, "holdout 'year'; expected one of model, family, date"),
        ({"new": {"acdc": 1.0}}, {"holdout": "family"}, "gate has 0 families of models"),
    ],
)
def test_prediction_refuses(scores, settings, message):
    with pytest.raises(EeveeError, match=message):
        predict(GATE, ["acdc", "mini"], scores, **settings)


def test_kendall_by_pairs():
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 5, 12), generator.integers(0, 5, 12)
    agree = ties_a = ties_b = 0
    for i in range(12):
        for j in range(i):
            x, y = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
            agree += x * y
            ties_a += x != 0
            ties_b += y != 0
    assert kendall(a, b) == pytest.approx(agree / np.sqrt(ties_a * ties_b))
    assert np.isnan(kendall([1, 1], [1, 2]))


def test_rankings():
    scores = overall_scores(GATE)
    z = (GATE.values - GATE.values.mean(0)) / GATE.values.std(0)
    np.testing.assert_allclose(scores, z.mean(1), atol=1e-12)
    assert subset_mean_agreement(GATE, GATE.benchmark_ids) == pytest.approx(1)
    assert prediction_agreement(GATE, published().tiers["base"]) > 0.9
    flipped = replace(GATE, metrics=tuple(replace(m, direction="lower") for m in GATE.metrics))
    np.testing.assert_allclose(overall_scores(flipped), -scores, atol=1e-12)


def test_a_missing_member_is_predicted_like_any_other_metric():
    """Intervals of a row without a member are those of the subset without it."""
    with_gap = predict(GATE, ["acdc", "happy", "mini"], {"new": {"acdc": 50.0, "mini": 80.0}}).models["new"]
    without = predict(GATE, ["acdc", "mini"], {"new": {"acdc": 50.0, "mini": 80.0}}).models["new"]
    assert with_gap.cells == without.cells
    assert with_gap.missing == ("happy/individual-acc1",)

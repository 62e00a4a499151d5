"""Families, dates, bounds, scalings and the choice of a scorer: against what is known of made-up tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eevee import (
    Benchmark,
    EeveeError,
    Metric,
    ResultTable,
    RidgeScorer,
    load_table,
    predict,
    read_selection,
    score,
    select,
    standardise,
)
from eevee.answers.intervals import _independent, calibrate, inside_fold, intervals
from eevee.answers.nested import nested_error
from eevee.answers.scorer_choice import choose_scaling, choose_scorer
from eevee.cli import main
from eevee.reports.formatting import selection_words
from eevee.scorers.named import NeighbourScorer
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import families_note, folds_of, held_together, name_families
from eevee.tables.standard import overall_scores

from ._tables import made_up

MIEB = load_table("mieb")


def families(table, count):
    return replace(table, families=tuple(f"f{i % count}" for i in range(len(table.models))))


def bounded(table, seed=0):
    """The table as shares: every metric between 0 and 1."""
    return replace(
        table,
        values=1 / (1 + np.exp(-2 * table.values)),
        metrics=tuple(replace(m, bounds=(0.0, 1.0)) for m in table.metrics),
    )


def test_folds_hold_out_whole_families_with_their_twins():
    table = replace(families(made_up(models=12), 4), groups=("g", "g", *(f"m{i}" for i in range(2, 12))))
    parts = folds_of(table, "family", None, 0)
    assert sorted(i for _, held_out in parts for i in held_out) == list(range(12))
    for train, held_out in parts:
        assert not {table.families[i] for i in train} & {table.families[i] for i in held_out}
    assert len(parts) == 3  # the twins of f0 and f1 tie those families together
    assert len(set(held_together(MIEB, "family").groups)) == 15


def test_folds_by_date_learn_from_the_older():
    table = replace(made_up(models=16), dates=tuple(f"20{10 + i % 8}-01" for i in range(16)))
    parts = folds_of(table, "date", None, 0)
    assert len(parts) >= 2
    for train, held_out in parts:
        assert max(table.dates[i] for i in train) < min(table.dates[i] for i in held_out)
    got = nested_error(table, Space(table, Constraints(k=2)), RidgeScorer(), method="greedy", seed=0, holdout="date")
    assert got.holdout == "date"
    assert got.models == sum(len(held_out) for _, held_out in parts)


def test_folds_at_the_frontier_learn_from_the_worse():
    table = replace(made_up(models=24), groups=("g", *(f"m{i}" for i in range(1, 23)), "g"))
    scores = overall_scores(table)
    best_of_twins = max(scores[0], scores[23])
    for falling in (False, True):
        parts = folds_of(table, "frontier", None, 0, falling=falling)
        assert len(parts) == 4
        sign = -1 if falling else 1
        level = sign * scores
        level[[0, 23]] = sign * best_of_twins if not falling else max(-scores[0], -scores[23])
        for train, held_out in parts:
            assert level[train].max() < level[held_out].min()
            assert (0 in held_out) == (23 in held_out)
    got = nested_error(
        table, Space(table, Constraints(k=2)), RidgeScorer(), method="greedy", seed=0, holdout="frontier"
    )
    assert got.holdout == "frontier"
    assert got.models == sum(len(held_out) for _, held_out in parts)
    chosen = select(table, 2, method="greedy", randoms=5, holdout="frontier")
    assert "of better models than all that were learnt from" in selection_words(chosen)


def test_families_that_names_tell():
    names = ("openai/clip-vit", "laion/CLIP-B", "google/siglip-so400m", "siglip2_large", "dino", "7b")
    assert name_families(names) == ("clip", "clip", "siglip", "siglip", "dino", "")
    assert name_families(("m0", "m1", "m2")) == ()  # one family of all
    assert name_families(("a", "b", "c")) == ()  # nobody shares one
    table = replace(made_up(models=12), models=tuple(f"{'abcd'[i % 4]}{i}" for i in range(12)), groups=())
    assert len(folds_of(table, "family", None, 0)) == 4
    assert (
        families_note(table) == "families by the names' beginnings: a (3), b (3), c (3), d (3); the others stand alone"
    )
    chosen = select(table, 2, method="greedy", randoms=5, holdout="family")
    assert families_note(table) in chosen.warnings
    new = predict(table, chosen.benchmarks, {"x": dict.fromkeys(chosen.benchmarks, 0.0)}, holdout="family")
    assert new.notes == (families_note(table),)


def test_a_row_beyond_the_table_has_the_intervals_of_such_rows():
    """Outcomes bend where models are better than all: only what was held out at the frontier knows how much."""
    generator = np.random.default_rng(1)
    able = np.sort(generator.normal(size=40))
    bend = np.where(np.arange(8) % 2, np.maximum(able, 0.5)[:, None] ** 2, able[:, None])
    values = bend + 0.1 * generator.normal(size=(40, 8))
    table = replace(made_up(models=40, benchmarks=8), values=values)
    best = {"new": dict.fromkeys(("b0", "b4"), 3.5), "old": dict.fromkeys(("b0", "b4"), 0.0)}
    models = predict(table, ["b0", "b4"], best, scorer="ridge", searched=False).models
    assert (models["new"].beyond, models["old"].beyond) == ("above", "")
    assert models["new"].extrapolates
    data = standardise(table)
    rows = np.full((1, 8), np.nan)
    rows[0, [0, 4]] = 3.5
    rows = data.encode(rows)
    plain = calibrate(table, (0, 4), RidgeScorer(), level=0.9)
    wide = calibrate(table, (0, 4), RidgeScorer(), level=0.9, holdout="frontier")
    assert wide.quantile > plain.quantile
    got = intervals(table, (0, 4), RidgeScorer(), rows, level=0.9)
    again = intervals(table, (0, 4), RidgeScorer(), rows, level=0.9, holdout="frontier")
    np.testing.assert_allclose(got.half, again.half)
    lowest = intervals(table, (0, 4), RidgeScorer(), -rows, level=0.9)
    assert lowest.beyond.tolist() == [-1]


def test_intervals_count_that_the_search_saw_the_models():
    """On noise a search finds what is not there: its own residuals are too small, those of other folds are not."""
    quantiles = []
    for seed in range(4):
        table = replace(made_up(models=20, benchmarks=30), values=np.random.default_rng(seed).normal(size=(20, 30)))
        subset = table.positions(select(table, 6, method="greedy", nested=False, randoms=5).benchmarks)
        pair = [calibrate(table, subset, RidgeScorer(), level=0.9, searched=s).quantile for s in (False, True)]
        quantiles.append(pair)
    plain, honest = np.mean(quantiles, axis=0)
    assert honest > 1.02 * plain


def test_the_nearest_models_by_hand():
    table = made_up(models=12, benchmarks=5, missing=0.1)
    table = replace(table, groups=("g", "g", *(f"m{i}" for i in range(2, 12))))
    data = standardise(table)
    candidate, columns = (0, 3), data.metric_columns((0, 3))
    residuals = NeighbourScorer().residuals(data, [candidate])[0]
    mean = NeighbourScorer(neighbours=0).residuals(data, [candidate])[0]
    for i in range(12):
        others = [j for j in range(12) if data.groups[j] != data.groups[i]]
        if not data.mask[i, columns].all():
            continue
        both = {j: [c for c in columns if data.mask[j, c]] for j in others}
        far = {
            j: np.mean([(data.values[i, c] - data.values[j, c]) ** 2 for c in own]) if own else np.inf
            for j, own in both.items()
        }
        nearest = sorted(others, key=lambda j: far[j])[:3]
        for t in range(data.values.shape[1]):
            if not data.mask[i, t]:
                assert residuals[i, t] == mean[i, t] == 0
                continue
            everyone = np.mean([data.values[j, t] for j in others if data.mask[j, t]])
            measured = [data.values[j, t] for j in nearest if data.mask[j, t]]
            assert residuals[i, t] + data.values[i, t] == pytest.approx(np.mean(measured) if measured else everyone)
            assert mean[i, t] + data.values[i, t] == pytest.approx(everyone)


def test_auto_takes_the_mean_where_there_is_nothing_to_learn():
    table = replace(made_up(models=14, benchmarks=6), values=np.random.default_rng(3).normal(size=(14, 6)))
    scorer, choice = choose_scorer(table, [(0, 1, 2)])
    assert set(choice.errors) == {"ridge", "gp", "ridge+gp", "knn", "mean"}
    assert scorer.name == "mean"


@pytest.mark.parametrize(
    ("change", "holdout", "message"),
    [
        ({}, "family", r"has 0 families of models \(none given\)"),
        ({"families": ("x",) * 9}, "family", r"has 1 families of models \(x\)"),
        ({"dates": ("2020",) * 9}, "date", "has 1 dates"),
        ({"dates": ("2020", "") + ("2021",) * 7}, "date", "1 models without"),
        ({}, "week", "holdout 'week'"),
    ],
)
def test_holdouts_that_the_table_cannot_have(change, holdout, message):
    table = replace(made_up(), **change)
    with pytest.raises(EeveeError, match=message):
        select(table, 2, holdout=holdout)


def test_intervals_for_a_new_family_are_wider_and_cover():
    """Families that lie apart: intervals calibrated on models are too narrow for a new family."""
    generator = np.random.default_rng(0)
    inside = {"model": [], "family": []}
    for seed in range(6):
        table = families(made_up(models=60, benchmarks=12, seed=seed), 12)
        shift = 1.5 * generator.normal(size=(12, 12))
        table = replace(table, values=table.values + shift[[int(f[1:]) for f in table.families]])
        held_out = [i for i in range(60) if table.families[i] == "f0"]
        train = [i for i in range(60) if i not in held_out]
        rest = replace(
            table,
            models=tuple(table.models[i] for i in train),
            values=table.values[train],
            groups=(),
            families=tuple(table.families[i] for i in train),
        )
        rows = standardise(rest).encode(table.values[held_out])
        for holdout, covered in inside.items():
            middle, half, *_ = intervals(rest, (0, 1, 2, 3), RidgeScorer(), rows, level=0.9, holdout=holdout)
            covered.append((np.abs(middle - rows) <= half)[:, 4:])
    assert np.mean(inside["model"]) < np.mean(inside["family"])
    assert np.mean(inside["family"]) > 0.83


def surprise_by_hand(data, first, second):
    """How wrong each of two measured columns is told by the other, refitted without each model, and what that adds."""
    off = np.empty((len(data.values), 2))
    for column, (measured, wanted) in enumerate(((first, second), (second, first))):
        for i in range(len(off)):
            rest = np.delete(np.arange(len(off)), i)
            x = np.c_[data.values[rest, measured], np.ones(len(rest))]
            weights = np.linalg.solve(x.T @ x + np.diag([1.0, 0.0]), x.T @ data.values[rest, wanted])
            off[i, column] = weights @ [data.values[i, measured], 1] - data.values[i, wanted]
    square = (off**2).mean(1)
    return (1 + square / square.mean()) ** 0.25


def test_calibration_by_hand():
    table = made_up(models=20)
    data = standardise(table)
    got = calibrate(table, (0, 2), RidgeScorer(), level=0.8)
    residual = RidgeScorer().residuals(data, [(0, 2)])[0]
    unlike = RidgeScorer().held_out_spread(data, (0, 2)) * surprise_by_hand(data, 0, 2)
    scaled = residual / unlike[:, None]
    scale = np.sqrt((scaled**2).mean(0))
    np.testing.assert_allclose(got.scale, scale, rtol=1e-6)
    outside = [1, 3, 4, 5]
    ratios = (np.abs(scaled) / scale)[:, outside]
    assert got.quantile == pytest.approx(
        np.sort(ratios, axis=None)[int(np.ceil(0.8 * 21 / 20 * (ratios.size - 1)))], rel=1e-6
    )
    assert got.share(float(unlike.max()) * 1.01) == 1.0
    assert got.share(0.0) == 0


def test_families_that_err_alike_count_once_and_others_by_their_models():
    """Five families of four models: five units where a family is wrong as a whole, more where that tells nothing."""
    generator, groups = np.random.default_rng(0), np.repeat(np.arange(5), 4)
    alike = np.repeat([[0.1], [0.2], [0.3], [0.4], [9.0]], 4, axis=0) + generator.random((20, 30))
    assert _independent(alike, groups, 0.8) == 5
    assert _independent(generator.random((20, 30)), groups, 0.8) == 20
    mixed = generator.random((20, 30)) + np.where(groups == 4, 0.8, 0.0)[:, None]
    assert 5 < _independent(mixed, groups, 0.8) < 20
    table = families(made_up(models=20), 5)
    data = standardise(held_together(table, "family"))
    fold = inside_fold(RidgeScorer(), data, (0, 2))
    scaled = fold.residual / fold.unlike[:, None]
    ratios = (np.abs(scaled) / np.sqrt((scaled**2).mean(0)))[:, [1, 3, 4, 5]]
    units = _independent(ratios, data.groups, 0.9)
    expected = np.quantile(ratios, min(1, 0.9 * (units + 1) / units), method="higher")
    assert calibrate(table, (0, 2), RidgeScorer(), level=0.9, holdout="family").quantile == pytest.approx(expected)
    by_model = calibrate(table, (0, 2), RidgeScorer(), level=0.9).quantile
    assert by_model < calibrate(table, (0, 2), RidgeScorer(), level=0.97).quantile


def test_predictions_and_intervals_keep_to_bounds():
    table = bounded(made_up(models=30, benchmarks=8))
    new = {f"n{i}": {"b0": float(a), "b1": float(b)} for i, (a, b) in enumerate([(1, 1), (0, 0), (1, 0), (0.5, 0.5)])}
    for scorer in ("ridge", "gp", "ridge+gp"):
        for row in predict(table, ["b0", "b1"], new, scorer=scorer, level=0.99).models.values():
            for cell in row.cells.values():
                assert 0 <= cell.low <= cell.value <= cell.high <= 1
    free = replace(table, metrics=tuple(replace(m, bounds=None) for m in table.metrics))
    cells = predict(free, ["b0", "b1"], new, scorer="ridge", level=0.99).models["n0"].cells.values()
    assert max(cell.high for cell in cells) > 1  # so the bounds do something


def test_bounds_that_values_break():
    table = made_up()
    with pytest.raises(EeveeError, match=r"is outside its bounds 0 to 1"):
        table.with_bounds((0, 1))
    with pytest.raises(EeveeError, match="expected two finite numbers, low first"):
        table.with_bounds((1, 0))


@pytest.mark.parametrize("scaling", ["plain", "winsor", "rank"])
def test_scalings_go_there_and_back(scaling):
    table = bounded(made_up(models=15, missing=0.1)).with_scaling(scaling)
    data = standardise(table)
    mask = data.mask
    np.testing.assert_allclose(data.encode(table.values)[mask], data.values[mask], atol=1e-9)
    if scaling != "winsor":
        np.testing.assert_allclose(data.decode(data.values)[mask], table.values[mask], atol=1e-9)
    assert table.hash != table.with_scaling("plain").hash or scaling == "plain"


def outlier():
    table = made_up(models=24, benchmarks=8)
    values = table.values.copy()
    values[3, 5] = 60.0
    return replace(table, values=values)


@pytest.mark.long
def test_an_outlier_is_named_and_scaling_tames_it():
    chosen = select(outlier(), 3, method="greedy", randoms=20)
    assert (chosen.nested.loud.model, chosen.nested.loud.metric) == ("m3", "b5/m0")
    assert any("of the held-out error: b5/m0 of m3 (60)" in line for line in chosen.warnings)
    table, choice = choose_scaling(outlier(), Space(outlier(), Constraints(k=3)))
    assert table.scaling == choice.chosen != "plain"
    tamed = select(table, 3, method="greedy", randoms=20)
    assert tamed.nested.loud.share < 0.5 * chosen.nested.loud.share


def test_noise_is_no_better_than_random():
    table = replace(made_up(models=20), values=np.random.default_rng(0).normal(size=(20, 6)))
    chosen = select(table, 2, method="greedy", randoms=20)
    assert not chosen.nested.better_than_random
    assert any(line.startswith("no better than random") for line in chosen.warnings)
    assert "no better than random" in selection_words(chosen)


@pytest.mark.long
def test_auto_says_what_it_chose(tmp_path):
    subset = MIEB.positions(["AROCocoOrder", "SUN397", "STS13VisualSTS"])
    scorer, choice = choose_scorer(MIEB, [subset])
    assert scorer.name == choice.chosen == min(choice.errors, key=choice.errors.get)
    table = made_up(models=12)
    chosen = select(table, 2, scorer="auto", objective="unselected", method="greedy", randoms=10)
    assert chosen.choice.chosen == chosen.scorer
    assert chosen.settings.objective == chosen.objective == "unselected"
    assert f"scorer    {chosen.scorer}, by leave-one-out" in selection_words(chosen)
    path = tmp_path / "s.json"
    chosen.to_json(path)
    assert read_selection(path, table) == chosen


@pytest.mark.long
def test_unmeasured_cells_of_a_given_subset():
    judged = score(MIEB, ["CIFAR100", "Country211"], scorer="gp", randoms=5)
    assert judged.unmeasured > judged.error  # all cells count the subset's own, which are easy


def test_holdout_family_from_the_command_line(tmp_path, capsys):
    table = made_up(models=12)
    rows = "".join(f"{model},f{i % 4},{','.join(map(str, table.values[i]))}\n" for i, model in enumerate(table.models))
    path = tmp_path / "t.csv"
    path.write_text(f"model,model_family,{','.join(table.benchmark_ids)}\n{rows}")
    argv = ["select", "--table", str(path), "--direction", "higher", "-k", "2", "--method", "greedy", "--quiet"]
    assert main([*argv, "--holdout", "family"]) == 0
    words = capsys.readouterr().out
    assert "of families of models that the search never saw (4 folds, greedy)" in words
    assert "with an AUC of" in words
    assert main([*argv, "--holdout", "date"]) == 2
    assert "holding out by date needs a date for every model" in capsys.readouterr().err


def latent(seed, twins):
    """Twelve models in three dimensions, each with a near-twin in its group or alone; and eight new ones."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(3, 20))
    values, new = (rng.normal(size=(m, 3)) @ loadings + 0.8 * rng.normal(size=(m, 20)) for m in (12, 8))
    if twins:
        values = np.repeat(values, 2, axis=0) + 0.01 * rng.normal(size=(24, 20))
    ids = tuple(f"b{number}" for number in range(20))
    table = ResultTable(
        "latent", tuple(f"m{i}" for i in range(len(values))), tuple(Metric(i, i, "higher") for i in ids),
        tuple(map(Benchmark, ids)), values, groups=tuple(f"g{i // (2 if twins else 1)}" for i in range(len(values))),
    )  # fmt: skip
    return table, {f"new{i}": {f"b{j}": float(row[j]) for j in range(3)} for i, row in enumerate(new)}, new


def test_the_interval_of_the_mean_leaves_out_groups():
    """A near-twin that stays in the table tells a model's mean; a new model has no twin there."""
    covered, widths = 0, {True: [], False: []}
    for seed in range(4):
        for twins in (True, False):
            table, scores, new = latent(seed, twins)
            predicted = predict(table, ["b0", "b1", "b2"], scores, scorer="ridge", mean=True)
            means = [predicted.models[f"new{i}"].mean for i in range(len(new))]
            widths[twins].append(means[0].high - means[0].low)
            if twins:
                covered += sum(cell.low <= row.mean() <= cell.high for cell, row in zip(means, new, strict=True))
    assert np.mean(widths[True]) >= 0.9 * np.mean(widths[False])
    assert covered >= 27  # of 32


def test_the_interval_of_the_mean_holds_families_together_where_it_is_for_a_new_one():
    table, scores, _ = latent(0, twins=True)
    alone = replace(table, groups=table.models, families=table.groups)
    by_model, by_family = (
        predict(alone, ["b0", "b1", "b2"], scores, scorer="ridge", mean=True, holdout=holdout).models["new0"].mean
        for holdout in ("model", "family")
    )
    assert by_family.high - by_family.low > 1.2 * (by_model.high - by_model.low)


def test_an_interval_says_what_it_can_promise():
    table, scores, _ = latent(1, twins=False)
    sure = predict(table, ["b0", "b1", "b2"], scores, scorer="ridge", level=0.8)
    assert sure.promise == 0.8
    assert not any("promise" in note for note in sure.notes)
    few = predict(
        replace(table, groups=("a",) * 6 + ("b",) * 6), ["b0", "b1", "b2"], scores, scorer="ridge", level=0.99
    )
    assert 2 / 3 <= few.promise < 0.99
    assert any(f"so few models promise {few.promise:.0%} at most, not 99%" in note for note in few.notes)

"""Ranks with simultaneous intervals: coverage, ties, gaps, and what cannot be ranked."""

from __future__ import annotations

import functools
import json
import tracemalloc
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eevee import Benchmark, EeveeError, Metric, Outcomes, ResultTable, load_table, rank_models, rank_outcomes
from eevee.algebra import algebra_threads
from eevee.answers import leaderboard
from eevee.answers.leaderboard import _strengths, _wins
from eevee.cli import main


def table(values, name="made up"):
    models = tuple(f"m{number}" for number in range(len(values)))
    ids = tuple(f"t{number}" for number in range(values.shape[1]))
    metrics, benchmarks = tuple(Metric(t, t, "higher") for t in ids), tuple(map(Benchmark, ids))
    return ResultTable(name, models, metrics, benchmarks, values)


def places(board):
    return {place.model: (place.first, place.last) for place in board.places}


@pytest.mark.long
def test_of_equal_models_nothing_is_decided_in_nineteen_of_twenty():
    generator, wrong = np.random.default_rng(0), 0
    for seed in range(300):
        shared = generator.normal(size=(3, 15))
        values = generator.normal(size=(8, 3)) @ shared * 0.5 + generator.normal(size=(8, 15))
        wrong += rank_models(table(values), resamples=100, seed=seed).decided > 0
    assert 3 <= wrong <= 28  # 15 expected of any number of draws, within three and a half standard deviations


@pytest.mark.long
def test_of_equal_models_on_the_same_items_likewise():
    generator, wrong = np.random.default_rng(1), 0
    for seed in range(300):
        outcomes = {}
        for name in ("a", "b"):
            easy = generator.random(150)
            right = generator.random((6, 150)) < 0.2 + 0.6 * easy
            outcomes[name] = Outcomes(name, tuple("uvwxyz"), tuple(map(str, range(150))), right.astype(float))
        wrong += rank_outcomes(outcomes, resamples=100, seed=seed).decided > 0
    assert 3 <= wrong <= 28


def test_of_equal_models_on_twenty_items_hardly_anything_is_decided():
    """Errors were taken for known: a fifth of such boards had a decided pair, where 5 % are promised."""
    generator, wrong = np.random.default_rng(1), 0
    for seed in range(60):
        right = (generator.random((10, 20)) < 0.5).astype(float)
        outcomes = {"a": Outcomes("a", tuple("abcdefghij"), tuple(map(str, range(20))), right)}
        wrong += rank_outcomes(outcomes, resamples=200, seed=seed).decided > 0
    assert wrong <= 7  # 3 expected


def test_two_items_decide_nothing_however_the_outcomes_lie():
    """A model that is right on both, and others that are wrong on both, have no spread: t was infinite."""
    values = np.full((5, 40), np.nan)
    values[:, :2] = [[1, 1], *[[0, 0]] * 4]
    for model in range(5):
        values[model, 2 + 7 * model : 9 + 7 * model] = [0, 1, 0, 1, 0, 1, 1]
    values[0, 37:] = 1
    outcomes = {"a": Outcomes("a", tuple("abcde"), tuple(map(str, range(40))), values)}
    assert rank_outcomes(outcomes).decided == 0
    values[:, :30] = np.array([1, 0, 0, 0, 0])[:, None]
    assert rank_outcomes({"a": Outcomes("a", tuple("abcde"), tuple(map(str, range(40))), values)}).leaders == ("a",)


def test_intervals_hold_all_true_ranks_and_items_tell_more_than_tasks():
    generator = np.random.default_rng(2)
    means = np.array([1.5, 1.5, 0.5, 0.0, -1.0, -1.0])
    covered, narrower = 0, 0
    for seed in range(60):
        shares = 1 / (1 + np.exp(-(means[:, None] + generator.normal(0, 1, 6))))
        outcomes = {
            f"t{task}": Outcomes(
                f"t{task}", tuple(f"m{number}" for number in range(6)), tuple(map(str, range(300))),
                (generator.random((6, 300)) < shares[:, task, None]).astype(float),
            )
            for task in range(6)
        }  # fmt: skip
        of_items = places(rank_outcomes(outcomes, resamples=500, seed=seed))
        scores = np.stack([outcome.scores() for outcome in outcomes.values()], axis=1)
        of_tasks = places(rank_models(table(scores), resamples=500, seed=seed))
        true = [(1, 2), (1, 2), (3, 3), (4, 4), (5, 6), (5, 6)]
        covered += all(low <= last and high >= first for (low, high), (first, last) in zip(
            (of_items[f"m{number}"] for number in range(6)), true, strict=True))  # fmt: skip
        narrower += sum(b - a for a, b in of_items.values()) <= sum(b - a for a, b in of_tasks.values())
    assert covered >= 55
    assert narrower >= 50


def test_the_shipped_table_by_hand():
    """The best model's worst rank counts the models that are not surely below it, by the first step's constant."""
    gate = load_table("gate")
    board = rank_models(gate)
    first = board.places[0]
    assert (first.model, first.first) == ("cvnxtv2", 1)
    assert first.last == sum(place.first < 8 for place in board.places[:9]) - sum(
        place.first < 8 for place in board.places[7:9]
    )
    assert sum(place.borda for place in board.places) == pytest.approx(21 / 2)
    assert sum(place.mean_rank for place in board.places) == pytest.approx(21 * 11)
    assert np.mean([place.strength for place in board.places]) == pytest.approx(0, abs=1e-9)


def test_strengths_are_the_maximum_of_the_likelihood():
    """Against a slow fit by scikit-learn's logistic regression without a penalty on pairs."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = np.random.default_rng(3)
    wins = _wins(generator.normal(size=(5, 12)) + np.arange(5)[:, None] * 0.4).sum(0)
    own = wins + 0.5 * (1 - np.eye(5))
    rows, labels, weights = [], [], []
    for i in range(5):
        for j in range(5):
            if i != j:
                rows.append(np.eye(5)[i] - np.eye(5)[j])
                labels += [1]
                weights.append(own[i, j])
    x = np.concatenate([rows, [-row for row in rows]])
    fitted = linear_model.LogisticRegression(C=1e8, fit_intercept=False, tol=1e-10, max_iter=1000).fit(
        x, np.repeat([1, 0], len(rows)), sample_weight=np.tile(weights, 2)
    )
    expected = fitted.coef_[0] - fitted.coef_[0].mean()
    np.testing.assert_allclose(_strengths(wins), expected, atol=1e-3)


def test_missing_tasks_widen_an_interval_and_cost_no_rank():
    generator = np.random.default_rng(4)
    values = np.array([3.0, 2.0, 0.0, -1.0, -2.0, -3.0])[:, None] + 0.3 * generator.normal(size=(6, 20))
    whole = places(rank_models(table(values)))
    assert whole["m0"] == (1, 1)
    values[0, 4:] = np.nan
    board = rank_models(table(values))
    own = next(place for place in board.places if place.model == "m0")
    assert (own.first, own.tasks) == (1, 4)
    assert own.last < 6
    values[0, 2:] = np.nan
    board = rank_models(table(values))
    assert board.apart == 5
    assert places(board)["m0"] == (1, 6)
    assert places(board)["m5"][1] == 6


def test_ties_everywhere_and_what_cannot_be_ranked():
    equal = np.tile(np.arange(6.0), (5, 1))
    equal[0, 0] += 1e-3  # a table in which nothing varies is refused elsewhere
    board = rank_models(table(equal))
    assert board.decided == 0
    assert set(places(board).values()) == {(1, 5)}
    apart = np.full((5, 15), np.nan)
    for row in range(5):
        apart[row, 3 * row : 3 * row + 3] = 1.0 + row
    with pytest.raises(EeveeError, match="no two models share 3 tasks"):
        rank_models(table(apart))
    with pytest.raises(EeveeError, match="has 2 benchmarks; ranks need at least 3"):
        rank_models(table(np.random.default_rng(0).normal(size=(5, 2))))
    with pytest.raises(EeveeError, match=r"level is 1\.5"):
        rank_models(load_table("gate"), level=1.5)
    with pytest.raises(EeveeError, match="resamples is 3"):
        rank_models(load_table("gate"), resamples=3)
    with pytest.raises(EeveeError, match="no benchmark with outcomes"):
        rank_outcomes({})


def test_the_command(tmp_path, capsys):
    assert main(["rank", "gate", "--json", str(tmp_path / "board.json")]) == 0
    out = capsys.readouterr().out
    assert "of 210 pairs are decided" in out
    assert "may be the best: cvnxtv2, clip" in out
    assert json.loads((tmp_path / "board.json").read_text())["places"][0]["model"] == "cvnxtv2"
    generator = np.random.default_rng(0)
    right = (generator.random((5, 400)) < np.array([0.9, 0.6, 0.6, 0.5, 0.2])[:, None]).astype(float)
    np.savez(tmp_path / "outcomes.npz", models=np.array(list("abcde")), toy=right)
    assert main(["rank", str(tmp_path / "outcomes.npz")]) == 0
    out = capsys.readouterr().out
    assert "on other test items of these tasks" in out
    assert "the best: a" in out


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_pairs_are_decided_as_by_all_draws_in_memory(share, level):
    """The definition: |t| of every pair in every draw, by NumPy's own means, and the quantile of the maxima."""
    generator = np.random.default_rng(3)
    scores = generator.normal(size=(9, 1)) * 1.5 + generator.normal(size=(9, 14))
    scores[generator.random(scores.shape) < share] = np.nan
    measured, resamples = ~np.isnan(scores), 300
    first, second = np.triu_indices(9, 1)
    comparable = (measured.astype(int) @ measured.T)[first, second] >= 3
    everyone = np.ones((9, 9), dtype=bool)

    def t_of(board, pair):
        i, j = pair
        gaps = (board[i] - board[j])[measured[i] & measured[j]]
        return abs(gaps.mean()) / (gaps.std(ddof=1) / np.sqrt(len(gaps)))

    pairs = list(zip(first, second, comparable, strict=True))
    observed = np.array([t_of(scores, pair) if ok else 0.0 for *pair, ok in pairs])
    drawn = []
    for number in range(resamples):
        centred = np.where(measured, scores - np.nanmean(scores, axis=1, keepdims=True), 0.0)
        shared = measured.astype(float) @ measured.T
        own = centred @ centred.T / np.maximum(shared - 1, 1)
        covariance, normal = 0.5 * own + 0.5 * np.trace(own) / 9 * np.eye(9), np.random.default_rng([5, number])
        if share:
            board = leaderboard._root(covariance) @ normal.standard_normal((9, 14), dtype=np.float32)
        else:  # any root has the same draws in distribution; this one has as many columns as tasks and models
            root = np.hstack([np.sqrt(0.5 / 13) * centred, np.sqrt(0.5 * np.trace(own) / 9) * np.eye(9)])
            np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
            board = root @ normal.standard_normal((23, 14), dtype=np.float32)
        drawn.append([t_of(board, pair) if ok else 0.0 for *pair, ok in pairs])
    drawn, undecided = np.array(drawn), comparable.copy()
    alone = leaderboard._largest_of_tasks(scores, 5, everyone & ~np.eye(9, dtype=bool), np.arange(resamples), print)
    if share == 0:
        np.testing.assert_allclose(alone, drawn.max(1), rtol=1e-4)
    while undecided.any():
        new = undecided & (observed > np.quantile(drawn[:, undecided].max(1), level, method="higher"))
        if not new.any():
            break
        undecided &= ~new
    largest = functools.partial(leaderboard._largest_of_tasks, scores, 5)
    decided = leaderboard._decided(observed, largest, comparable, level, 9, resamples, None)
    np.testing.assert_array_equal(decided, comparable & ~undecided)
    assert decided.any()
    assert not decided.all()


@pytest.mark.parametrize("of", ["tasks", "items"])
def test_progress_counts_draws_and_changes_no_rank(of):
    values, reports = np.random.default_rng(4).normal(size=(9, 200)) + np.arange(9)[:, None] / 5, []
    outcomes = Outcomes("toy", tuple("abcdefghi"), tuple(map(str, range(200))), 1 / (1 + np.exp(-values)))
    rank = (
        functools.partial(rank_models, table(values))
        if of == "tasks"
        else functools.partial(rank_outcomes, {"": outcomes})
    )
    board = rank(progress=lambda *report: reports.append(report), resamples=400)
    assert places(board) == places(rank(resamples=400))
    phases, done, expected = zip(*reports, strict=True)
    assert set(phases) == {"draws"}
    assert len(done) > 1
    assert (np.diff(done) > 0).all()
    assert min(expected) >= 400
    assert (np.subtract(expected, done) >= 0).all()
    assert done[-1] == expected[-1]


def test_memory_does_not_grow_with_draws_times_pairs():
    values = np.random.default_rng(0).normal(size=(120, 12))
    tracemalloc.start()
    rank_models(table(values), resamples=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # all |t| of all draws are 114 MB, and were held in several copies


@pytest.mark.parametrize(("models", "games"), [(20, 10**7), (100, 100_000)])
@pytest.mark.parametrize("gap", [0.1, 50.0])
def test_strengths_of_many_games_are_those_of_a_slow_fit(models, games, gap):
    """In float32, of 100,000 games that the better one always wins, a strength was off by 145."""
    differences = gap * (np.arange(models)[:, None] - np.arange(models))
    chance = 1 / (1 + np.exp(-np.clip(differences, -500, 500)))
    won = np.triu(np.random.default_rng(0).binomial(games, chance), 1)
    wins = (won + np.tril(games - won.T, -1)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strength = _strengths(wins)
    np.testing.assert_allclose(strength, slow_strengths(wins), atol=1e-3)
    np.testing.assert_allclose(_strengths(np.stack([wins, wins]), strength), [strength, strength], atol=1e-3)


def slow_strengths(wins):
    """Newton's steps in float64, each solved directly."""
    own, strength = wins + 0.5 * (1 - np.eye(len(wins))), np.zeros(len(wins))
    for _ in range(1000):
        difference = np.clip(strength[None] - strength[:, None], -700, 700)
        chance = 1 / (1 + np.exp(difference))
        slope = (own * chance.T).sum(1) - (own.T * chance).sum(1)
        links = (own + own.T) * chance * chance.T
        np.fill_diagonal(links, 0)
        step = np.linalg.lstsq(np.diag(links.sum(1)) - links, slope, rcond=None)[0]
        strength = strength + np.clip(step, -2, 2)
        strength -= strength.mean()
        if np.abs(step).max() < 1e-9:
            return strength
    raise AssertionError("the slow fit does not settle")


def test_small_products_take_one_thread(monkeypatch):
    """Two threads took 53 CPU seconds for 332 models on a busy machine, where one takes 3.4."""
    threads, largest = [], leaderboard._largest_square

    def noted(*arguments):
        threads.append(algebra_threads())
        return largest(*arguments)

    monkeypatch.setattr(leaderboard, "_largest_square", noted)
    with threadpool_limits(2, user_api="blas"):
        rank_models(load_table("gate"), resamples=200)
        assert algebra_threads() == 2
    assert set(threads) == {1}


def test_a_result_does_not_take_the_place_of_the_table(tmp_path, capsys):
    table = tmp_path / "scores.csv"
    table.write_text("model,one,two,three\n" + "".join(f"m{i},.{i},.{9 - i},.5\n" for i in range(1, 9)))
    content = table.read_bytes()
    for command in (["rank", str(table)], ["check", "--table", str(table)]):
        assert main([*command, "--direction", "higher", "--json", str(table)]) == 2
        assert "scores.csv is read here" in capsys.readouterr().err
    assert table.read_bytes() == content
    assert main(["select", "-k", "2", "--table", str(table), "--direction", "higher", "--json", str(tmp_path)]) == 2
    assert "is a folder; expected a file in it" in capsys.readouterr().err

"""Models against the best of them: how often equal ones are called worse, and what one test is held to."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from paired_scores import holm, paired_test, score_outcomes, worse_than_another
from paired_scores.metrics import METRICS


def _draw(rng: np.random.Generator, shares: list[float], samples: int) -> list[np.ndarray]:
    """Right or wrong; all models find the same samples hard, each with noise of its own."""
    ease = rng.normal(0, 1, samples)
    levels = np.log(np.array(shares) / (1 - np.array(shares))) * 1.2
    return [(rng.random(samples) < 1 / (1 + np.exp(-(level + ease)))).astype(float) for level in levels]


def _holm_over_the_others(models: list[np.ndarray]) -> list[float]:
    """Pick the best, then test it against the others by the same samples, corrected for these tests alone."""
    best = max(range(len(models)), key=lambda model: models[model].mean())
    others = [model for model in range(len(models)) if model != best]
    values = []
    for model in others:
        wins, losses = (int((models[a] > models[b]).sum()) for a, b in ((best, model), (model, best)))
        values.append(min(1.0, 2 * float(binom.cdf(min(wins, losses), wins + losses, 0.5))))
    p = dict(zip(others, holm(values), strict=True))
    return [p.get(model, 1.0) for model in range(len(models))]


@pytest.mark.parametrize("count", [3, 10, pytest.param(20, marks=pytest.mark.again)])
def test_equal_models_are_called_worse_in_at_most_a_twentieth_of_draws(count: int) -> None:
    """The rule that corrects for the others alone is checked by the same draws: it does not pass from ten models on."""
    rng, draws = np.random.default_rng(count), 200
    ours = theirs = 0
    for draw in range(draws):
        models = _draw(rng, [0.8] * count, 200)
        ours += min(worse_than_another("acc@1", [[model] for model in models], permutations=399, seed=draw)) <= 0.05
        theirs += min(_holm_over_the_others(models)) <= 0.05
    most = 0.05 * draws + 2 * np.sqrt(draws * 0.05 * 0.95)  # two standard errors above a twentieth
    assert ours <= most
    assert (theirs > most) == (count >= 10)


def test_two_of_the_best_among_worse_ones_stay() -> None:
    """What was removed already still counts: the error is no larger where most models are clearly worse."""
    rng, wrong, removed = np.random.default_rng(1), 0, 0
    for draw in range(100):
        models = _draw(rng, [0.85, 0.85, 0.85, 0.6, 0.5, 0.4], 200)
        p = worse_than_another("acc@1", [[model] for model in models], permutations=399, seed=draw)
        wrong += min(p[:3]) <= 0.05
        removed += max(p[3:]) <= 0.05
    assert wrong <= 0.05 * 100 + 2 * np.sqrt(100 * 0.05 * 0.95)
    assert removed >= 97


def test_two_models_are_one_paired_test() -> None:
    rng = np.random.default_rng(2)
    for share in (0.75, 0.65):
        first, second = _draw(rng, [0.75, share], 400)
        p = worse_than_another("acc@1", [[first], [second]], permutations=20_000)
        worse = int(first.mean() > second.mean())
        assert p[worse] == pytest.approx(paired_test("acc@1", [first], [second]).p_permutation, abs=0.01)
        assert p[1 - worse] == 1.0


def test_few_samples_take_every_exchange_once() -> None:
    models = [np.ones(6), np.zeros(6), np.array([1.0, 1, 1, 0, 0, 0])]
    p = worse_than_another("acc@1", [[model] for model in models])
    spread = {}
    for i, j in itertools.permutations(range(3), 2):
        rows = [
            np.mean([sign * (models[j] - models[i])[place] for place, sign in enumerate(signs)])
            for signs in itertools.product((-1, 1), repeat=6)
        ]
        spread[i, j] = np.array(rows) / np.sqrt(np.mean(np.square(rows)))
    size = np.sqrt(6)  # of the second model, wrong everywhere, in standard deviations
    everything = np.max(list(spread.values()), axis=0)
    exact = np.mean(everything >= size - 1e-9)
    assert exact <= p[1] <= exact + 0.15  # Student's variates with 5 degrees of freedom are more careful
    assert worse_than_another("acc@1", [[models[0]], [models[1]]]) == [1.0, 2 / 64]
    assert p[0] == 1.0


@pytest.mark.parametrize("metric", ["mean_per_class", "macro_f1", "mae"])
def test_any_metric_and_direction(metric: str) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 240)
    models = []
    for share in (0.9, 0.9, 0.5):
        guess = np.where(rng.random(240) < share, truth, rng.integers(0, 4, 240))
        predicted, true = (guess.astype(float), truth.astype(float)) if metric == "mae" else (guess, truth)
        models.append([METRICS[metric].outcomes(predicted, true)])
    p = worse_than_another(metric, models, direction=METRICS[metric].direction, permutations=499)
    assert p[2] <= 0.01
    assert min(p[:2]) > 0.05
    values = [score_outcomes(metric, model[0]).value for model in models]
    assert (values[2] > values[0]) is (metric == "mae")


def test_with_seeds_that_vary_more_than_the_samples_nothing_is_worse() -> None:
    rng = np.random.default_rng(4)
    steady = [[model] * 3 for model in _draw(rng, [0.85, 0.7], 400)]
    assert worse_than_another("acc@1", steady)[1] < 0.05
    shaken = [[_draw(rng, [share], 400)[0] for share in shares] for shares in ((0.9, 0.6, 0.9), (0.6, 0.85, 0.7))]
    assert min(worse_than_another("acc@1", shaken)) > 0.05


def test_equal_outcomes_are_never_worse() -> None:
    same = np.array([1.0, 0, 1, 1] * 20)
    assert worse_than_another("acc@1", [[same], [same], [same.copy()]]) == [1.0, 1.0, 1.0]
    assert worse_than_another("acc@1", [[same]]) == [1.0]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"seeds by model: \[1, 2\]"):
        worse_than_another("acc@1", [[np.ones(3)], [np.ones(3), np.ones(3)]])
    with pytest.raises(ValueError, match=r"\[3, 4\] outcomes; expected the same number of samples"):
        worse_than_another("acc@1", [[np.ones(3)], [np.ones(4)]])
    with pytest.raises(ValueError, match="permutations is 0; expected a whole number of at least 1"):
        worse_than_another("acc@1", [[np.ones(3)], [np.ones(3)]], permutations=0)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "sample 3 is NaN in one"), (np.inf, "sample 3 has the outcome inf")]
)
def test_an_outcome_that_one_model_lacks_is_refused(value: float, message: str) -> None:
    models = [[model] for model in _draw(np.random.default_rng(5), [0.9, 0.5, 0.4], 100)]
    assert min(worse_than_another("acc@1", models)) < 0.01
    models[1][0][3] = value
    with pytest.raises(ValueError, match=message):
        worse_than_another("acc@1", models)


def test_samples_without_an_outcome_in_any_model_do_not_count() -> None:
    models = [[model] for model in _draw(np.random.default_rng(5), [0.9, 0.5], 100)]
    padded = [[np.append(model, [np.nan, np.nan])] for (model,) in models]
    assert worse_than_another("acc@1", padded) == worse_than_another("acc@1", models)
    with pytest.raises(ValueError, match="none of 2 samples has an outcome"):
        worse_than_another("acc@1", [[np.full(2, np.nan)]] * 2)


def _in_groups(rng: np.random.Generator, models: int, groups: int, size: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Equal models, each right on whole groups or wrong on them."""
    labels = np.repeat(np.arange(groups), size)
    return [(rng.random(groups) < 0.6)[labels].astype(float) for _ in range(models)], labels


@pytest.mark.parametrize("metric", ["acc@1", "mean_per_class"])
def test_two_models_in_clusters_are_one_paired_test_of_clusters(metric: str) -> None:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 9, 60)
    models = [rng.random(60) < share for share in (0.9, 0.4)]
    outcomes = [right.astype(float) for right in models]
    if metric == "mean_per_class":
        truth = rng.integers(0, 3, 60)
        outcomes = [np.stack([right, truth], axis=1).astype(float) for right in models]
    p = worse_than_another(metric, [[outcomes[0]], [outcomes[1]]], clusters=labels)
    exact = paired_test(metric, [outcomes[0]], [outcomes[1]], clusters=labels).p_permutation  # of all 512 exchanges
    assert p == [1.0, exact]


def test_equal_models_right_on_whole_groups_are_rarely_called_worse() -> None:
    rng, alone, together = np.random.default_rng(8), 0, 0
    for draw in range(60):
        models, labels = _in_groups(rng, 3, 12, 20)
        seeds = [[model] for model in models]
        alone += min(worse_than_another("acc@1", seeds, permutations=399, seed=draw)) <= 0.05
        together += min(worse_than_another("acc@1", seeds, permutations=399, seed=draw, clusters=labels)) <= 0.05
    assert together <= 0.05 * 60 + 2 * np.sqrt(60 * 0.05 * 0.95)
    assert alone >= 30  # images alone take one mistake for twenty


def test_a_cluster_for_each_sample_changes_nothing() -> None:
    models = [[model] * 2 for model in _draw(np.random.default_rng(9), [0.9, 0.7, 0.7], 80)]
    assert worse_than_another("acc@1", models, clusters=range(80)) == worse_than_another("acc@1", models)


def test_clusters_that_cannot_be_exchanged_are_refused() -> None:
    models = [[np.array([1.0, 0, 1])], [np.array([0.0, 0, 1])]]
    with pytest.raises(ValueError, match="clusters: 2 labels for 3 samples"):
        worse_than_another("acc@1", models, clusters=["a", "b"])
    with pytest.raises(ValueError, match="clusters: all 3 samples are of 'a'"):
        worse_than_another("acc@1", models, clusters=["a", "a", "a"])


@pytest.mark.parametrize("direction", ["max", "Higher", ""])
def test_a_direction_that_is_neither_is_refused(direction: str) -> None:
    """It counted as "lower", and the best model was called worse than another."""
    models = [[np.array([1.0, 0.0, 1.0])], [np.array([0.0, 0.0, 1.0])]]
    with pytest.raises(ValueError, match="expected 'higher' or 'lower'"):
        worse_than_another("acc@1", models, direction=direction)  # type: ignore[arg-type]

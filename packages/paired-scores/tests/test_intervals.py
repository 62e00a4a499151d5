from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from paired_scores import by_class, paired_test, power_of_outcomes, worse_than_another
from paired_scores.clusters import cluster_interval
from paired_scores.metrics import (
    METRICS,
    RunningScores,
    calibration_error,
    evaluate,
    paired_difference,
    score_outcomes,
)
from paired_scores.metrics.arrays import UndefinedMetricError
from paired_scores.metrics.score import wilson
from paired_scores.slices import slice_scores


@pytest.mark.parametrize("n", [5, 6, 10, 20, 50, 200])
@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_intervals_of_shares_cover_the_truth(n: int, p: float) -> None:
    """Coverage, summed over every possible number of successes; a simulation of evaluate itself comes to the same."""
    covered = 0.0
    for right in range(n + 1):
        low, high = wilson(right / n, n)
        covered += comb(n, right) * p**right * (1 - p) ** (n - right) * (low <= p <= high)
    assert covered >= 0.9  # Wilson's coverage oscillates around .95
    rng = np.random.default_rng(n)
    draws = (rng.random((400, n)) < p).astype(int)
    scores = [evaluate("accuracy", draw, np.ones(n, dtype=int), resamples=1000) for draw in draws]
    simulated = np.mean([score.low <= p <= score.high for score in scores])
    assert simulated == pytest.approx(covered, abs=0.06)  # four standard errors of 400 draws
    assert all(score.low < score.high for score in scores)


@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("p", [0.0, 0.01, 0.99, 1.0])
def test_the_mean_over_classes_covers_the_truth_at_the_edge(n: int, p: float) -> None:
    rng = np.random.default_rng(n)
    classes = np.arange(3 * n) % 3
    covered = 0
    for _ in range(200):
        right = rng.random(3 * n) < p
        score = score_outcomes("mean_per_class", np.stack([right, classes], axis=1).astype(float), resamples=200)
        assert score.low < score.high
        covered += score.low <= p <= score.high
    assert covered >= (0.9 if p in (0.0, 1.0) else 0.5) * 200  # between: the bootstrap, which lacks unseen failures


def test_episodes_that_are_all_right_leave_room() -> None:
    assert score_outcomes("accuracy", np.ones(6)).low == pytest.approx(6 / (6 + 1.959964**2), rel=1e-5)
    mixed = score_outcomes("accuracy", np.array([1.0, 0.8, 0.6, 1.0]))
    assert 0.6 <= mixed.low < mixed.value < mixed.high <= 1.0
    alone = score_outcomes("accuracy", np.ones(6), resamples=0)
    assert (alone.low, alone.high) == (1.0, 1.0)


def test_classes_of_equal_scores_share_what_random_order_gives() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (40, 7)).astype(float)
    labels = rng.integers(0, 7, 40)
    for name, k in (("acc@1", 1), ("acc@5", 5)):
        outcomes = evaluate(name, scores, labels, resamples=0).outcomes
        hits = np.zeros(40)
        for _ in range(4000):
            order = np.argsort(-scores + 1e-3 * rng.random(scores.shape), axis=1)[:, :k]
            hits += (order == labels[:, None]).any(axis=1)
        np.testing.assert_allclose(outcomes, hits / 4000, atol=0.04)
    assert evaluate("accuracy", np.zeros((8, 4)), np.zeros(8, dtype=int)).value == 0.25


def test_masks_that_define_no_value_are_refused() -> None:
    ignored = np.full((2, 3, 3), -100)
    with pytest.raises(ValueError, match="every target pixel of 2 maps is -100"):
        evaluate("miou", np.zeros((2, 3, 3), dtype=int), ignored)
    with pytest.raises(ValueError, match="dice has no value: no class but 0"):
        evaluate("dice", np.zeros((2, 3, 3), dtype=int), np.zeros((2, 3, 3), dtype=int))
    half = np.concatenate([ignored[:1], np.ones((1, 3, 3), dtype=int)])
    assert evaluate("dice", np.ones((2, 3, 3), dtype=int), half).value == 1.0


@pytest.mark.parametrize(
    "name", ["roc_auc", "average_precision", "map_11point", "miou", "mean_acc", "overall_acc", "dice"]
)
def test_what_is_all_right_leaves_room(name: str) -> None:
    rng = np.random.default_rng(0)
    if name in ("roc_auc", "average_precision", "map_11point"):
        truths = np.arange(40) < 6  # six of one kind: as much as six trials
        score = evaluate(name, truths + 0.1 * rng.random(40), truths.astype(int))
    else:
        masks = rng.integers(1, 3, (6, 4, 4))
        score = evaluate(name, masks, masks)
    assert (score.value, score.high) == (1.0, 1.0)
    assert score.low == pytest.approx(wilson(1.0, 6)[0])


@pytest.mark.parametrize("n", [5, 20])
def test_a_ranking_that_is_nearly_always_right_covers_the_truth(n: int) -> None:
    """Positives of mean 3.3 and negatives of mean 0, both of deviation 1: the area is .990."""
    rng, covered = np.random.default_rng(n), 0
    for _ in range(200):
        scores = np.concatenate([rng.normal(3.29, 1, n), rng.normal(0, 1, n)])
        score = evaluate("roc_auc", scores, np.repeat([1, 0], n), resamples=200)
        assert score.low < score.high
        covered += score.low <= 0.990 <= score.high
    assert covered >= 0.85 * 200


def test_a_perfect_brier_score_leaves_room() -> None:
    score = evaluate("brier", np.array([1.0, 0.0, 1.0, 0.0, 1.0]), np.array([1, 0, 1, 0, 1]))
    assert (score.value, score.low) == (0.0, 0.0)
    assert score.high == pytest.approx(wilson(0.0, 5)[1])


@pytest.mark.parametrize("name", ["miou", "overall_acc", "dice"])
def test_scores_of_batches_are_those_of_all_samples(name: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, (12, 6, 6))
    truth[3] = -100  # a whole map that counts nowhere
    truth[0][truth[0] == 4] = 0
    guess = np.where(rng.random(truth.shape) < 0.5, truth.clip(0), rng.integers(0, 5, truth.shape))
    running = RunningScores([name, "mean_acc"])
    for size in (1, 2, 1, 1, 7):
        rows = slice(running.samples, running.samples + size)
        running.update(guess[rows], truth[rows])
    scores, score = running.compute(seed=3), evaluate(name, guess, truth, seed=3)
    assert (scores[name].value, scores[name].low, scores[name].high) == (score.value, score.low, score.high)
    np.testing.assert_array_equal(scores[name].outcomes, score.outcomes)
    assert scores["mean_acc"].value == evaluate("mean_acc", guess, truth, resamples=0).value


def test_wilsons_ends_are_scipys() -> None:
    for trials, right in ((1, 0), (1, 1), (7, 3), (40, 39), (1000, 500)):
        theirs = stats.binomtest(right, trials).proportion_ci(0.9, "wilson")
        assert wilson(right / trials, trials, 0.9) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_running_scores_refuse_what_evaluate_refuses() -> None:
    running = RunningScores(["roc_auc"])
    running.update([0.1, 0.2], [1, 1])  # one class only, so far
    with pytest.raises(ValueError, match="label 0 has 2 positives among 2 samples"):
        running.compute()
    running.update([0.3], [0])
    assert running.compute()["roc_auc"].value == 0.0
    with pytest.raises(ValueError, match="predictions: sample 4 holds NaN"):
        running.update([0.5, np.nan], [1, 0])
    with pytest.raises(ValueError, match="no samples"):
        RunningScores(["accuracy"]).compute()


def test_a_score_is_printed_on_one_line() -> None:
    score = evaluate("accuracy", np.arange(5000) % 7, np.arange(5000) % 5)
    shown = repr(score)
    assert "outcomes" not in shown
    assert "\n" not in shown
    assert len(shown) < 150
    assert shown.startswith("Score(metric='accuracy', direction='higher', value=0.")
    assert len(score.outcomes) == 5000


def test_ties_everywhere_keep_an_interval_with_a_width() -> None:
    """Two classes with equal scores share each sample: outcomes are all a half, which resampling cannot vary."""
    score = evaluate("accuracy", np.ones((4, 2)), [0, 1, 0, 1])
    assert score.outcomes.tolist() == [0.5] * 4
    assert (score.value, score.low, score.high) == (0.5, *wilson(0.5, 4))
    assert score.high - score.low > 0.5


def test_outcomes_of_any_form_score_the_same_and_masked_ones_are_refused() -> None:
    torch = pytest.importorskip("torch")
    outcomes = (np.random.default_rng(0).random(50) < 0.6).astype(float)
    expected = score_outcomes("acc@1", outcomes)
    for held in (outcomes.tolist(), torch.tensor(outcomes), outcomes > 0, outcomes.astype(np.uint8)):
        score = score_outcomes("acc@1", held)
        assert (score.value, score.low, score.high) == (expected.value, expected.low, expected.high)
    with pytest.raises(ValueError, match="masked"):
        score_outcomes("acc@1", np.ma.masked_array(outcomes, np.arange(50) < 9))


def test_a_difference_takes_outcomes_of_any_form_and_refuses_masked_and_missing_ones() -> None:
    torch, pandas = pytest.importorskip("torch"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    first, second = (rng.random(50) < 0.5).astype(float), (rng.random(50) < 0.7).astype(float)
    expected = paired_difference("accuracy", first, second)
    for held in (
        second.tolist(),
        torch.tensor(second),
        second.astype(object),
        pandas.Series(second, index=range(50)[::-1]),
    ):
        assert paired_difference("accuracy", first, held) == expected
    with pytest.raises(ValueError, match=r"accuracy: the value at \[0\] is masked"):
        paired_difference("accuracy", first, np.ma.masked_array(second, np.arange(50) < 9))
    with pytest.raises(ValueError, match=r"accuracy: expected numbers, got None"):
        paired_difference("accuracy", first, [None, *second[1:]])


@pytest.mark.parametrize(
    ("share", "trials", "level"),
    [(1.2, 10, 0.95), (np.nan, 10, 0.95), (0.5, 0, 0.95), (0.5, -3, 0.95), (0.5, np.inf, 0.95), (0.5, 10, 95)],
)
def test_wilson_refuses_what_is_not_a_share(share: float, trials: float, level: float) -> None:
    """NaN had the interval from 0 to 1, negative trials one from 1.6 to -0.6, none a division by zero."""
    with pytest.raises(ValueError, match=r"expected a share in \[0, 1\], trials above 0 and a level in \(0, 1\), got "):
        wilson(share, trials, level)
    assert wilson(1 + 1e-12, 10)[1] == 1.0


FORMS = {
    (6,): ("accuracy", "acc@1", "acc@5", "brier", "log_loss", "mae", "mse", "rmse"),
    (6, 2): ("mean_per_class", "calibration_error", "r2", "spearman", "macro_f1", "micro_f1", "quadratic_kappa"),
    (6, 2, 2): ("map_11point", "map_11point_elevater", "roc_auc", "average_precision", "macro_f1", "micro_f1"),
    (6, 3, 2): ("miou", "miou_foreground", "mean_acc", "overall_acc", "dice"),
    (6, 1): (),
    (6, 3): (),
    (6, 2, 2, 2): (),
}


@pytest.mark.parametrize("metric", METRICS)
def test_outcomes_of_another_form_or_without_a_value_are_refused(metric: str) -> None:
    for form, metrics in FORMS.items():
        outcomes = np.random.default_rng(0).integers(0, 2, form).astype(float)
        if metric not in metrics:
            for call in (
                lambda outcomes=outcomes: score_outcomes(metric, outcomes, resamples=9),
                lambda outcomes=outcomes: paired_difference(metric, outcomes, outcomes, resamples=9),
                lambda outcomes=outcomes: paired_test(metric, [outcomes], [outcomes], resamples=9, permutations=9),
                lambda outcomes=outcomes: cluster_interval(metric, outcomes, range(6), resamples=9),
            ):
                with pytest.raises(ValueError, match="outcomes have shape"):
                    call()
        else:
            outcomes.flat[3] = np.nan
            for call in (
                lambda outcomes=outcomes: score_outcomes(metric, outcomes, resamples=9),
                lambda outcomes=outcomes: paired_difference(metric, outcomes, outcomes, resamples=9),
            ):
                with pytest.raises(UndefinedMetricError, match=r"the outcome of sample \d is NaN"):
                    call()
    own = evaluate("accuracy", [0, 1, 1, 0], [0, 1, 0, 1], resamples=0).outcomes
    assert score_outcomes("accuracy", own).value == 0.5


def test_no_outcomes_have_no_difference() -> None:
    with pytest.raises(ValueError, match="there are no outcomes to score"):
        paired_difference("accuracy", np.empty(0), np.empty(0))


@pytest.mark.parametrize("seed", [-1, 2.5, True, "7"])
def test_seeds_that_are_none_are_refused_by_name(seed: Any) -> None:
    right = np.array([1.0, 0.0, 1.0, 1.0])
    for call in (
        lambda: evaluate("accuracy", [0, 1], [0, 1], seed=seed),
        lambda: by_class([0, 1], [0, 1], 2, seed=seed),
        lambda: paired_difference("accuracy", right, right, seed=seed),
        lambda: paired_test("accuracy", [right], [1 - right], seed=seed),
        lambda: worse_than_another("accuracy", [[right], [1 - right]], seed=seed),
        lambda: cluster_interval("accuracy", right, range(4), seed=seed),
        lambda: slice_scores("accuracy", right, list("abab"), seed=seed),
        lambda: power_of_outcomes("accuracy", [right], seed=seed),
        lambda: calibration_error([[0.5, 0.5]], [0], seed=seed),
    ):
        with pytest.raises(ValueError, match="seed is"):
            call()


def _of_few_groups(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and targets of three groups of 20, of which the last is predicted badly; and labels of the groups."""
    rng = np.random.default_rng(0)
    bad, noise = np.repeat([False, False, True], 20), 0.05 * rng.random(60)
    truth = np.arange(60) % 2
    guess = np.where(bad, 1 - truth, truth)
    if METRICS[name].outcomes is METRICS["miou"].outcomes or name == "miou_foreground":
        maps = np.stack([guess, guess], axis=1)[..., None].repeat(4, axis=2)
        return maps, np.stack([truth, truth], axis=1)[..., None].repeat(4, axis=2)
    if name in ("mae", "mse", "rmse", "r2", "spearman"):
        return guess + noise, truth.astype(float)
    if name == "acc@5":
        return np.eye(8)[guess] - np.arange(8), np.where(bad, 7, truth)
    if name in ("brier", "log_loss", "calibration_error"):
        wrong = np.clip(np.abs(guess - noise), 1e-3, 1 - 1e-3)
        return np.stack([1 - wrong, wrong, np.zeros(60)], axis=1), truth
    if METRICS[name].outcomes is METRICS["roc_auc"].outcomes:
        return guess + noise, truth
    return guess, truth


@pytest.mark.parametrize("name", METRICS)
def test_intervals_of_few_groups_stay_in_the_range_of_the_metric(name: str) -> None:
    """With 3 groups Student's quantile is 4.3: twice a wide spread would reach beyond any share."""
    outcomes = evaluate(name, *_of_few_groups(name), resamples=0).outcomes
    least, most = METRICS[name].within
    groups = np.repeat([0, 1, 2], 20)
    value, low, high = cluster_interval(name, outcomes, groups)
    assert least <= low <= value <= high <= most
    assert low < high
    parts = slice_scores(name, outcomes, np.tile(["a", "b"], 30), clusters=np.repeat(np.arange(10), 6), level=0.99999)
    ends = [end for row in parts.rows for end in (row.low, row.high)] + [parts.low, parts.high]
    assert all(least <= end <= most for end in ends if end is not None)


def test_the_range_of_a_metric_of_ones_own_can_be_given() -> None:
    shares, groups = np.repeat([1.0, 0.9, 0.1], 20), np.repeat([0, 1, 2], 20)
    _, low, high = cluster_interval("my score", shares, groups)
    assert low < 0
    assert high > 1
    assert cluster_interval("my score", shares, groups, within=(0.0, 1.0))[1:] == (0.0, 1.0)
    sides = [np.repeat([0.0, 1.0], 5)] * 2, [np.ones(10), np.repeat([0.0, 1.0], 5)]
    assert paired_test("accuracy", *sides).high == 1.0

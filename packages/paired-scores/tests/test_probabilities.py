"""Log-loss and calibration error, against scikit-learn's and slow definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paired_scores.metrics import METRICS, calibration_error, evaluate, paired_difference, reliability

sk = pytest.importorskip("sklearn.metrics")


def probabilities(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(k), n), generator.integers(0, k, n)


def slow_error(confidence: list[float], right: list[float], bins: int = 15) -> float:
    """Bins of equal mass, samples of one confidence in the bin of their middle."""
    order = sorted(range(len(confidence)), key=lambda i: confidence[i])
    total, bins = len(order), min(bins, len(order))
    groups: dict[int, list[int]] = {}
    for i in order:
        tied = [place for place, j in enumerate(order) if confidence[j] == confidence[i]]
        middle = (tied[0] + tied[-1] + 1) / 2 / total
        groups.setdefault(min(int(bins * middle), bins - 1), []).append(i)
    return sum(abs(sum(right[i] - confidence[i] for i in group)) for group in groups.values()) / total


@pytest.mark.parametrize(("n", "k"), [(1, 3), (7, 2), (60, 5), (400, 10)])
def test_log_loss_is_scikit_learns(n: int, k: int) -> None:
    p, y = probabilities(n, k)
    assert evaluate("log_loss", p, y).value == pytest.approx(sk.log_loss(y, p, labels=range(k)))
    assert METRICS["log_loss"].chance(y, k) == pytest.approx(evaluate("log_loss", np.full((n, k), 1 / k), y).value)


def test_blind_log_loss_of_labels_is_that_of_even_odds() -> None:
    chance = METRICS["log_loss"].chance
    for targets, classes in ((np.zeros((4, 3)), 3), (np.zeros(4, dtype=int), 1), (np.zeros(4, dtype=int), 2)):
        assert chance(targets, classes) == pytest.approx(math.log(2))


def test_log_loss_of_labels_and_of_a_certain_mistake() -> None:
    generator = np.random.default_rng(0)
    p, y = generator.random((40, 3)), generator.integers(0, 2, (40, 3))
    expected = np.mean([sk.log_loss(y[:, j], p[:, j], labels=[0, 1]) for j in range(3)])
    assert evaluate("log_loss", p, y).value == pytest.approx(expected)
    assert evaluate("log_loss", np.array([[1.0, 0.0]]), [1]).value == pytest.approx(-math.log(1e-15))


@pytest.mark.parametrize(("n", "k"), [(1, 3), (7, 2), (60, 5), (400, 10)])
@pytest.mark.parametrize("digits", [1, 6])
def test_calibration_error_is_its_slow_definition(n: int, k: int, digits: int) -> None:
    p, y = probabilities(n, k)
    p = p.round(digits)  # one digit makes ties
    p = p / p.sum(1, keepdims=True)
    expected = slow_error(p.max(1).tolist(), (p.argmax(1) == y).astype(float).tolist())
    assert evaluate("calibration_error", p, y).value == pytest.approx(expected, abs=1e-12)
    order = np.random.default_rng(1).permutation(n)
    assert evaluate("calibration_error", p[order], y[order]).value == pytest.approx(expected, abs=1e-12)


def test_calibration_error_of_two_classes_by_one_column() -> None:
    p, y = probabilities(50, 2)
    assert evaluate("calibration_error", p[:, 1], y).value == evaluate("calibration_error", p, y).value


def test_right_probabilities_have_a_small_error_and_sharper_ones_a_large_one() -> None:
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(5, 0.5), 20_000)
    y = (p.cumsum(1) < generator.random((20_000, 1))).sum(1)
    sharp = p**3 / (p**3).sum(1, keepdims=True)
    right, wrong = (evaluate("calibration_error", rows, y, resamples=200) for rows in (p, sharp))
    assert right.value < 0.015
    assert wrong.value > 0.1
    assert right.high < wrong.low
    assert right.low <= right.value  # every resample's is larger
    difference = paired_difference("calibration_error", wrong.outcomes, right.outcomes, resamples=200)
    assert difference.high < -0.1


def test_bins_of_a_reliability_diagram() -> None:
    p, y = probabilities(300, 4)
    bins = reliability(p, y)
    assert [row.samples for row in bins] == [20] * 15
    assert [row.confidence for row in bins] == sorted(row.confidence for row in bins)
    error = sum(row.samples * abs(row.accuracy - row.confidence) for row in bins) / 300
    assert error == pytest.approx(evaluate("calibration_error", p, y).value)
    assert all(row.low <= row.accuracy <= row.high for row in bins)
    assert len(reliability(p[:3], y[:3])) == 3


def drawn(n: int, times: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are sharpened so many times, and classes."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(5, 0.7), n)
    y = (p.cumsum(1) < generator.random((n, 1))).sum(1).clip(max=4)
    return p**times / (p**times).sum(1, keepdims=True), y


def test_the_floor_is_what_right_probabilities_score() -> None:
    errors = [calibration_error(*drawn(300, 1.0, seed)) for seed in range(60)]
    values = np.array([error.value for error in errors])
    assert values.mean() > 0.05  # although every probability is right
    assert np.mean([error.floor for error in errors]) == pytest.approx(values.mean(), rel=0.06)
    assert np.mean([error.value > error.floor_high for error in errors]) < 0.15
    assert errors[0].value == pytest.approx(evaluate("calibration_error", *drawn(300, 1.0, 0), resamples=0).value)


def means_and_truth(times: float) -> tuple[float, float, float]:
    """Mean plain and debiased errors of 300 samples, and the error of many."""
    truth = calibration_error(*drawn(200_000, times, 99), draws=2).value
    errors = [calibration_error(*drawn(300, times, seed), draws=2) for seed in range(60)]
    plain, debiased = (float(np.mean([getattr(error, name) for error in errors])) for name in ("value", "debiased"))
    return plain, debiased, truth


@pytest.mark.parametrize("times", [1.0, 1.6])
def test_a_debiased_error_is_nearer_to_that_of_many_samples(times: float) -> None:
    plain, debiased, truth = means_and_truth(times)
    assert plain > truth + 0.01
    assert abs(debiased - truth) < 0.7 * abs(plain - truth)  # a third of the bias at least, where it takes some 40 %


def test_debiasing_costs_little_where_every_bin_errs_on_one_side() -> None:
    plain, debiased, truth = means_and_truth(3.0)
    assert plain == pytest.approx(truth, abs=0.002)  # there is no bias to take away
    assert debiased == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_floor_of_few_samples_is_finite(n: int) -> None:
    error = calibration_error(*drawn(n, 1.0, 3))
    assert np.isfinite(error).all()
    assert error.floor <= error.floor_high


@pytest.mark.parametrize(
    ("name", "predictions", "targets", "message"),
    [
        ("log_loss", [[2.0, -1.0]], [0], "expected probabilities, got 2.0"),
        ("calibration_error", [[2.0, -1.0]], [0], "expected probabilities, got 2.0"),
        ("calibration_error", [[0.2, 0.9]], [[0, 1]], "one class per sample"),
        ("log_loss", [[0.5, 0.5]], [2], "target 2 of sample 0"),
    ],
)
def test_bad_probabilities_are_named(name: str, predictions: list, targets: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(name, np.array(predictions), np.array(targets))
    with pytest.raises(ValueError, match="3 predictions and 2 targets"):
        reliability(np.full((3, 2), 0.5), [0, 1])


@pytest.mark.parametrize("name", ["log_loss", "calibration_error"])
def test_probabilities_of_classes_that_do_not_sum_to_1_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"sample 1: the probabilities of its 2 classes sum to 0\.2, expected 1"):
        evaluate(name, np.array([[0.5, 0.5], [0.1, 0.1]]), [1, 1])
    halves = np.random.default_rng(0).dirichlet(np.ones(1000), 20).astype(np.float16)
    assert np.isfinite(evaluate(name, halves, np.arange(20), resamples=0).value)

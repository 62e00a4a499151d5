"""Samples that belong together, and McNemar's test: against loops over every exchange."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paired_scores import mcnemar, paired_test
from paired_scores.clusters import median_interval, weighted_median


def _every_exchange_of_clusters(first: np.ndarray, second: np.ndarray, labels: list[str]) -> float:
    """The share of all exchanges of whole clusters with a difference as large as observed."""
    names, observed, reached = sorted(set(labels)), abs(float(np.mean(second - first))), 0
    for swapped in itertools.product((False, True), repeat=len(names)):
        exchanged = {name for name, swap in zip(names, swapped, strict=True) if swap}
        total = 0.0
        for a, b, label in zip(first, second, labels, strict=True):
            total += a - b if label in exchanged else b - a
        reached += abs(total / len(first)) >= observed - 1e-12
    return reached / 2 ** len(names)


@pytest.mark.parametrize("seed", range(4))
def test_whole_clusters_are_exchanged(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [f"document {k}" for k in rng.integers(0, 7, 40)]
    first, second = rng.random((2, 40)).round(1)
    test = paired_test("accuracy", [first], [second], clusters=labels)
    assert test.p_permutation == pytest.approx(_every_exchange_of_clusters(first, second, labels))
    assert test.clusters == len(set(labels))
    assert test.samples == 40


def test_the_interval_is_that_of_resampled_clusters() -> None:
    rng = np.random.default_rng(0)
    at = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    first, second = rng.random((2, len(at)))
    test = paired_test("accuracy", [first], [second], clusters=[int(k) for k in at], resamples=4000)
    drawn = []
    for row in np.random.default_rng(1).integers(0, 12, (4000, 12)):
        picked = np.concatenate([np.flatnonzero(at == k) for k in row])
        drawn.append(float(np.mean(second[picked] - first[picked])))
    low, high = np.quantile(drawn, [0.025, 0.975])
    width = high - low
    assert abs(test.low - low) < 0.06 * width
    assert abs(test.high - high) < 0.06 * width


def test_clusters_that_agree_within_widen_the_interval_as_far_as_one_sample_each() -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.random((2, 60)) < 0.5).astype(float)
    alone = paired_test("accuracy", [first], [second])
    repeated = paired_test(
        "accuracy", [np.repeat(first, 5)], [np.repeat(second, 5)], clusters=list(np.repeat(range(60), 5))
    )
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high))
    assert repeated.p_permutation == pytest.approx(alone.p_permutation)
    as_if_alone = paired_test("accuracy", [np.repeat(first, 5)], [np.repeat(second, 5)])
    assert as_if_alone.high - as_if_alone.low < 0.6 * (alone.high - alone.low)


def test_clusters_of_one_sample_change_nothing() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 50))
    plain, single = (paired_test("mae", [first], [second], clusters=labels) for labels in (None, list(range(50))))
    assert plain.p_permutation == single.p_permutation
    assert (plain.low, plain.high) == pytest.approx((single.low, single.high))


def test_clusters_of_a_metric_that_is_no_mean() -> None:
    rng = np.random.default_rng(0)
    labels = list(np.repeat(np.arange(10), 6))
    truths = rng.integers(0, 2, 60).astype(float)
    first, second = (np.stack([rng.random((60, 1)), truths[:, None]], axis=1) for _ in range(2))
    clustered = paired_test("roc_auc", [first], [second], clusters=labels)
    assert clustered.low < clustered.difference < clustered.high
    assert clustered.p_permutation * 2**10 == pytest.approx(round(clustered.p_permutation * 2**10))


def test_samples_without_an_outcome_take_their_cluster_along() -> None:
    first, second = [1.0, np.nan, 0.0, 1.0], [0.0, np.nan, 1.0, 1.0]
    assert paired_test("accuracy", [first], [second], clusters=["a", "b", "c", "c"]).clusters == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["a", "b"], "2 labels for 3 samples"), (["a", "a", "a"], "all 3 samples are of 'a'")],
)
def test_clusters_that_cannot_be_tested_are_refused(labels: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_test("accuracy", [[1.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]], clusters=labels)


@pytest.mark.parametrize("seed", range(4))
def test_mcnemar_is_the_paired_test_of_every_exchange(seed: int) -> None:
    first, second = (np.random.default_rng(seed).random((2, 12)) < 0.5).astype(float)
    assert mcnemar(first, second).p == pytest.approx(paired_test("accuracy", [first], [second]).p_permutation)


def test_mcnemar_counts_each_side() -> None:
    assert mcnemar([True, True, False], [False, True, False]) == mcnemar([1, 1, 0], [0, 1, 0])
    result = mcnemar([1, 1, 0], [0, 1, 0])
    assert (result.first_only, result.second_only, result.p) == (1, 0, 1.0)
    assert mcnemar([1, 0], [1, 0]).p == 1.0


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 0], [1], "shapes"),
        ([], [], "at least 1"),
        ([1, 0.5], [1, 0], "first: sample 1 has 0.5"),
        ([1, 0], [np.nan, 0], "second: sample 0"),
    ],
)
def test_mcnemar_refuses_what_is_not_right_or_wrong(first: list[float], second: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mcnemar(first, second)


def test_a_weighted_median_is_that_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 7, 20):
        values, weights = rng.integers(0, 9, count).astype(float), rng.integers(0, 4, (30, count)).astype(float)
        weights[0] = 0
        medians = weighted_median(values, weights)
        assert np.isnan(medians[0])
        for row, median in zip(weights[1:], medians[1:], strict=True):
            repeated = np.repeat(values, row.astype(int))
            assert (len(repeated) == 0 and np.isnan(median)) or median == np.median(repeated)


def test_the_interval_of_a_median_draws_whole_clusters() -> None:
    """Five equal values of each image say no more than one of each."""
    rng = np.random.default_rng(1)
    values = rng.geometric(0.2, 30).astype(float)
    single = median_interval(values, list(range(30)))
    five = median_interval(np.repeat(values, 5), np.repeat(np.arange(30), 5).tolist())
    assert single == five
    drawn = [np.median(values[rng.integers(0, 30, 30)]) for _ in range(4000)]
    assert single[1:] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=1)
    with pytest.raises(ValueError, match="finite"):
        median_interval(np.array([1.0, np.inf]), [0, 1])

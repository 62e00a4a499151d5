"""Slices of a test set and intervals over clusters: coverage, levels, and what has no interval."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from paired_scores.best import worse_than_another
from paired_scores.clusters import cluster_interval
from paired_scores.metrics import wilson
from paired_scores.paired import holm
from paired_scores.slices import slice_scores

SIZES = (60, 90, 120, 150)
LABELS = np.repeat(["a", "b", "c", "d"], SIZES)


def drawn(rng: np.random.Generator, *truths: float) -> np.ndarray:
    return (rng.random(len(LABELS)) < np.repeat(truths, SIZES)).astype(float)


@pytest.mark.parametrize("truths", [(0.8,) * 4, (0.6, 0.8, 0.8, 0.8), (0.6, 0.65, 0.7, 0.9)])
def test_the_worst_slices_interval_covers_although_it_was_chosen(truths: tuple[float, ...]) -> None:
    rng, hits, draws = np.random.default_rng(0), 0, 150
    for seed in range(draws):
        parts = slice_scores("acc@1", drawn(rng, *truths), LABELS, permutations=1, seed=seed)
        assert parts.low is not None
        assert parts.high is not None
        hits += parts.low <= truths["abcd".index(parts.worst)] <= parts.high
    assert 0.91 <= hits / draws <= 0.985


def test_a_clear_difference_is_significant_and_the_gap_is_that_of_the_values() -> None:
    parts = slice_scores("acc@1", drawn(np.random.default_rng(1), 0.4, 0.9, 0.9, 0.9), LABELS)
    rows = {row.name: row for row in parts.rows}
    assert parts.worst == "a"
    assert rows["a"].p_adjusted == pytest.approx(4 * 0.0005)
    values = [row.value for row in parts.rows if row.value is not None]
    assert parts.gap == pytest.approx(max(values) - min(values))
    assert parts.p_gap == pytest.approx(0.0005)


@pytest.mark.parametrize("clusters", [None, np.arange(len(LABELS))])
def test_slices_without_a_difference_tie_with_every_exchange(clusters: np.ndarray | None) -> None:
    parts = slice_scores("acc@1", np.ones(len(LABELS)), LABELS, clusters=clusters, permutations=99)
    assert parts.p_gap == 1.0
    assert [row.p for row in parts.rows] == [1.0] * 4


def test_two_slices_are_one_comparison_and_three_are_corrected() -> None:
    for names in ("ab", "abc"):
        chosen = np.isin(LABELS, list(names))
        rows = slice_scores("acc@1", drawn(np.random.default_rng(5), 0.7, 0.8, 0.8, 0.8)[chosen], LABELS[chosen]).rows
        p = [float(row.p or 0.0) for row in rows]
        assert [row.p_adjusted for row in rows] == (p if names == "ab" else holm(p))
        assert max(p) < 0.5 or names == "abc"


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_clusters_of_one_sample_have_the_worst_slices_interval_of_samples(
    direction: Literal["higher", "lower"],
) -> None:
    outcomes = drawn(np.random.default_rng(0), 0.6, 0.8, 0.85, 0.9)
    alone = slice_scores("acc@1", outcomes, LABELS, direction=direction, permutations=1)
    clustered = slice_scores(
        "acc@1", outcomes, LABELS, direction=direction, permutations=1, clusters=np.arange(len(LABELS))
    )
    assert (clustered.low, clustered.high) == pytest.approx((alone.low, alone.high), abs=0.03)


def test_a_statistic_of_ones_own_is_not_taken_for_a_mean() -> None:
    residuals = np.random.default_rng(0).normal(size=len(LABELS))

    def squared(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:  # a plain mean on zeros and ones
        return np.asarray(weights @ np.square(errors) / weights.sum(axis=1))

    own = slice_scores("own", residuals, LABELS, direction="lower", statistic=squared, permutations=99)
    plain = slice_scores("mse", np.square(residuals), LABELS, permutations=99)
    assert [row.value for row in own.rows] == pytest.approx([row.value for row in plain.rows])
    assert [row.p for row in own.rows] == pytest.approx([row.p for row in plain.rows])
    assert (own.worst, own.low, own.high) == pytest.approx((plain.worst, plain.low, plain.high))


@pytest.mark.parametrize("clusters", [None, np.arange(len(LABELS)) // 5])
def test_shares_in_per_cent_have_intervals_in_per_cent(clusters: np.ndarray | None) -> None:
    hits = drawn(np.random.default_rng(1), 0.6, 0.8, 0.85, 0.9)

    def per_cent(outcomes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(100 * (weights @ outcomes) / weights.sum(axis=1))

    parts = slice_scores("own", hits, LABELS, statistic=per_cent, clusters=clusters, permutations=9)
    shares = slice_scores("acc@1", hits, LABELS, clusters=clusters, permutations=9)
    for ours, share in zip(parts.rows, shares.rows, strict=True):
        assert [ours.value, ours.low, ours.high] == pytest.approx(
            [100 * (end or 0.0) for end in (share.value, share.low, share.high)], abs=6
        )
    assert [parts.low, parts.high] == pytest.approx([100 * (shares.low or 0), 100 * (shares.high or 0)], abs=6)


def test_roots_of_errors_of_0_and_1_are_not_shares() -> None:
    errors = drawn(np.random.default_rng(2), 0.5, 0.1, 0.1, 0.1)
    root = slice_scores("rmse", errors, LABELS, permutations=9)
    mean = slice_scores("mse", errors, LABELS, permutations=9)
    assert root.worst == mean.worst == "a"
    assert [root.low, root.high] == pytest.approx([(mean.low or 0.0) ** 0.5, (mean.high or 0.0) ** 0.5], abs=0.02)


def test_errors_are_worst_where_they_are_largest() -> None:
    rng = np.random.default_rng(0)
    errors = rng.gamma(2.0, np.where(LABELS == "c", 2.0, 1.0))
    parts = slice_scores("mae", errors, LABELS, direction="lower", permutations=199)
    assert parts.worst == "c"
    assert parts.low is not None
    assert parts.high is not None
    assert parts.low < 4 < parts.high


def test_any_metric_is_scored_by_slice() -> None:
    rng = np.random.default_rng(0)
    scores, truths = rng.random((len(LABELS), 1)), rng.integers(0, 2, (len(LABELS), 1))
    outcomes = np.stack([scores, truths], axis=1).astype(float)
    parts = slice_scores("roc_auc", outcomes, LABELS, permutations=20, resamples=100)
    assert [0 < (row.value or 0) < 1 for row in parts.rows] == [True] * 4


def test_a_slice_of_one_image_has_a_value_and_no_test() -> None:
    parts = slice_scores("acc@1", np.array([1.0] * 30 + [0.0]), ["many"] * 30 + ["single"])
    (many, single) = parts.rows
    assert (single.value, single.samples, single.p) == (0.0, 1, None)
    assert (parts.worst, parts.low, many.p) == ("", None, None)


def test_whole_clusters_are_exchanged_where_each_is_in_one_slice() -> None:
    """Two slices of eight cameras whose accuracies differ by chance: samples alone would call that significant."""
    rng, plain, clustered = np.random.default_rng(3), 0, 0
    for seed in range(40):
        cameras = np.repeat(np.arange(16), 40)
        right = (rng.random(640) < np.repeat(rng.beta(4, 2, 16), 40)).astype(float)
        sites = np.where(cameras < 8, "north", "south")
        plain += (slice_scores("acc@1", right, sites, permutations=99, seed=seed).rows[0].p or 1) <= 0.05
        parts = slice_scores("acc@1", right, sites, clusters=cameras.tolist(), permutations=99, seed=seed)
        clustered += (parts.rows[0].p or 1) <= 0.05
    assert plain > 8
    assert clustered <= 5


def test_cluster_intervals_cover_where_plain_ones_do_not() -> None:
    rng, clustered, plain, draws = np.random.default_rng(0), 0, 0, 200
    for seed in range(draws):
        shares = 1 / (1 + np.exp(-(1.2 + 0.6 * rng.normal(size=20))))
        right = (rng.random(500) < np.repeat(shares, 25)).astype(float)
        value, low, high = cluster_interval(
            "acc@1", right, np.repeat(np.arange(20), 25).tolist(), resamples=300, seed=seed
        )
        clustered += low <= 0.7529 <= high  # the mean of such shares
        low, high = wilson(value, 500)
        plain += low <= 0.7529 <= high
    assert 0.91 <= clustered / draws <= 0.985
    assert plain / draws < 0.85


def test_clusters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="3 labels for 4 samples"):
        cluster_interval("acc@1", np.ones(4), [1, 2, 3])
    with pytest.raises(ValueError, match=r"clusters: all 4 samples are of .*; expected at least 2"):
        cluster_interval("acc@1", np.ones(4), [1] * 4)
    with pytest.raises(ValueError, match="slices: 3 labels for 4 samples"):
        slice_scores("acc@1", np.ones(4), ["a"] * 3)
    assert cluster_interval("acc@1", np.ones(4), [1, 1, 2, 2])[2] == 1.0


def test_a_metric_of_which_lower_is_better_needs_no_direction() -> None:
    """The slice with the smallest error was called the worst one, and the model with the greatest the best."""
    errors = np.repeat([1.0, 3.0], 50) + np.tile([0.0, 0.1], 50)
    assert slice_scores("mae", errors, ["near"] * 50 + ["far"] * 50, permutations=99).worst == "far"
    assert slice_scores("mine", errors, ["near"] * 50 + ["far"] * 50, permutations=99).worst == "near"
    models = [[errors], [errors + 1]]
    assert worse_than_another("mae", models) == worse_than_another("mae", models, direction="lower")
    assert worse_than_another("mae", models)[1] < 0.05


@pytest.mark.parametrize("given", [{"level": 95}, {"level": 0}, {"resamples": 0}, {"permutations": 0}])
def test_slices_refuse_numbers_that_give_intervals_of_nothing(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(given))} is \d+; expected a"):
        slice_scores("acc@1", np.tile([1.0, 0.0], 20), ["a", "b"] * 20, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second"), [(1, "1"), (None, "None"), (float("nan"), "nan"), (1, True), (1, 1.0), (0.0, -0.0)]
)
def test_labels_that_a_reader_cannot_tell_are_no_two_slices(first: object, second: object) -> None:
    """1 and "1" were one slice of both, 1 and True two slices of one value."""
    with pytest.raises(ValueError, match=r"both called|in two forms"):
        slice_scores("acc@1", np.tile([1.0, 0.0], 20), [first, second] * 20, permutations=9)


def test_samples_without_an_outcome_count_in_no_slice_of_any_metric() -> None:
    outcomes = np.random.default_rng(0).random(40).round()
    outcomes[3] = np.nan
    for metric in ("acc@1", "mae", "mine", "rmse"):
        rows = slice_scores(metric, outcomes, ["a", "b"] * 20, permutations=9).rows
        mean = float(np.nanmean(outcomes[1::2]))
        assert rows[1].value == pytest.approx(mean**0.5 if metric == "rmse" else mean)
        value, low, high = cluster_interval(metric, outcomes, np.repeat(np.arange(10), 4), resamples=99)
        mean = float(np.nanmean(outcomes))
        assert value == pytest.approx(mean**0.5 if metric == "rmse" else mean)
        assert low < value < high
    outcomes[3] = np.inf
    for call in (
        lambda: slice_scores("mine", outcomes, ["a", "b"] * 20, permutations=9),
        lambda: cluster_interval("mine", outcomes, np.repeat(np.arange(10), 4)),
    ):
        with pytest.raises(ValueError, match="sample 3 has the outcome inf; expected a finite number"):
            call()

"""The paired test against definitions that try every exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from paired_scores.best import worse_than_another
from paired_scores.paired import benjamini_hochberg, holm, paired_test
from paired_scores.power import power_of_outcomes, samples_needed
from paired_scores.slices import slice_scores

from . import _exchanges as reference


def counts(rng: np.random.Generator, samples: int, classes: int, beside: np.ndarray | None = None) -> np.ndarray:
    """Counts of one model, or of another on the same images."""
    true = rng.integers(0, 9, (samples, classes)) * (rng.random((samples, classes)) < 0.6)
    true = true if beside is None else beside[:, 2].astype(int)
    predicted = rng.integers(0, 9, (samples, classes)) * (rng.random((samples, classes)) < 0.6)
    return np.stack([rng.binomial(np.minimum(true, predicted), 0.7), predicted, true], axis=1).astype(float)


@pytest.mark.parametrize("samples", [2, 3, 7, 11])
def test_means_agree_with_every_exchange(samples: int) -> None:
    rng = np.random.default_rng(samples)
    first, second = rng.random(samples), rng.random(samples) + 0.2
    test = paired_test("mae", [first], [second])
    assert test.p_permutation == reference.exact_permutation_p(lambda o: float(o.mean()), first, second)
    assert test.difference == pytest.approx(second.mean() - first.mean(), abs=1e-15)
    assert test.samples == samples


def test_roots_of_mean_squares_agree_with_every_exchange() -> None:
    rng = np.random.default_rng(0)
    first, second = np.square(rng.normal(size=9) * 4), np.square(rng.normal(size=9) * 3)

    def root(outcomes: np.ndarray) -> float:
        return float(np.sqrt(outcomes.mean()))

    test = paired_test("rmse", [first], [second])
    assert test.difference == pytest.approx(root(second) - root(first), abs=1e-12)
    assert test.difference == pytest.approx(test.second - test.first, abs=1e-12)
    assert test.low <= test.difference <= test.high
    assert test.p_permutation == reference.exact_permutation_p(root, first, second)


def test_many_models_are_compared_by_roots_of_mean_squares() -> None:
    rng = np.random.default_rng(7)
    models = [[np.square(rng.normal(size=12) * scale)] for scale in (1.0, 1.4, 2.5)]

    def root(outcomes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(weights @ outcomes / weights.sum(axis=1)))

    named, own = (
        worse_than_another("rmse", models, permutations=199),
        worse_than_another("own", models, permutations=199, direction="lower", statistic=root),
    )
    assert named == pytest.approx(own)


@pytest.mark.parametrize("seed", range(3))
def test_masks_agree_with_every_exchange(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = counts(rng, 7, 4)
    second = counts(rng, 7, 4, beside=first)
    test = paired_test("miou", [first], [second])
    assert test.p_permutation == reference.exact_permutation_p(reference.mean_iou, first, second)
    assert test.first == pytest.approx(reference.mean_iou(first), abs=1e-12)
    assert test.difference == pytest.approx(reference.mean_iou(second) - reference.mean_iou(first), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_rankings_agree_with_every_exchange_of_ranks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.array([1, 0, 1, 0, 0, 1, 0, 1, 1.0])[:, None]
    first, second = (np.stack([rng.integers(0, 6, (9, 1)).astype(float), truth], axis=1) for _ in range(2))
    ranked = []
    for pairs in (first, second):
        own = pairs.copy()
        for row in range(9):
            own[row, 0, 0] = (pairs[:, 0, 0] < pairs[row, 0, 0]).sum() + (pairs[:, 0, 0] == pairs[row, 0, 0]).sum() / 2
        ranked.append(own)
    expected = reference.exact_permutation_p(reference.area_under_curve, ranked[0], ranked[1])
    test = paired_test("roc_auc", [first], [second])
    assert test.p_permutation == expected
    gap = reference.area_under_curve(second) - reference.area_under_curve(first)
    assert test.difference == pytest.approx(gap, abs=1e-12)


def test_the_scale_of_scores_does_not_matter_for_rankings() -> None:
    rng = np.random.default_rng(5)
    truth = (rng.random((80, 2)) < 0.5).astype(float)
    first, second = (np.stack([truth + rng.normal(0, 1, (80, 2)), truth], axis=1) for _ in range(2))
    stretched = second * np.array([50.0, 1.0])[:, None] + np.array([3.0, 0.0])[:, None]
    assert paired_test("roc_auc", [first], [stretched], permutations=99) == paired_test(
        "roc_auc", [first], [second], permutations=99
    )


def test_interval_of_a_mean_is_that_of_its_paired_differences() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(0, 5, 900)
    second = first + rng.normal(0.3, 1.0, 900)
    test = paired_test("mse", [first], [second], resamples=4000)
    difference = second - first
    half = 1.96 * difference.std() / np.sqrt(900)
    assert test.low == pytest.approx(difference.mean() - half, abs=0.1 * half)
    assert test.high == pytest.approx(difference.mean() + half, abs=0.1 * half)
    assert test.effect == pytest.approx(difference.mean() / difference.std(), rel=0.05)
    assert test.p_permutation == 1e-4


def test_exchanging_the_models_changes_the_sign_only() -> None:
    rng = np.random.default_rng(3)
    first = counts(rng, 30, 5)
    second = counts(rng, 30, 5, beside=first)
    forward, back = (paired_test("dice", [a], [b]) for a, b in ((first, second), (second, first)))
    assert forward.difference == -back.difference
    assert (forward.low, forward.high) == pytest.approx((-back.high, -back.low), abs=1e-12)
    assert forward.p_permutation == back.p_permutation


def test_a_class_that_one_model_never_predicts() -> None:
    rng = np.random.default_rng(4)
    first = counts(rng, 8, 4)
    first[:, :, 3] = 0
    wide, narrow = (
        paired_test("miou", [tallies], [counts(rng, 8, 4) * 0 + first]) for tallies in (first, first[:, :, :3])
    )
    assert narrow == wide


def test_seeds_are_averaged() -> None:
    first = [np.array([0.0, 1, 0, 1, 0]), np.array([1.0, 1, 0, 0, 0])]
    second = [np.array([1.0, 1, 0, 1, 1]), np.array([1.0, 1, 1, 0, 0])]
    test = paired_test("accuracy", first, second)
    joined = paired_test("accuracy", [np.mean(first, axis=0)], [np.mean(second, axis=0)])
    assert test.by_seed == pytest.approx((0.4, 0.2), abs=1e-15)
    assert test.difference == pytest.approx(joined.difference, abs=1e-15)
    assert test.p_permutation == joined.p_permutation


def test_seeds_widen_the_interval_by_what_they_vary() -> None:
    rng = np.random.default_rng(0)
    first = [rng.random(900) for _ in range(3)]
    alike = [errors + 0.1 for errors in first]
    apart = [errors + shift for errors, shift in zip(first, (0.02, 0.1, 0.18), strict=True)]
    narrow, wide = (paired_test("mae", first, second) for second in (alike, apart))
    assert narrow.difference == pytest.approx(wide.difference)
    assert (narrow.low, narrow.high) == pytest.approx((0.1, 0.1))
    # the seeds alone: a spread of 0.08 over three, two degrees of freedom
    assert wide.high - wide.difference == pytest.approx(4.303 * 0.08 / 3**0.5, rel=1e-3)
    assert narrow.p < 0.001 < 0.05 < wide.p
    assert wide.p_seeds == pytest.approx(2 * student.sf(0.1 / (0.08 / 3**0.5), 2), rel=1e-6)


def test_equal_outcomes_differ_in_nothing() -> None:
    same = np.array([0.0, 1, 1, 0])
    test = paired_test("acc@1", [same], [same.copy()])
    assert (test.difference, test.low, test.high, test.effect) == (0, 0, 0, None)
    assert (test.p_permutation, test.p_bootstrap) == (1, 1)


def test_more_permutations_where_none_reaches() -> None:
    first, second = np.zeros(200), np.ones(200)
    assert paired_test("mae", [first], [second], permutations=99).p_permutation == 0.01
    assert paired_test("mae", [first], [second], permutations=99, most=999).p_permutation == 0.001
    rng = np.random.default_rng(0)
    first, second = rng.random(200), rng.random(200)
    assert paired_test("mae", [first], [second], permutations=99, most=9999).p_permutation > 0.01


@pytest.mark.parametrize(("seed", "values"), [(0, [0.01, 0.02, 0.03]), (1, [0.2]), (2, [0.5, 0.5, 0.04, 0.001])])
def test_holm_agrees_with_its_step_down_definition(seed: int, values: list[float]) -> None:
    adjusted = holm(values)
    for alpha in np.linspace(0.001, 0.999, 200):
        rejected: set[int] = set()
        for rank, index in enumerate(np.argsort(values, kind="stable")):
            if values[index] > alpha / (len(values) - rank):
                break
            rejected.add(int(index))
        assert rejected == {index for index, p in enumerate(adjusted) if p <= alpha}, seed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("acc@1", [np.ones(3)], [np.ones(4)]), r"\[3, 4\] outcomes"),
        (("acc@1", [np.ones(3)], []), "1 seeds of the first model and 0"),
        (("acc@1", [np.ones(0)], [np.ones(0)]), r"\[0\] outcomes"),
        (("mine", [np.ones((3, 2))], [np.ones((3, 2))]), "metric 'mine' is unknown"),
    ],
)
def test_what_cannot_be_paired_is_refused(
    arguments: tuple[str, list[np.ndarray], list[np.ndarray]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        paired_test(*arguments)


def test_corrections_leave_out_what_has_no_p_value_and_count_it() -> None:
    assert holm([0.01, float("nan"), 0.03])[::2] == pytest.approx([0.03, 0.06])
    assert np.isnan(holm([0.01, float("nan"), 0.03])[1])
    assert benjamini_hochberg([0.01, float("nan"), 0.03])[::2] == pytest.approx([0.03, 0.045])
    assert np.isnan(benjamini_hochberg([float("nan")])[0])
    assert holm([]) == benjamini_hochberg([]) == []
    for correct in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match=r"p value 1 is 1.5; expected a number in \[0, 1\]"):
            correct([0.1, 1.5])


@pytest.mark.parametrize("count", [2, 7, 40])
def test_the_false_discovery_rate_is_scipys(count: int) -> None:
    from scipy.stats import false_discovery_control

    values = np.random.default_rng(count).random(count) ** 3
    values[: count // 3] = values[0]  # ties
    assert benjamini_hochberg(values.tolist()) == pytest.approx(false_discovery_control(values).tolist())


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0], [0.0], "1 samples with outcomes of 1; a test needs at least 2"),
        ([np.nan] * 5, [np.nan] * 5, "0 samples with outcomes of 5"),
        ([1.0, np.nan, 0.0], [1.0, np.nan, np.nan], "sample 2 is NaN in one outcome and a number in another"),
        ([1.0, np.inf, 0.0], [1.0, 1.0, 1.0], "sample 1 has the outcome inf; expected a finite number"),
    ],
)
def test_what_no_test_can_be_made_of_is_refused(first: list[float], second: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_test("acc@1", [np.array(first)], [np.array(second)])


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.float16, list])
def test_outcomes_of_every_type_give_the_same_test(kind: type) -> None:
    first, second = (np.random.default_rng(k).random(60) < 0.5 + k / 10 for k in range(2))
    expected = paired_test("acc@1", [first.astype(float)], [second.astype(float)])
    held = [outcomes.tolist() if kind is list else outcomes.astype(kind) for outcomes in (first, second)]
    assert paired_test("acc@1", [held[0]], [held[1]]) == expected
    power = power_of_outcomes("acc@1", [first.astype(float)], [second.astype(float)])
    assert power_of_outcomes("acc@1", [held[0]], [held[1]]) == power
    models = [[held[0]], [held[1]], [held[0]]]
    floats = [[np.asarray(outcomes, float) for outcomes in seeds] for seeds in models]
    assert worse_than_another("acc@1", models) == worse_than_another("acc@1", floats)


def test_outcomes_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="acc@1: expected numbers, got <U5, such as right"):
        paired_test("acc@1", [np.array(["right", "wrong"])], [np.array(["right", "right"])])


def test_power_takes_the_samples_and_seeds_that_both_models_have() -> None:
    first, second = np.random.default_rng(0).random((2, 50))
    plain = power_of_outcomes("mae", [first], [second])
    padded = [np.append(side, [np.nan] * 5) for side in (first, second)]
    assert power_of_outcomes("mae", [padded[0]], [padded[1]]) == plain
    for arguments, message in (
        (([first], [second, first]), r"\[1, 2\] seeds of the models; expected the same"),
        (([first], [second[:40]]), r"mae: \[40, 50\] outcomes; expected the same number of samples"),
        (([first], [np.where(first > 0.9, np.nan, second)]), "is NaN in one outcome and a number in another"),
        (([np.full(3, np.nan)],), "none of 3 samples has an outcome"),
    ):
        with pytest.raises(ValueError, match=message):
            power_of_outcomes("mae", *arguments)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "bool"])
def test_outcomes_may_be_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    first, second = (np.random.default_rng(k).random(60) < 0.5 + k / 10 for k in range(2))
    tensors = [torch.tensor(side).to(getattr(torch, dtype)) for side in (first, second)]
    if dtype == "float32":
        tensors[0].requires_grad_()
    expected = paired_test("acc@1", [first.astype(float)], [second.astype(float)])
    assert paired_test("acc@1", [tensors[0]], [tensors[1]]) == expected


def test_power_is_that_of_both_tails() -> None:
    first, second = np.random.default_rng(0).random((2, 50))
    for difference in (0.001, 0.02, 0.3):
        power = power_of_outcomes("mae", [first], [second], difference=difference, alpha=0.1)
        error = power.smallest / (norm.isf(0.05) + norm.isf(0.2))
        expected = norm.sf(norm.isf(0.05) - difference / error) + norm.cdf(-norm.isf(0.05) - difference / error)
        assert power.power == pytest.approx(expected)
    assert power_of_outcomes("mae", [first], [first]).power == 1.0  # no error at all


def test_samples_that_belong_together_have_less_power() -> None:
    rng = np.random.default_rng(11)
    labels = np.repeat(np.arange(40), 10)
    first, second = ((rng.random(40) < share)[labels].astype(float) for share in (0.6, 0.7))
    groups = power_of_outcomes("acc@1", [first], [second], difference=0.2, clusters=labels)
    alone = power_of_outcomes("acc@1", [first], [second], difference=0.2)
    by_group = power_of_outcomes("acc@1", [first[::10]], [second[::10]], difference=0.2)
    assert groups.clusters == 40
    assert groups.power == pytest.approx(by_group.power, abs=0.02)  # ten equal samples of a group are one
    assert groups.samples_needed == pytest.approx(10 * by_group.samples_needed, rel=0.06)
    assert alone.power > groups.power + 0.2
    with pytest.raises(ValueError, match="clusters: all 400 samples are of 1; expected at least 2 clusters"):
        power_of_outcomes("acc@1", [first], clusters=np.ones(400, dtype=int))
    with pytest.raises(ValueError, match="clusters: 3 labels for 400 samples"):
        power_of_outcomes("acc@1", [first], clusters=[1, 2, 3])


def test_p_values_are_taken_by_place_whatever_holds_them() -> None:
    """A series sorted by its values keeps its index, by which it would be read."""
    pandas = pytest.importorskip("pandas")
    values = [0.03, 0.02, 0.01, 0.9]
    for adjust in (holm, benjamini_hochberg):
        expected = adjust(values)
        for held in (
            np.array(values),
            pandas.Series(values, index=[2, 0, 3, 1]),
            pandas.Series(values, index=list("abcd")),
        ):
            given = adjust(held)
            assert given == expected
            assert all(type(value) is float for value in given)
        for wrong in ([None, 0.1], ["0.1"], {"a": 0.1}, [[0.1]]):
            with pytest.raises(ValueError, match="p values"):
                adjust(wrong)  # type: ignore[arg-type]


def test_outcomes_of_seeds_may_be_one_array_or_come_one_by_one() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.random((2, 30)), rng.random((2, 30))
    expected = paired_test("score", list(first), list(second))
    assert paired_test("score", first, second) == expected  # type: ignore[arg-type]
    assert paired_test("score", iter(first), iter(second)) == expected  # type: ignore[arg-type]
    models = np.stack([first, second])
    assert worse_than_another("score", models) == worse_than_another("score", [list(part) for part in models])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape \(30, 1\); expected one number for each sample"):
        paired_test("acc@1", [first[0][:, None]], [second[0][:, None]])


@pytest.mark.parametrize("spread", [-0.5, float("nan"), float("inf")])
def test_samples_of_an_impossible_spread_are_refused(spread: float) -> None:
    """A negative spread was squared, and gave the samples of the positive one."""
    with pytest.raises(ValueError, match=f"the spread must be a finite number of at least 0, not {spread}"):
        samples_needed(spread, 0.02)


@pytest.mark.parametrize(("spread", "difference"), [(1.0, 1e-200), (1e300, 1e-10)])
def test_a_difference_that_no_number_of_samples_shows_is_one_line(spread: float, difference: float) -> None:
    """It was an OverflowError."""
    with pytest.raises(ValueError, match="is too small for a spread of"):
        samples_needed(spread, difference)


def test_answers_that_are_all_right_do_not_make_one_sample_enough() -> None:
    alone = power_of_outcomes("acc@1", [np.ones(50)])
    assert alone.samples_needed > 50
    assert alone.power < 0.5
    pair = power_of_outcomes("acc@1", [np.ones(50)], [np.ones(50)])
    assert 0 < pair.smallest < alone.smallest
    grouped = power_of_outcomes("acc@1", [np.ones(50)], [np.ones(50)], clusters=np.arange(50) // 5)
    assert grouped.smallest == pytest.approx(5 * pair.smallest)


@pytest.mark.parametrize("change", ["scaled", "moved"])
def test_p_values_do_not_depend_on_the_unit(change: str) -> None:
    """Of errors around 1e6 equal differences were apart by rounding, and p .21 for .25; below 1e-12 it was 1."""
    rng = np.random.default_rng(0)
    sizes = (1e-20, 1e-10, 1e-3, 7e6, 1e15) if change == "scaled" else (1e3, 1e6, 1e9)
    for _ in range(10):
        first, second = (rng.integers(0, 11, 10) / 10 for _ in range(2))
        many = rng.integers(0, 5, (2, 60)) / 10 + [[0.0], [0.2]]

        def values(size: float, first: np.ndarray = first, second: np.ndarray = second, many: np.ndarray = many) -> Any:
            def of(outcomes: np.ndarray) -> np.ndarray:
                return outcomes * size if change == "scaled" else outcomes + size

            test = paired_test("mine", [of(first)], [of(second)], resamples=9)
            seeds = paired_test("mine", [of(first)] * 2, [of(second), of(second[::-1])], resamples=9)
            rows = slice_scores("mine", of(many[0]), ["a", "b", "c"] * 20, permutations=199)
            worse = worse_than_another("mine", [[of(many[0])], [of(many[1])], [of(many[1])]], permutations=199)
            return [test.p, seeds.p_permutation, *(row.p for row in rows.rows), rows.p_gap, *worse]

        expected = values(1.0 if change == "scaled" else 0.0)
        for size in sizes:
            assert values(size) == pytest.approx(expected, abs=0.011 if size == 1e9 else 1e-9), size


@pytest.mark.parametrize(
    ("metric", "column"),
    [("mean_per_class", 1), ("macro_f1", 1), ("roc_auc", 1), ("spearman", 1), ("r2", 1), ("miou", 2), ("dice", 2)],
)
def test_samples_in_another_order_are_refused(metric: str, column: int) -> None:
    """Of two models on other samples, or in another order, an exchange would mix what is true."""
    rng = np.random.default_rng(0)
    shape = (8, 3, 2) if column == 2 else (8, 2, 1) if metric == "roc_auc" else (8, 2)
    first = rng.integers(1, 9, shape).astype(float)
    if column == 1:
        first[:, 1] = (np.arange(8) % 2).reshape(first[:, 1].shape)
    second = first.copy()
    second[:, 0] = first[::-1, 0]
    paired_test(metric, [first], [second])
    second[2, column], second[3, column] = first[3, column], first[2, column]
    with pytest.raises(ValueError, match=rf"{metric}: [12] of 8 samples have another truth .* sample [23]"):
        paired_test(metric, [first], [second])

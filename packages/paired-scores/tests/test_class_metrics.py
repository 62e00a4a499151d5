"""What happens within each class, and the metrics of values and of ranks, against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paired_scores.metrics import METRICS, by_class, confusion, evaluate

sklearn = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
CASES = [(30, 3), (200, 7), (57, 40)]


@pytest.mark.parametrize(("count", "classes"), CASES)
def test_of_each_class_as_scikit_learn(count: int, classes: int) -> None:
    generator = np.random.default_rng([count, classes])
    true, guessed = generator.integers(0, classes, count), generator.integers(0, classes, count)
    guessed = np.where(generator.random(count) < 0.5, true, guessed)
    assert (confusion(guessed, true, classes) == sklearn.confusion_matrix(true, guessed, labels=range(classes))).all()
    names = range(classes)
    precision, recall, f1, support = sklearn.precision_recall_fscore_support(
        true, guessed, labels=names, zero_division=np.nan
    )
    for row in by_class(guessed, true, classes):
        for own, theirs in ((row.precision, precision), (row.recall, recall), (row.f1, f1)):
            if own is None:
                assert np.isnan(theirs[row.label])
            else:
                assert_allclose(own[0], theirs[row.label], rtol=1e-12)
                assert 0 <= own[1] <= own[0] <= own[2] <= 1
        assert row.support == support[row.label]
    labels = np.union1d(true, guessed)
    for name, average in (("macro_f1", "macro"), ("micro_f1", "micro")):
        assert_allclose(
            evaluate(name, guessed, true).value, sklearn.f1_score(true, guessed, labels=labels, average=average)
        )
    kappa = sklearn.cohen_kappa_score(true, guessed, weights="quadratic", labels=names)
    assert_allclose(evaluate("quadratic_kappa", guessed, true).value, kappa, rtol=1e-10)


@pytest.mark.long
def test_f1s_interval_is_that_of_resampled_samples() -> None:
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, 150)
    guessed = np.where(generator.random(150) < 0.7, true, generator.integers(0, 3, 150))
    rows = generator.integers(0, 150, (2000, 150))
    of_class, guessed_class = true[rows] == 1, guessed[rows] == 1
    drawn = 2 * (of_class & guessed_class).sum(1) / (of_class.sum(1) + guessed_class.sum(1))
    theirs = [sklearn.f1_score(true[row], guessed[row], labels=[1], average="macro") for row in rows[:20]]
    assert_allclose(drawn[:20], theirs)
    low, high = np.quantile(drawn, [0.025, 0.975])
    f1 = by_class(guessed, true, 3, resamples=20_000)[1].f1
    assert f1 is not None
    assert_allclose(f1[1:], (low, high), atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_so_many_equal_samples(seed: int) -> None:
    """The definition of a resample: each metric of repeated samples is the metric of their weights."""
    generator = np.random.default_rng(seed)
    target = generator.normal(size=40).round(1)  # with ties
    predicted = (target + generator.normal(size=40)).round(1)
    true, guessed = generator.integers(0, 4, 40), generator.integers(0, 4, 40)
    weights = generator.integers(0, 4, (5, 40)).astype(np.float64)
    for name, predictions, truth in (
        *((name, predicted, target) for name in ("rmse", "r2", "spearman")),
        *((name, guessed, true) for name in ("macro_f1", "micro_f1", "quadratic_kappa")),
    ):
        metric = METRICS[name]
        values = metric.aggregate(metric.outcomes(predictions, truth), weights)
        for row, value in zip(weights.astype(int), values, strict=True):
            repeated = np.repeat(np.arange(40), row)
            assert_allclose(value, evaluate(name, predictions[repeated], truth[repeated], resamples=0).value, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_values_as_scikit_learn_and_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    target = generator.normal(1e6, 2, 60).round(1)
    predicted = target + generator.normal(size=60).round(1)
    assert_allclose(evaluate("rmse", predicted, target).value, sklearn.root_mean_squared_error(target, predicted))
    assert_allclose(evaluate("r2", predicted, target).value, sklearn.r2_score(target, predicted), rtol=1e-8)
    spearman = evaluate("spearman", predicted, target)
    assert_allclose(spearman.value, stats.spearmanr(predicted, target).statistic, rtol=1e-10)
    assert spearman.low < spearman.value < spearman.high
    with pytest.raises(ValueError, match="r2 has no value: all targets are equal"):
        evaluate("r2", predicted, np.full(60, 3.0))


def test_labels_without_positives_are_left_out() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, (50, 4))
    truth[:, 2] = 0
    scores = generator.random((50, 4))
    numbers = [0, 1, 3]
    for name, theirs in (("roc_auc", sklearn.roc_auc_score), ("average_precision", sklearn.average_precision_score)):
        score = evaluate(name, scores, truth)
        assert_allclose(score.value, theirs(truth[:, numbers], scores[:, numbers], average="macro"))
        assert score.low < score.value < score.high
        with pytest.raises(ValueError, match="label 0 has 0 positives"):
            evaluate(name, scores[:, :1], truth[:, 2:3])
    assert_allclose(
        evaluate("micro_f1", scores, truth).value, sklearn.f1_score(truth, scores > 0.5, average="micro"), rtol=1e-12
    )


def test_scores_that_are_nan_have_no_largest() -> None:
    with pytest.raises(ValueError, match="predictions: sample 1 holds NaN"):
        confusion([[0.9, 0.1], [float("nan"), 0.2]], [0, 1], classes=2)


@pytest.mark.parametrize("name", ["macro_f1", "micro_f1", "quadratic_kappa", "mean_per_class"])
def test_class_numbers_that_floats_would_merge_are_refused(name: str) -> None:
    """Hashes as classes: 2**53 and 2**53 + 1 are one number in float64, and all wrong answers were right."""
    large = np.array([2**53 + 1, 2**53 + 2, 2**53 + 3, 7])
    with pytest.raises(ValueError, match=r"above 2\*\*53"):
        evaluate(name, np.roll(large, 1), large)
    assert evaluate("accuracy", np.roll(large, 1), large).value == 0


def test_classes_in_one_column_are_no_scores() -> None:
    # argmax(keepdim=True) gives them so: the only column was the best of each sample, and all counted as class 0
    guessed, true = np.array([[0], [1], [2]]), np.array([0, 1, 2])
    for measure in (confusion, by_class):
        with pytest.raises(ValueError, match=r"predictions have shape \(3, 1\); expected classes \[n\], or a score of"):
            measure(guessed, true, 3)
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*each of 3 classes"):
        confusion(np.eye(3)[:, :2], true, 3)
    assert confusion(np.zeros((2, 1)), [0, 0], 1).tolist() == [[2]]

"""Metrics on small random inputs full of ties, single classes and labels without positives, against scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import spearmanr

from paired_scores.metrics import evaluate

sk = pytest.importorskip("sklearn.metrics")

Case = tuple[str, np.ndarray, np.ndarray, Callable[[], float]]


def ours(metric: str, predictions: np.ndarray, targets: np.ndarray) -> float:
    """The metric; NaN where it says that it has no value."""
    try:
        return evaluate(metric, predictions, targets, resamples=0).value
    except ValueError as error:
        if not any(part in str(error) for part in ("has no value", "expected both classes")):
            raise
        return float("nan")


def classes(rng: np.random.Generator, n: int, k: int) -> list[Case]:
    y, p = rng.integers(0, k, n), rng.integers(0, k, n)
    if rng.random() < 0.2:
        y[:] = y[0]
    scores = rng.random((n, k)).round(1)
    best = scores == scores.max(1, keepdims=True)
    ties = (best / best.sum(1, keepdims=True))[np.arange(n), y].mean()
    return [
        ("accuracy", p, y, lambda: sk.accuracy_score(y, p)),
        ("accuracy", scores, y, lambda: float(ties)),  # equal scores share what a random order would give
        ("mean_per_class", p, y, lambda: sk.balanced_accuracy_score(y, p)),
        ("macro_f1", p, y, lambda: sk.f1_score(y, p, average="macro")),
        ("micro_f1", p, y, lambda: sk.f1_score(y, p, average="micro")),
        # Grades lie as far apart as their numbers say, also where one between them does not occur.
        ("quadratic_kappa", p, y, lambda: sk.cohen_kappa_score(y, p, weights="quadratic", labels=range(k))),
    ]


def rankings(rng: np.random.Generator, n: int, k: int) -> list[Case]:
    scores, truths = rng.random((n, k)).round(1), rng.integers(0, 2, (n, k))
    mixed = [label for label in range(k) if 0 < truths[:, label].sum() < n]

    def mean(score: Callable[..., float]) -> Callable[[], float]:
        return lambda: (
            float(np.mean([score(truths[:, label], scores[:, label]) for label in mixed])) if mixed else float("nan")
        )

    some = truths.any(0) | (scores > 0.5).any(0)  # labels neither predicted nor true are left out
    chosen = (truths[:, some], scores[:, some] > 0.5)
    by_label = list(zip(chosen[0].T, chosen[1].T, strict=True))
    return [
        ("roc_auc", scores, truths, mean(sk.roc_auc_score)),
        ("average_precision", scores, truths, mean(sk.average_precision_score)),
        ("brier", scores, truths, lambda: float(np.square(scores - truths).mean())),
        ("macro_f1", scores, truths, lambda: np.mean([sk.f1_score(*columns) for columns in by_label])),
        ("micro_f1", scores, truths, lambda: sk.f1_score(*(part.ravel() for part in chosen)) if some.any() else np.nan),
    ]


def numbers(rng: np.random.Generator, n: int, _: int) -> list[Case]:
    predicted, true = rng.normal(size=n).round(1), rng.normal(size=n).round(1)
    flat = len(set(true)) == 1
    constant = len(set(predicted)) == 1  # tells no order: a correlation of 0
    return [
        ("mae", predicted, true, lambda: sk.mean_absolute_error(true, predicted)),
        ("mse", predicted, true, lambda: sk.mean_squared_error(true, predicted)),
        ("r2", predicted, true, lambda: np.nan if flat else sk.r2_score(true, predicted)),
        ("spearman", predicted, true, lambda: np.nan if flat else 0.0 if constant else spearmanr(predicted, true)[0]),
    ]


@pytest.mark.parametrize("kind", [classes, rankings, numbers])
def test_metrics_of_random_edges_are_scikit_learns(kind: Callable[..., list[Case]]) -> None:
    compared: dict[str, int] = {}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        for metric, predictions, targets, expected in kind(rng, int(rng.integers(1, 9)), int(rng.integers(2, 5))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn's, of what is not defined
                value = float(expected())
            assert ours(metric, predictions, targets) == pytest.approx(value, abs=1e-9, nan_ok=True), (
                f"{metric}, seed {seed}: {predictions.tolist()} of {targets.tolist()}"
            )
            compared[metric] = compared.get(metric, 0) + (value == value)
    assert min(compared.values()) > 50

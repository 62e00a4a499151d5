"""Cross-validation of the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import t as student

from vision_adapters.tuning import cross_validate, tune, tuning_data


def samples(n: int = 90, k: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % k
    return 1.2 * torch.eye(k, 6)[labels] + torch.randn(n, 6, generator=generator), labels


def test_each_sample_is_scored_by_the_head_of_the_other_folds() -> None:
    x, y = samples()
    crossed = cross_validate({"plain": x}, y, 3, folds=4, seed=5)
    assert [int((y[crossed.folds == fold] == label).sum()) for fold in range(4) for label in range(3)].count(7) >= 6
    for fold in range(4):
        train, test = crossed.folds != fold, crossed.folds == fold
        head = tune(tuning_data(x[train], y[train], seed=5))
        torch.testing.assert_close(crossed.scores[test], head.scores(x[test]))
        hits = (crossed.scores[test].argmax(1) == y[test]).float().mean()
        assert crossed.values[fold] == pytest.approx(float(hits), abs=1e-6)
    half = student.ppf(0.975, 3) * math.sqrt(np.var(crossed.values, ddof=1) * (1 / 4 + 1 / 3))
    assert crossed.high - crossed.low == pytest.approx(2 * half)
    assert (crossed.high + crossed.low) / 2 == pytest.approx(np.mean(crossed.values))


@pytest.mark.long
def test_labels_that_features_do_not_know_stay_at_chance() -> None:
    """Choices are made within the training folds: nothing of the tested ones reaches them."""
    values = []
    for seed in range(6):
        x, y = samples(60, 2, seed)
        y = y[torch.randperm(60, generator=torch.Generator().manual_seed(seed))]
        values += cross_validate({"a": x, "b": x[:, :2]}, y, 2, folds=3, seed=seed).values
    assert np.mean(values) == pytest.approx(0.5, abs=0.1)


def test_a_class_that_a_fold_lacks_is_never_its_answer() -> None:
    x, y = samples(40, 2)
    y[0] = 2
    crossed = cross_validate({"plain": x}, y, 3, folds=4)
    assert int(crossed.scores[0].argmax()) != 2
    with pytest.raises(ValueError, match="folds must be from 2 to the 40 samples, got 1"):
        cross_validate({"plain": x}, y, 3, folds=1)

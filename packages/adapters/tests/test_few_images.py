"""Heads for few images without texts: a ridge discriminant, and no preference for the axes of the features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vision_adapters import HeadClassifier
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.anchored import Candidate, _refit
from vision_adapters.tuning.few_images import RIDGES, RidgeDiscriminant


def definition(x: np.ndarray, y: np.ndarray, classes: int, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The head by its formula, in float64 and with the whole matrix."""
    means = np.stack([x[y == c].mean(0) if (y == c).any() else x.mean(0) for c in range(classes)])
    within = x - means[y]
    trace = (within**2).sum() / (len(x) - 1)
    weight = trace * np.linalg.solve(within.T @ within + ridge * trace * np.eye(x.shape[1]), means.T).T
    return weight, -0.5 * (means * weight).sum(1)


@pytest.mark.parametrize(("samples", "width"), [(9, 30), (40, 12), (13, 13), (5, 4)])
@pytest.mark.parametrize("ridge", RIDGES)
def test_the_head_is_its_formula(samples: int, width: int, ridge: float) -> None:
    rng = np.random.default_rng(samples)
    x, y = rng.normal(size=(samples, width)), np.arange(samples) % 4
    y[y == 3] = 2 if samples == 9 else 3  # one class without samples
    weight, bias = definition(x, y, 4, ridge)
    head = RidgeDiscriminant(torch.tensor(x), F.one_hot(torch.tensor(y), 4).double()).head(ridge)
    assert np.allclose(head.weight, weight, rtol=1e-8, atol=1e-10)
    assert np.allclose(head.bias, bias, rtol=1e-8, atol=1e-10)


def test_one_image_per_class_is_the_nearest_mean() -> None:
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    head = RidgeDiscriminant(x, torch.eye(5)).head(1.0)
    assert torch.equal(head.weight, x)
    assert torch.allclose(head.bias, -0.5 * x.square().sum(1))


def uneven(seed: int, shots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ten classes that 12 of 612 axes tell apart; the others are small, and noise."""
    rng = np.random.default_rng(seed)
    sizes = np.r_[np.ones(12), np.full(600, 0.1)]
    means = rng.normal(size=(10, 612)) * np.r_[np.ones(12), np.zeros(600)]
    y, truth = np.repeat(np.arange(10), shots), np.repeat(np.arange(10), 30)
    return (
        means[y] + rng.normal(size=(len(y), 612)) * sizes, y,
        means[truth] + rng.normal(size=(len(truth), 612)) * sizes, truth,
    )  # fmt: skip


@pytest.mark.parametrize("shots", [1, 2, 3])
def test_few_images_are_not_behind_the_nearest_mean(shots: int) -> None:
    ours, nearest = [], []
    for seed in range(6):
        x, y, seen, truth = uneven(seed, shots)
        ours.append(float((HeadClassifier().fit(x, y).predict(seen) == truth).mean()))
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        means = np.stack([unit[y == c].mean(0) for c in range(10)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        nearest.append(float(((seen @ means.T).argmax(1) == truth).mean()))
    assert np.mean(ours) > np.mean(nearest) - 0.03


@pytest.mark.parametrize("shots", [1, 3])
def test_a_rotation_changes_next_to_nothing(shots: int) -> None:
    x, y, seen, _ = uneven(3, shots)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(612, 612)))[0]
    plain = HeadClassifier().fit(x, y).predict(seen)
    turned = HeadClassifier().fit(x @ turn, y).predict(seen @ turn)
    assert (plain == turned).mean() > (0.99 if shots == 1 else 0.95)


def test_the_mean_with_a_regression_is_one_linear_head() -> None:
    x, y, seen, _ = uneven(0, 4)
    data = tuning_data(torch.tensor(x).float(), torch.tensor(y))
    tuned = tune(data)
    rows = [row for row in tuned.candidates if row["kind"] == "ridge_mean"]
    assert len(rows) == 1
    params = {name: value for name, value in rows[0].items() if name not in ("validation", "loss")}
    unit, test_x = F.normalize(data.features, dim=1), torch.tensor(seen).float()
    mean, _ = _refit(data, unit, Candidate(**params))
    solved, _ = _refit(data, unit, Candidate("solved", params["strength"], 0.0))
    discriminant = RidgeDiscriminant(unit, data.targets()).head(params["ridge"])
    with torch.no_grad():
        expected = 0.5 * params["temperature"] * discriminant.scores(F.normalize(test_x, dim=1))
        expected += 0.5 * params["scale"] * solved(test_x)
        assert torch.allclose(mean(test_x), expected, atol=1e-3)

"""Heads for few images without texts: a ridge discriminant, and no preference for the axes of the features."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

from vision_adapters import HeadClassifier
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.anchored import Candidate, _refit
from vision_adapters.tuning.few_images import RIDGES, RidgeDiscriminant
from vision_adapters.tuning.folds import make_folds


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
    factor = params["temperature"] * params["length"] / discriminant.length()
    with torch.no_grad():
        expected = 0.5 * factor * discriminant.scores(F.normalize(test_x, dim=1))
        expected += 0.5 * params["scale"] * solved(test_x)
        assert torch.allclose(mean(test_x), expected, atol=1e-3)


@pytest.mark.parametrize("times", [1, 3])
def test_a_head_of_more_images_is_as_sure_as_those_that_chose_its_scale(times: int) -> None:
    """Each image several times: scatter and cache grow, and the head's scores do not."""
    x, y, seen, _ = uneven(0, 4)
    data = tuning_data(torch.tensor(x).float().repeat(times, 1), torch.tensor(y).repeat(times))
    unit, rows = F.normalize(data.features, dim=1), torch.tensor(seen).float()
    head = _refit(data, unit, Candidate("ridge_discriminant", temperature=20.0, ridge=1.0, length=2.5))[0]
    weight = head.weight.detach()
    assert float((weight - weight.mean(0)).norm()) == pytest.approx(20 * 2.5, rel=1e-5)
    cache = Candidate("cache", blend=0.0, alpha=3.0, beta=5.0, images=32)
    once = tuning_data(torch.tensor(x).float(), torch.tensor(y))
    single = _refit(once, F.normalize(once.features, dim=1), cache)[0]
    torch.testing.assert_close(_refit(data, unit, cache)[0](rows), single(rows), rtol=1e-4, atol=1e-5)
    assert single.alpha == pytest.approx(3.0 * 32 / 40)


def test_a_default_head_of_digits_is_as_sure_as_it_is_right() -> None:
    """It was 7 points less sure: its scale was that of the folds' heads, whose weights are longer."""
    x, y = load_digits(return_X_y=True)
    off = []
    for seed in (203, 207):
        order = np.random.default_rng(seed).permutation(len(x))
        shown = np.concatenate([order[y[order] == label][:20] for label in range(10)])
        rest = torch.from_numpy(np.setdiff1d(order, shown))
        data = tuning_data(torch.from_numpy(x[shown]).float(), torch.from_numpy(y[shown]))
        tuned = tune(replace(data, folds=make_folds(data.labels, "folds", 0)))  # that choose a ridge discriminant
        scores = tuned.scores(torch.from_numpy(x).float()[rest])
        right = float((scores.argmax(1) == torch.from_numpy(y)[rest]).float().mean())
        off.append(float(scores.softmax(1).amax(1).mean()) - right)
    assert tuned.best_params["kind"] == "ridge_discriminant"
    assert np.abs(off).mean() < 0.04


@pytest.mark.parametrize(
    ("shots", "method"),
    [
        *((shots, "anchored") for shots in (2, 5, 20)),
        (5, "logistic"),
        *(pytest.param(shots, "logistic", marks=pytest.mark.again) for shots in (2, 20)),
    ],
)
def test_the_order_of_samples_changes_no_choice_and_next_to_no_score(shots: int, method: str) -> None:
    """Folds went by the order of rows: the same images from a table and from a folder had other heads."""
    generator = torch.Generator().manual_seed(shots)
    y = torch.arange(4).repeat(shots)
    x = torch.randn(4 * shots, 24, generator=generator) + 1.2 * torch.eye(4, 24)[y]
    test = torch.randn(50, 24, generator=generator)
    first = tune(tuning_data(x, y), method)
    for seed in range(4):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
        again = tune(tuning_data(x[order], y[order]), method)
        chosen, other = ({**of.best_params, "length": 0.0} for of in (first, again))  # measured, to rounding
        assert chosen == other
        torch.testing.assert_close(again.scores(test), first.scores(test), rtol=1e-3, atol=1e-3)


def test_folds_are_those_of_the_samples_in_any_order() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(90, 7, generator=generator).double(), torch.arange(90) % 4
    x[::9] = x[0]  # copies of one image, of several classes
    several = (torch.rand(90, 3, generator=generator) < 0.4).long()
    several |= torch.eye(3, dtype=torch.long)[torch.arange(90) % 3]
    several[::9] = several[0]
    rotation = torch.linalg.qr(torch.randn(7, 7, generator=generator).double())[0]
    for labels, split in itertools.product((y, several), ("folds", "shuffled")):
        plain = make_folds(labels, split, 3, x)
        order = torch.randperm(90, generator=generator)
        for rows in (x[order], x[order] @ rotation):
            for fold, shuffled in zip(plain, make_folds(labels[order], split, 3, rows), strict=True):
                samples = torch.cat([x, labels.reshape(90, -1)], dim=1)
                held = samples[fold.validation], samples[order[shuffled.validation]]
                first, second = (sorted(map(tuple, part.tolist())) for part in held)
                assert first == second
        assert any(
            fold.validation.tolist() != other.validation.tolist()
            for fold, other in zip(plain, make_folds(labels, split, 4, x), strict=True)
        )

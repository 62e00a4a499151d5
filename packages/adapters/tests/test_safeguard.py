"""Shrinkage discriminant analysis, and the rule for one image per class."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vision_adapters.tuning import HeldOut, tune, tuning_data
from vision_adapters.tuning.discriminant import _shrinkage, can_discriminate, fit_discriminant
from vision_adapters.tuning.unit_features import is_shifted, is_worthless, may_move


def world(n: int, k: int = 12, d: int = 24, noise: float = 0.5, shift: float = 0.0, seed: int = 0):  # type: ignore[no-untyped-def]  # tensors
    """Images around their class texts, all moved by the same shift."""
    generator = torch.Generator().manual_seed(seed)
    texts = F.normalize(torch.randn(k, d, generator=generator), dim=1)
    away = shift * torch.randn(d, generator=generator) / math.sqrt(d)
    # the shift leans towards one text, which then draws images of all classes
    away = away + shift * texts[0]
    labels = torch.arange(n) % k
    return texts[labels] + away + noise * torch.randn(n, d, generator=generator) / math.sqrt(d), labels, texts


def test_a_discriminant_is_scikit_learns_at_the_same_covariance() -> None:
    x, y, _ = world(120, noise=1.5)
    unit = F.normalize(x, dim=1)
    weight, bias = fit_discriminant(unit, F.one_hot(y, 12).float())
    inside = unit - F.one_hot(y, 12).float() @ torch.stack([unit[y == at].mean(0) for at in range(12)])
    from sklearn.covariance import ledoit_wolf_shrinkage

    share = ledoit_wolf_shrinkage(inside.double().numpy(), assume_centered=True)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share, priors=[1 / 12] * 12).fit(
        unit.numpy(), y.numpy()
    )
    more = F.normalize(world(600, noise=1.5, seed=1)[0], dim=1)
    agree = (more @ weight.T + bias).argmax(1).numpy() == theirs.predict(more.numpy())
    assert agree.mean() > 0.97  # theirs scales each dimension first


@pytest.mark.parametrize(("n", "d"), [(5, 9), (200, 3), (40, 40), (10, 1)])
def test_the_shrunk_covariance_is_scikit_learns(n: int, d: int) -> None:
    from sklearn.covariance import ledoit_wolf

    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, d, dtype=torch.double, generator=generator)
    x = x @ torch.randn(d, d, dtype=torch.double, generator=generator)
    theirs, _ = ledoit_wolf(x.numpy(), assume_centered=True)
    share, size = _shrinkage(x, torch.ones(n, dtype=torch.double))
    shrunk = (1 - share) * x.T @ x / n + share * size * torch.eye(d, dtype=torch.double)
    torch.testing.assert_close(shrunk, torch.from_numpy(theirs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_discriminant_of_more_features_than_images_solves_the_covariance_by_its_definition(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    unit = F.normalize(torch.randn(30, 90, generator=generator), dim=1)
    unit[:, :3] *= 9.0  # so that shrinkage is neither none nor all
    labels = torch.arange(30) % 3
    member = F.one_hot(labels, 3).float()
    counts = torch.randint(1, 4, (30,), generator=generator).double() if weighted else torch.ones(30).double()
    weight, bias = fit_discriminant(unit, member, counts.float() if weighted else None)
    wide = unit.double()
    means = torch.stack([(counts[labels == at] @ wide[labels == at]) / counts[labels == at].sum() for at in range(3)])
    inside, total = wide - means[labels], float(counts.sum())
    share, size = _shrinkage(inside, counts)
    assert 0.01 < share < 0.99
    shrunk = (1 - share) * inside.T @ (inside * counts[:, None]) / total + share * size * torch.eye(90).double()
    covariance = shrunk * total / (total - 3)
    covariance += (1e-9 + 1e-6 * covariance.diagonal().mean()) * torch.eye(90).double()
    expected = torch.linalg.solve(covariance, means.T).T
    torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(bias.double(), -0.5 * (expected * means).sum(1), rtol=1e-5, atol=1e-6)


def test_a_discriminant_needs_scatter_within_classes() -> None:
    member = F.one_hot(torch.arange(4), 4).float()
    assert not can_discriminate(member)
    assert not can_discriminate(torch.cat([member, member[:1]]))
    assert can_discriminate(torch.cat([member, member[:2]]))
    x, y, _ = world(12)
    with pytest.raises(ValueError, match="12 images of 12 classes have too little"):
        tune(tuning_data(x, y), "lda")


def test_the_default_weighs_a_discriminant_where_noise_has_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    means, y = torch.randn(6, 30, generator=generator), torch.arange(240) % 6
    loud = torch.linspace(0.2, 6.0, 30) @ torch.eye(30) * torch.randn(240, 30, generator=generator)
    turn = torch.linalg.qr(torch.randn(30, 30, generator=generator))[0]
    tuned = tune(tuning_data((means[y] + loud) @ turn, y))
    tried = [candidate for candidate in tuned.candidates if candidate["kind"] == "discriminant"]
    assert tried
    assert (
        max(candidate["validation"] for candidate in tried)
        > max(e["validation"] for e in tuned.candidates if "discriminant" not in e["kind"] and "mean" not in e["kind"])
        - 0.1
    )


def test_a_discriminant_learns_from_images_and_texts() -> None:
    x, y, texts = world(60, noise=1.5, shift=1.0)
    many, truth, _ = world(600, noise=1.5, shift=1.0, seed=0)
    test_set = HeldOut(many[60:], truth[60:])
    data = tuning_data(x, y, class_embeddings=texts)
    tuned = tune(data, "lda")
    assert "temperature" in tuned.best_params
    assert test_set.score(tuned, resamples=0).value > test_set.score(tune(data, "zero_shot"), resamples=0).value


def test_evidence_for_moving() -> None:
    assert not is_shifted(0.5, 0.55, 40)  # within a standard error
    assert not is_worthless(0.5, 40, 40)
    assert is_shifted(0.5, 0.7, 40)
    assert is_worthless(1 / 16, 16, 16)
    assert not is_worthless(0.25, 80, 80)  # poor, and far above chance
    assert not is_worthless(0.0, 2, 2)  # two images say nothing


def test_texts_that_are_right_stay_where_nothing_can_be_validated() -> None:
    x, y, texts = world(12, noise=0.1)
    tuned = tune(tuning_data(x, y, class_embeddings=texts))
    assert tuned.best_params["kind"] == "zero_shot"
    right = F.normalize(x, dim=1) @ texts.T
    np.testing.assert_array_equal(tuned.scores(x).argmax(1), right.argmax(1))


def test_a_shift_that_all_classes_share_is_seen_and_taken_back() -> None:
    gains = []
    for seed in range(4):
        x, y, texts = world(1200, noise=0.5, shift=2.0, seed=seed)
        data = tuning_data(x[:12], y[:12], class_embeddings=texts)
        assert may_move(data, F.normalize(data.features, dim=1))
        test_set = HeldOut(x[12:], y[12:])
        gains.append(
            test_set.score(tune(data), resamples=0).value - test_set.score(tune(data, "zero_shot"), resamples=0).value
        )
    assert min(gains) > 0.1

"""Ridge regression against scikit-learn's, against itself in another unit, and without each sample in turn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from vision_adapters.ridge import fit_ridge, leave_one_out

linear = pytest.importorskip("sklearn.linear_model")
preprocessing = pytest.importorskip("sklearn.preprocessing")


@pytest.mark.parametrize(("rows", "width"), [(60, 5), (30, 80)])
def test_it_is_scikit_learns(rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows + 20, width, generator=generator) * 3 + 1
    y = 11.5 + x[:, 0] - x[:, 1] + 0.1 * torch.randn(rows + 20, generator=generator)
    fit = fit_ridge(x[:rows], y[:rows], x[rows:], y[rows:])
    scaler = preprocessing.StandardScaler().fit(x.numpy().astype("float64"))
    theirs = linear.Ridge(fit.penalty * len(x)).fit(scaler.transform(x.numpy().astype("float64")), y.numpy())
    assert_allclose(fit.predict(x), theirs.predict(scaler.transform(x.numpy().astype("float64"))), rtol=1e-5)
    assert fit.penalty == min(fit.path, key=lambda row: row[1])[0]


def test_the_unit_of_targets_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 8, generator=generator), torch.randn(50, generator=generator)
    first = fit_ridge(x[:40], y[:40], x[40:], y[40:])
    other = fit_ridge(x[:40], 1e4 * y[:40] + 1e5, x[40:], 1e4 * y[40:] + 1e5)
    assert other.penalty == first.penalty
    assert_allclose(other.predict(x), 1e4 * first.predict(x) + 1e5, rtol=1e-4, atol=5.0)


def test_columns_that_never_vary_and_bad_input() -> None:
    x, y = torch.ones(10, 3), torch.arange(10.0)
    assert_allclose(fit_ridge(x, y, x, y).predict(x), torch.full((10,), 4.5))
    with pytest.raises(ValueError, match=r"targets \(9,\)"):
        fit_ridge(x, y[:9], x, y)
    with pytest.raises(ValueError, match="hold NaN"):
        fit_ridge(x * torch.nan, y, x, y)


def test_each_sample_is_really_left_out() -> None:
    """With an intercept of its own, a fit without the sample gives the same prediction, where features stay centred."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    features, targets = torch.cat([half, -half]), torch.randn(40, 1, generator=generator, dtype=torch.float64)
    left_out = leave_one_out(features, targets)
    x = (features / features.std(0, correction=0)).numpy()
    penalty = left_out.penalty * (x**2).sum() / 3
    errors = []
    for row in range(40):
        others = np.arange(40) != row
        design = np.c_[x[others], np.ones(39)]
        shrunk = np.diag([penalty] * 3 + [0.0])
        weights = np.linalg.solve(design.T @ design + shrunk, design.T @ targets.numpy()[others])
        errors.append(float((targets[row].item() - np.r_[x[row], 1.0] @ weights)[0] ** 2))
    assert left_out.outcomes.numpy() == pytest.approx(np.array(errors), rel=1e-6)


@pytest.mark.parametrize(("rows", "width"), [(200, 64), (60, 128)])
@pytest.mark.parametrize("level", [0.0, 7.3, 100.1, 1e4 + 0.3, -1e6])
def test_columns_that_never_vary_change_no_score(rows: int, width: int, level: float) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, width, generator=generator)
    labels = (features[:, 0] + 0.7 * torch.randn(rows, generator=generator) > 0).long()
    wider = torch.cat([torch.full((rows, 3), level), features, torch.full((rows, 5), level)], dim=1)
    plain, same = leave_one_out(features, labels), leave_one_out(wider, labels)
    assert (plain.score, plain.penalty) == (same.score, same.penalty)
    numbers = features[:, :1] + 3
    assert leave_one_out(wider, numbers).score == pytest.approx(leave_one_out(features, numbers).score, abs=1e-3)
    if abs(level) < 1e6:  # there a spread of 1 is taken for rounding
        assert leave_one_out(features.double() + level, labels).score == pytest.approx(plain.score, abs=1 / rows)
    assert leave_one_out(torch.full((rows, 3), level), labels).score <= 0.6


def test_noise_is_worth_nothing_and_classes_are() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (400,), generator=generator)
    noise = torch.randn(400, 30, generator=generator)
    assert leave_one_out(noise, labels).score < 0.35
    assert leave_one_out(noise + 3 * torch.eye(30)[labels], labels).score > 0.95
    with pytest.raises(ValueError, match="one class only"):
        leave_one_out(noise[:3], torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="3 samples with 2 targets"):
        leave_one_out(noise[:3], labels[:2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_features_in_half_precision_are_left_out_as_wide_ones(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 9, generator=generator).to(dtype), torch.arange(60) % 3
    half, wide = leave_one_out(x, y), leave_one_out(x.float(), y)
    assert (half.score, half.penalty) == (wide.score, wide.penalty)
    assert torch.equal(half.outcomes, wide.outcomes)


def test_targets_that_never_vary_count_nowhere_and_nan_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 8, generator=generator)
    y = x[:, :1] + 0.1 * torch.randn(60, 1, generator=generator)
    for level in (0.0, 7.3, 1e4 + 0.3):
        wider = torch.cat([y, torch.full((60, 1), level)], dim=1)
        assert leave_one_out(x, wider).score == pytest.approx(leave_one_out(x, y).score, abs=1e-6)
        assert leave_one_out(x, wider[:, 1:]).score == 0.0
    for features, targets in ((x * torch.nan, y), (x, y * torch.inf)):
        with pytest.raises(ValueError, match="hold NaN or infinity"):
            leave_one_out(features, targets)

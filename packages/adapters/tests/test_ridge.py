"""Ridge regression against scikit-learn's, and against itself in another unit."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose

from vision_adapters.ridge import fit_ridge

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
    assert_allclose(fit.head()(x)[:, 0].detach(), fit.predict(x), rtol=1e-4)


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

"""The Gaussian process against refitting without each group, cell by cell in plain float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eevee import AverageScorer, EeveeError, GpScorer, RidgeScorer, load_table, standardise

from ._reference import gp_residuals
from ._tables import made_up

KERNEL = (3.0, 1.0, 0.5)
GROUPS = list("aabcdefggg") + list("hij")


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("groups", [(), GROUPS])
@pytest.mark.parametrize("per_benchmark", [1, 2])
def test_residuals_equal_refitting(missing, groups, per_benchmark):
    table = made_up(models=13, benchmarks=5, missing=missing, groups=groups, per_benchmark=per_benchmark)
    data = standardise(table)
    scorer = GpScorer(kernels=(KERNEL,))
    for candidate in ((0, 3), (1,), (0, 2, 4)):
        residuals = scorer.residuals(data, [candidate])[0]
        want = gp_residuals(data.values, data.mask, data.metric_columns(candidate), data.groups, KERNEL)
        np.testing.assert_allclose(residuals, np.where(data.mask, want, 0.0), atol=1e-7)


def test_prediction_of_a_held_out_model_is_its_held_out_residual():
    data = standardise(made_up(models=12, missing=0.2))
    scorer = GpScorer(kernels=(KERNEL,))
    residuals, spread = scorer.residuals(data, [(0, 2)])[0], scorer.held_out_spread(data, (0, 2))
    for i in (0, 5, 11):
        rest = data.without([i])
        row = data.values[[i]]
        new = scorer.predict(rest, (0, 2), row)[0] - row[0]
        np.testing.assert_allclose(np.where(data.mask[i], new, 0.0), residuals[i], atol=1e-9)
        assert scorer.spread(rest, (0, 2), row)[0] == pytest.approx(spread[i])


def test_best_kernel_of_each_candidate():
    """Each candidate gets the kernel with the lowest held-out error outside it, whatever else is in the batch."""
    data = standardise(load_table("gate"))
    scorer = GpScorer(objective="unselected")
    batch = [(0, 4), (7, 8, 21), (3,), (12, 29)]
    every = np.stack([GpScorer("unselected", (kernel,)).score(data, batch)[:, 0] for kernel in scorer.kernels])
    np.testing.assert_allclose(scorer.score(data, batch)[:, 0], every.min(0), atol=1e-12)
    assert len(set(every.argmin(0))) > 1
    alone = [scorer.score(data, [candidate])[0, 0] for candidate in batch]
    np.testing.assert_allclose(alone, every.min(0), atol=1e-12)


def test_a_row_with_a_gap_is_predicted_from_what_it_has():
    data = standardise(made_up(models=12))
    row = data.values[:1].copy()
    row[0, 2] = np.nan
    np.testing.assert_allclose(GpScorer().predict(data, (0, 2), row), GpScorer().predict(data, (0,), row), atol=0.2)
    single = GpScorer(kernels=(KERNEL,))
    np.testing.assert_allclose(single.predict(data, (0, 2), row), single.predict(data, (0,), row), atol=1e-12)


def test_equal_models_make_nothing_singular():
    table = made_up(models=8)
    values = np.concatenate([table.values, table.values[:3]])
    twins = replace(table, models=(*table.models, "t0", "t1", "t2"), values=values, groups=())
    data = standardise(twins)
    assert np.isfinite(GpScorer().score(data, [(0, 1), (2,)])).all()
    assert np.isfinite(GpScorer().predict(data, (0, 1), data.values)).all()


def test_spread_is_larger_for_what_is_unlike():
    data = standardise(load_table("gate"))
    near, far = np.zeros((1, 30)), np.full((1, 30), 4.0)
    for scorer in (GpScorer(), RidgeScorer(), AverageScorer()):
        assert scorer.spread(data, (0, 3), far)[0] > 1.1 * scorer.spread(data, (0, 3), near)[0]


def test_average_is_the_mean_of_both():
    data = standardise(made_up(models=12, missing=0.2))
    both = AverageScorer(RidgeScorer(), GpScorer())
    mean = (RidgeScorer().residuals(data, [(0, 1)]) + GpScorer().residuals(data, [(0, 1)])) / 2
    np.testing.assert_allclose(both.residuals(data, [(0, 1)]), mean)
    cells = (mean[0] ** 2)[data.mask]
    assert both.score(data, [(0, 1)])[0, 0] == pytest.approx(cells.mean())
    with pytest.raises(EeveeError, match="objectives 'all' and 'unselected'"):
        AverageScorer(RidgeScorer(), GpScorer("unselected"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": ()}, "no kernel"),
        ({"kernels": ((1, 1),)}, "expected .linear > 0"),
        ({"kernels": ((1, 1, 0),)}, "squared length > 0"),
        ({"kernels": ((1, -1, 1),)}, "local >= 0"),
        ({"objective": "most"}, "objective 'most'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(EeveeError, match=message):
        GpScorer(**settings)


def test_too_many_models():
    data = standardise(made_up(models=2001))
    with pytest.raises(EeveeError, match="2001 models; the Gaussian process takes at most 2000"):
        GpScorer().score(data, [(0,)])

"""The published few-shot methods against their definitions in plain loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.baselines import CacheHead, _gaussian
from vision_adapters.tuning.probes import clap_weights, lpp_states

from . import _reference as reference


def world(n: int, d: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(k, d, generator=generator)
    labels = torch.arange(n) % k
    images = centres[labels] + torch.randn(n, d, generator=generator)
    return images, labels, centres + 0.5 * torch.randn(k, d, generator=generator)


SIZES = [(5, 3, 2), (7, 4, 3), (12, 5, 4), (3, 7, 2)]


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_gda_is_the_shrunk_discriminant(n: int, d: int, k: int) -> None:
    x, y, _ = world(n, d, k)
    unit = F.normalize(x, dim=1)
    weights, biases = _gaussian(unit, F.one_hot(y, k).float())
    expected, offsets = reference.gaussian_discriminant(unit.double().tolist(), y.tolist(), k)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(biases.numpy(), offsets, rtol=1e-4, atol=1e-4 * np.abs(offsets).max())


def test_gdas_head_adds_the_chosen_share_to_zero_shot() -> None:
    x, y, texts = world(40, 6, 3)
    tuned = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=20.0), "gda")
    unit = F.normalize(x, dim=1)
    weights, biases = reference.gaussian_discriminant(unit.double().tolist(), y.tolist(), 3)
    zero_shot = 20.0 * unit.double().numpy() @ F.normalize(texts, dim=1).double().numpy().T
    expected = zero_shot + tuned.best_params["alpha"] * (unit.double().numpy() @ weights.T + biases)
    np.testing.assert_allclose(tuned.scores(x).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_gda_does_not_validate_on_classes_that_a_fold_lacks() -> None:
    """Such images are never explained by the others, and drew alpha towards 0."""
    x, y, texts = world(14, 6, 10)  # classes 0 to 3 twice, the others once
    data = tuning_data(x, y, class_embeddings=texts, logit_scale=5.0)
    counted = data.validation_rows()[data.valid_mask()]
    assert 0 < len(counted) < 14
    unit = F.normalize(x, dim=1)
    scores = torch.zeros(14, 10)
    for fold in data.folds:
        weights, biases = _gaussian(unit[fold.train], F.one_hot(y[fold.train], 10).float())
        scores[fold.validation] = unit[fold.validation] @ weights.T + biases
    zero_shot = 5.0 * unit @ F.normalize(texts, dim=1).T
    for tried in tune(data, "gda").candidates:
        hits = (zero_shot + tried["alpha"] * scores)[counted].argmax(1) == y[counted]
        assert tried["validation"] == pytest.approx(float(hits.float().mean()), abs=1e-6)


def test_gda_weighs_its_parts_equally_where_nothing_validates() -> None:
    x, y, texts = world(4, 5, 4)
    tuned = tune(tuning_data(x, y, class_embeddings=texts), "gda_published")
    assert (tuned.best_params, tuned.validation, tuned.candidates) == ({"alpha": 1.0}, None, ())


@pytest.mark.parametrize("several", [False, True])
def test_tip_adapters_cache(several: bool) -> None:
    x, y, texts = world(11, 4, 3)
    query = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    values = F.one_hot(y, 3)
    if several:
        values[::2, 0] = 1
    texts = F.normalize(texts, dim=1)
    head = CacheHead(texts, F.normalize(x, dim=1), values.float(), 30.0, 2.0, 5.5)
    expected = reference.tip_scores(
        reference.unit_rows(query.double().tolist()), reference.unit_rows(x.double().tolist()),
        [row.nonzero().flatten().tolist() for row in values], texts.double().tolist(), 30.0, 2.0, 5.5,
    )  # fmt: skip
    np.testing.assert_allclose(head(query).numpy(), expected, rtol=1e-5, atol=1e-4)


def test_tip_adapter_has_its_papers_values_where_nothing_validates() -> None:
    x, y, texts = world(4, 5, 4)
    assert tune(tuning_data(x, y, class_embeddings=texts), "tip_adapter").best_params == {"alpha": 1.0, "beta": 5.5}


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_clap_takes_its_papers_steps(n: int, d: int, k: int, scale: float) -> None:
    x, y, texts = world(n, d, k)
    unit, towards, member = F.normalize(x, dim=1).double(), F.normalize(texts, dim=1).double(), F.one_hot(y, k).double()
    trust = reference.clap_trust(unit.tolist(), y.tolist(), towards.tolist(), scale)
    for steps in (1, 7):
        weights = clap_weights(unit, member, towards, scale, torch.tensor(trust), steps=steps)
        expected = reference.clap_weights(unit.tolist(), y.tolist(), towards.tolist(), scale, trust, steps)
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_claps_head_is_cosines_with_its_weights() -> None:
    x, y, texts = world(9, 4, 3)
    tuned = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=20.0), "clap")
    unit, towards = reference.unit_rows(x.double().tolist()), reference.unit_rows(texts.double().tolist())
    trust = reference.clap_trust(unit, y.tolist(), towards, 20.0)
    assert tuned.best_params["trust"] == pytest.approx(sum(trust) / 3, rel=1e-5)
    assert tuned.validation is None
    assert tuned.head.weight.norm(dim=1).tolist() == pytest.approx([20.0] * 3, rel=1e-5)


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_lpp_takes_its_papers_steps(n: int, d: int, k: int) -> None:
    x, y, texts = world(n, d, k)
    unit, towards = F.normalize(x, dim=1).double(), F.normalize(texts, dim=1).double()
    states = lpp_states(unit, F.one_hot(y, k).double(), towards)
    assert len(states) == 31
    for index in (0, 1, 3):
        expected = reference.lpp_weights(unit.tolist(), y.tolist(), towards.tolist(), 10 * index)
        np.testing.assert_allclose(states[index].numpy(), expected, rtol=1e-9, atol=1e-9)


def test_lpp_takes_all_steps_where_nothing_validates() -> None:
    x, y, _ = world(4, 5, 4)
    against, towards = x.roll(1, 0), x  # each image is nearest to the text of another class, or of its own
    tuned = tune(tuning_data(x, y, class_embeddings=against), "lp++")
    assert tuned.best_params == {"steps": 300.0}
    assert tuned.validation is None
    plain = tuning_data(x, y, class_embeddings=towards)
    assert tune(plain, "lp++").best_params == {"kind": "zero_shot"}
    torch.testing.assert_close(tune(plain, "lp++").scores(x), tune(plain, "zero_shot").scores(x))


def test_flags_of_scikit_learns_arithmetic_are_no_failure_and_ours_are() -> None:
    for name in ("invalid value", "divide by zero", "overflow"):
        warning = (f"{name} encountered in matmul", RuntimeWarning, "file.py", 1)
        warnings.warn_explicit(*warning, module="sklearn.linear_model._linear_loss")
        with pytest.raises(RuntimeWarning, match=name):
            warnings.warn_explicit(*warning, module="paired_scores.metrics.score")
    with pytest.raises(RuntimeWarning, match="divide"):
        warnings.warn_explicit("divide by zero encountered in log", RuntimeWarning, "f.py", 1, module="sklearn.utils")


def test_one_regression_per_label() -> None:
    """Each label's column is what scikit-learn gives for that label alone."""
    from sklearn.linear_model import LogisticRegression

    x, y, _ = world(40, 5, 3)
    both = F.one_hot(y, 3)
    both[::4, 0] = 1
    tuned = tune(tuning_data(x, both), "logistic")
    unit = F.normalize(x, dim=1).numpy()
    for label in range(3):
        alone = LogisticRegression(C=tuned.best_params["C"], max_iter=500).fit(unit, both[:, label].numpy())
        np.testing.assert_allclose(
            tuned.scores(x)[:, label].numpy(), alone.decision_function(unit), rtol=1e-3, atol=1e-3
        )

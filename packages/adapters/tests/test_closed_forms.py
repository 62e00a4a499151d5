"""SS-Text, ProKeR, the cross-modal probe and the published forms of GDA and CLAP, against slow definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vision_adapters import HeadClassifier
from vision_adapters.tuning import METHODS, tune, tuning_data
from vision_adapters.tuning.closed_forms import GDA_SHARES, KERNEL_PENALTIES, KERNEL_SHARPNESSES
from vision_adapters.tuning.probes import cross_modal_states

from . import _reference as reference

SIZES = [(5, 3, 2), (7, 4, 3), (12, 5, 4), (3, 7, 3)]
SCALE = 20.0


def world(n: int, d: int, k: int, seed: int = 0, noise: float = 1.0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(k, d, generator=generator)
    labels = torch.arange(n) % k
    images = centres[labels] + noise * torch.randn(n, d, generator=generator)
    return images, labels, centres + 0.5 * torch.randn(k, d, generator=generator)


def unit(rows: torch.Tensor) -> np.ndarray:
    return np.array(reference.unit_rows(rows.double().tolist()))


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
@pytest.mark.parametrize("plus", [False, True])
def test_ss_text_is_its_papers_formula(n: int, d: int, k: int, plus: bool) -> None:
    x, y, texts = world(n, d, k)
    tuned = tune(
        tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE),
        "ss_text+_published" if plus else "ss_text_published",
    )
    weights = reference.ss_text_weights(unit(x), y.tolist(), unit(texts), SCALE, plus)
    expected = SCALE * unit(x) @ (weights / np.linalg.norm(weights, axis=1, keepdims=True)).T
    np.testing.assert_allclose(tuned.scores(x).numpy(), expected, rtol=1e-4, atol=1e-3)
    assert (tuned.validation, tuned.candidates, tuned.chosen_with) == (None, (), "nothing")


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_proker_is_a_kernel_regression_of_what_zero_shot_leaves(n: int, d: int, k: int) -> None:
    x, y, texts = world(n, d, k)
    tuned = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE), "proker")
    query = torch.randn(6, d, generator=torch.Generator().manual_seed(3))
    beta, penalty = tuned.best_params["beta"], tuned.best_params["penalty"]
    expected = SCALE * reference.proker_scores(unit(query), unit(x), y.tolist(), unit(texts), beta, penalty)
    np.testing.assert_allclose(tuned.scores(query).numpy(), expected, rtol=1e-3, atol=1e-3)
    assert len(tuned.candidates) in (0, len(KERNEL_SHARPNESSES) * len(KERNEL_PENALTIES))


def test_proker_without_validation_has_fixed_values() -> None:
    x, y, texts = world(4, 5, 4)
    tuned = tune(tuning_data(x, y, class_embeddings=texts), "proker")
    assert (tuned.best_params, tuned.validation) == ({"beta": 1.0, "penalty": 0.1}, None)


@pytest.mark.parametrize(("n", "d", "k"), [(5, 3, 2), (7, 4, 3)])
def test_the_cross_modal_probe_takes_its_steps(n: int, d: int, k: int) -> None:
    x, y, texts = world(n, d, k)
    states = cross_modal_states(
        torch.from_numpy(unit(x)), F.one_hot(y, k).double(), torch.from_numpy(unit(texts)), SCALE, at=(0, 1, 6)
    )
    for steps, state in zip((0, 1, 6), states, strict=True):
        expected = reference.cross_modal_weights(unit(x), y.tolist(), unit(texts), SCALE, steps)
        np.testing.assert_allclose(state.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_the_cross_modal_probe_learns_from_texts_alone_where_a_fold_has_no_image() -> None:
    x, y, texts = world(40, 8, 4)
    tuned = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE), "cross_modal")
    assert [row["steps"] for row in tuned.candidates] == [0, 10, 20, 50, 100, 200, 400]
    (weight,) = cross_modal_states(
        F.normalize(x, dim=1), F.one_hot(y, 4).float(), F.normalize(texts, dim=1), SCALE,
        at=(int(tuned.best_params["steps"]),),
    )  # fmt: skip
    assert torch.equal(tuned.head.weight, SCALE * weight)


def test_claps_published_penalty_is_the_mean_over_classes_on_raw_texts() -> None:
    x, y, texts = world(9, 4, 3)
    texts = 3.0 * texts  # at length 1 the two would start alike
    tuned = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE), "clap_published")
    trust = np.array(reference.clap_trust(unit(x).tolist(), y.tolist(), unit(texts).tolist(), SCALE)) / 3
    expected = reference.clap_weights_quick(unit(x), y.tolist(), texts.double().numpy(), SCALE, trust, 300)
    expected *= SCALE / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(tuned.head.weight.detach().numpy(), expected, rtol=1e-3, atol=1e-2)
    ours = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE), "clap")
    assert not torch.allclose(ours.head.weight, tuned.head.weight, atol=0.5)


def test_the_quick_claps_definition_is_the_slow_one() -> None:
    x, y, texts = world(5, 3, 2)
    trust = np.array([0.4, 0.9])
    arguments = (unit(x), y.tolist(), texts.double().numpy(), 5.0, trust, 4)
    slow = reference.clap_weights(unit(x).tolist(), y.tolist(), texts.double().tolist(), 5.0, trust, 4)
    np.testing.assert_allclose(reference.clap_weights_quick(*arguments), slow, rtol=1e-6, atol=1e-6)


def test_gda_as_published_searches_seven_decades_with_the_labels_that_it_is_given() -> None:
    x, y, texts = world(40, 6, 4)
    inside = tune(tuning_data(x, y, class_embeddings=texts, logit_scale=SCALE), "gda_published")
    assert [row["alpha"] for row in inside.candidates] == list(GDA_SHARES) == [10.0**power for power in range(-4, 3)]
    assert inside.chosen_with == "its own shots"
    data = tuning_data(x[:8], y[:8], class_embeddings=texts, logit_scale=SCALE, validation=(x[8:], y[8:]))
    assert tune(data, "gda_published").chosen_with == "32 further labels"


def test_who_chooses_with_what() -> None:
    x, y, texts = world(40, 8, 4)
    kinds = {m: tune(tuning_data(x, y, class_embeddings=texts), m).chosen_with for m in METHODS if m != "elevater"}
    assert {m for m, kind in kinds.items() if kind == "nothing"} == {
        "zero_shot", "clap", "clap_published", "ss_text_published", "ss_text+_published",
    }  # fmt: skip
    assert set(kinds.values()) == {"nothing", "its own shots"}
    single = tuning_data(x[:4], y[:4], class_embeddings=texts)
    assert {tune(single, m).chosen_with for m in METHODS if m not in ("elevater", "lda")} == {"nothing"}
    classifier = HeadClassifier("proker", class_embeddings=texts.numpy()).fit(x.numpy(), y.numpy())
    assert classifier.chosen_with_ == "its own shots"


@pytest.mark.parametrize("method", ["ss_text", "ss_text+", "proker", "cross_modal", "gda_published", "clap_published"])
def test_texts_and_single_labels_are_needed(method: str) -> None:
    x, y, texts = world(12, 5, 3)
    with pytest.raises(ValueError, match="needs class_embeddings"):
        tune(tuning_data(x, y), method)
    with pytest.raises(ValueError, match="one label per sample"):
        tune(tuning_data(x, F.one_hot(y, 3), class_embeddings=texts), method)
    with pytest.raises(ValueError, match="lack the class 2"):
        HeadClassifier(method, class_embeddings={0: texts[0], 1: texts[1]}).fit(x, y)


def test_published_forms_trust_single_images_and_ours_keep_zero_shot() -> None:
    """With texts that are good, one image per class that varies much makes the published forms worse."""
    x, y, texts = encoder_world(0, 0.8)
    data = tuning_data(x[:10], y[:10], class_embeddings=texts)
    plain = tune(data, "zero_shot").scores(x)
    hits = lambda scores: float((scores[10:].argmax(1) == y[10:]).float().mean())  # noqa: E731
    for method in ("ss_text", "ss_text+", "gda", "clap"):
        ours = tune(data, method)
        torch.testing.assert_close(ours.scores(x), plain, rtol=1e-5, atol=1e-5)
        assert (ours.method, ours.chosen_with) == (method, "nothing")
        published = tune(data, f"{method}_published").scores(x)
        assert not torch.allclose(published, plain, atol=0.5)
        if method.startswith("ss_text"):
            assert hits(published) < hits(plain) - 0.03
    wrong = tuning_data(x[:10], y[:10], class_embeddings=texts.roll(1, 0))  # texts of other classes
    for method in ("ss_text", "ss_text+", "gda", "clap"):
        assert not torch.allclose(tune(wrong, method).scores(x), tune(wrong, "zero_shot").scores(x), atol=0.5)


@pytest.mark.parametrize("method", ["ss_text", "ss_text+", "gda", "clap", "lp++", "cross_modal"])
def test_one_image_per_class_leaves_zero_shot_only_at_chance(method: str) -> None:
    """Two of ten images hit: zero-shot stays, although texts that are half-way good hardly hit so few."""
    _, _, texts = encoder_world(0, 0.5)
    for right, stays in ((2, True), (1, False), (0, False)):
        shown = torch.cat([texts[:right], texts[right:].roll(1, 0)])
        data = tuning_data(shown, torch.arange(10), class_embeddings=texts)
        plain = tune(data, "zero_shot").scores(shown)
        same = torch.allclose(tune(data, method).scores(shown), plain, rtol=1e-4, atol=1e-3)
        if method != "cross_modal" or right != 2:  # this one asks whether all are off alike, too
            assert same == stays
    good = tuning_data(texts, torch.arange(10), class_embeddings=texts)
    torch.testing.assert_close(tune(good, method).scores(texts), tune(good, "zero_shot").scores(texts))


@pytest.mark.parametrize("method", ["ss_text", "ss_text+"])
def test_ss_text_of_few_images_is_taken_where_it_validates(method: str) -> None:
    """At four images per class it is nearest class mean: behind good texts, ahead of texts of other classes."""
    stays, gains, leaves = [], [], []
    for seed in range(20):
        x, y, texts = encoder_world(seed, 1.2)
        data = tuning_data(x[:40], y[:40], class_embeddings=texts)
        tuned, published, plain = (tune(data, m) for m in (method, f"{method}_published", "zero_shot"))
        assert [row["kind"] for row in tuned.candidates] == ["zero_shot", method]
        assert tuned.chosen_with == "its own shots"
        same = plain if tuned.best_params["kind"] == "zero_shot" else published
        torch.testing.assert_close(tuned.scores(x), same.scores(x))
        stays.append(same is plain)
        hits = [float((t.scores(x[40:]).argmax(1) == y[40:]).float().mean()) for t in (published, tuned, plain)]
        gains.append([hits[0] - hits[2], hits[1] - hits[2]])
        wrong = tune(tuning_data(x[:40], y[:40], class_embeddings=texts.roll(1, 0)), method)
        leaves.append(wrong.best_params == {"kind": method})
    assert np.mean(stays) > 0.7
    assert np.mean(leaves) >= 0.9  # one of twenty divisions may see wrong texts do as well by chance
    published_gain, gain = np.mean(gains, axis=0)
    assert published_gain < -0.1
    assert gain > published_gain / 4


def encoder_world(seed: int, noise: float) -> tuple[torch.Tensor, ...]:
    """Features as a dual encoder has them: images and texts each around a mean of their own."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator) / 8  # noqa: E731
    of_images, of_texts, centres = draw(64), draw(64), 0.35 * draw(10, 64)
    labels = torch.arange(400) % 10
    images = F.normalize(of_images + centres[labels] + noise * draw(400, 64), dim=1)
    return images, labels, F.normalize(of_texts + centres + 0.15 * draw(10, 64), dim=1)


@pytest.mark.parametrize(
    ("method", "noise"),
    [
        *((method, 0.4) for method in ("proker", "cross_modal", "ss_text+", "clap_published", "anchored")),
        *(
            (method, 0.8)
            for method in ("proker", "cross_modal", "anchored", "ss_text", "ss_text+", "gda", "clap", "lp++")
        ),
    ],
)
def test_one_shot_is_not_below_zero_shot(method: str, noise: float) -> None:
    """Twenty draws: the mean gain is not below zero by more than its interval."""
    gains = []
    for seed in range(20):
        x, y, texts = encoder_world(seed, noise)
        data = tuning_data(x[:10], y[:10], class_embeddings=texts)
        hits = [(tune(data, m).scores(x[10:]).argmax(1) == y[10:]).float().mean().item() for m in (method, "zero_shot")]
        gains.append(hits[0] - hits[1])
    assert np.mean(gains) + 2.09 * np.std(gains, ddof=1) / math.sqrt(20) >= 0

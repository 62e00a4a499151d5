"""Images without labels: the methods against slow definitions, the guard, and what cannot be done."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vision_adapters import HeldOut, load_head, save_head
from vision_adapters.tuning import transduce, tune, tuning_data
from vision_adapters.tuning.gaussians import GaussianHead, log_densities, nearest, stata, transclip
from vision_adapters.tuning.unlabelled import (
    Way,
    behind,
    doubt,
    label_marginal,
    labels_pay,
    ss_text_u_weights,
    transported,
    unsteady,
)

from . import _transduction as slow


def world(n: int, d: int, k: int, seed: int = 0, noise: float = 0.5) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(k, d, generator=generator).double()
    labels = torch.arange(n) % k
    images = F.normalize(centres[labels] + noise * torch.randn(n, d, generator=generator).double(), dim=1)
    texts = F.normalize(centres + 0.8 * torch.randn(k, d, generator=generator).double(), dim=1)
    return images, labels, texts


SIZES = [(9, 4, 3), (2, 3, 2), (14, 5, 4), (11, 3, 2)]


@pytest.mark.parametrize("few", [0, 3])
@pytest.mark.parametrize("method", [stata, transclip])
@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_mixtures_are_their_slow_definitions(n: int, d: int, k: int, method: object, few: int) -> None:
    x, y, texts = world(n, d, k)
    few = min(few, n - 1)
    done = method(x, texts, 10.0, F.one_hot(y[:few], k).double(), rounds=2)
    z, means, variances = slow.mixture(x.tolist(), texts.tolist(), 10.0, y[:few].tolist(), 2, anchored=method is stata)
    if (z.sum(0) < 1e-6).any():
        pytest.skip("a class without an image has no mean in the slow form")
    np.testing.assert_allclose(done.assignment.numpy(), z, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(done.means.numpy(), means, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(done.variances.numpy(), np.maximum(variances, 1e-8), rtol=1e-5, atol=1e-9)


def test_float32_gives_the_answers_of_float64() -> None:
    x, _, texts = world(300, 32, 10)
    single, double = stata(x.float(), texts.float(), 10.0), stata(x, texts, 10.0)
    assert float((single.assignment.double() - double.assignment).abs().max()) < 1e-2
    assert torch.equal(single.assignment.argmax(1), double.assignment.argmax(1))


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_ss_text_u_is_its_slow_definition(n: int, d: int, k: int) -> None:
    x, y, texts = world(n + 3, d, k)
    member = F.one_hot(y[:3], k).double()
    weights = ss_text_u_weights(x[3:], texts, 10.0, x[:3], member, label_marginal(member))
    expected = slow.ss_text_u(x[3:].tolist(), texts.tolist(), 10.0, x[:3].tolist(), y[:3].tolist())
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_transport_meets_the_marginal() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, marginal = 5 * torch.randn(50, 4, generator=generator).double(), torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    codes = transported(scores, marginal, 200)
    assert codes.sum(1).tolist() == pytest.approx([1.0] * 50)
    assert codes.sum(0).tolist() == pytest.approx([5.0, 10.0, 15.0, 20.0], rel=1e-6)
    np.testing.assert_allclose(
        transported(scores, marginal, 3).numpy(), slow.transport(scores.tolist(), marginal.tolist(), 3), rtol=1e-9
    )
    assert torch.equal(transported(scores, marginal, 0), scores.softmax(1))


def test_a_class_without_a_label_is_rarer_than_the_rarest() -> None:
    share = label_marginal(F.one_hot(torch.tensor([0, 0, 0, 1]), 4).double())
    assert share.tolist() == pytest.approx([value / 1.125 for value in (0.75, 0.25, 0.0625, 0.0625)])


def test_blocks_of_rows_have_the_same_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    x = world(40, 6, 4)[0]
    whole = nearest(x)
    monkeypatch.setattr("vision_adapters.tuning.gaussians.CELLS", 120)
    parts = nearest(x)
    assert torch.equal(whole.neighbours, parts.neighbours)
    assert [[j for j, _ in row] for row in slow.neighbours(x.tolist(), 3)] == whole.neighbours.tolist()


def test_log_densities() -> None:
    generator = torch.Generator().manual_seed(0)
    x, means = torch.randn(5, 3, generator=generator), torch.randn(2, 3, generator=generator)
    variances = torch.rand(2, 3, generator=generator) + 0.1
    expected = [[slow.log_density(row, m, v) for m, v in zip(means.tolist(), variances.tolist(), strict=True)]
                for row in x.tolist()]  # fmt: skip
    np.testing.assert_allclose(log_densities(x, means, variances).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("method", ["stata", "transclip", "ss_text_u"])
def test_images_without_labels_help(method: str) -> None:
    x, y, texts = world(600, 16, 5, noise=0.9)
    labelled = (x[:10], y[:10])
    done = transduce(x[10:], texts, method=method, logit_scale=10.0, labelled=labelled)
    zero_shot = (x[10:] @ texts.T).argmax(1)
    assert done.fallback == ""
    assert done.method == method
    right = [float((guess == y[10:]).double().mean()) for guess in (done.probabilities.argmax(1), zero_shot)]
    assert right[0] > right[1] + 0.02
    with torch.no_grad():
        assert float((done.head(x[10:].float()).argmax(1) == y[10:]).double().mean()) > right[1] + 0.02
    assert done.probabilities.sum(1).numpy() == pytest.approx(1.0, abs=1e-5)


def test_tune_takes_images_without_labels(tmp_path: object) -> None:
    x, y, texts = world(600, 16, 5, noise=0.9)
    x, texts = x.float(), texts.float()
    data = tuning_data(x[:10], y[:10], class_embeddings=texts, logit_scale=10.0)
    tuned = tune(data, unlabelled=x[10:300])
    assert (tuned.method, tuned.best_params, tuned.chosen_with) == ("stata", {}, "nothing")
    held = HeldOut(x[300:], y[300:])
    assert held.score(tuned).value > held.score(tune(data, "zero_shot")).value
    assert isinstance(tuned.head, GaussianHead)
    save_head(tuned.head, tmp_path, classes="abcde")
    assert torch.equal(load_head(tmp_path).module(x), tuned.head(x))
    few = tune(data, unlabelled=x[:1])
    assert few.method == "anchored"
    assert "1 image without a label" in few.best_params["fallback"]
    torch.testing.assert_close(few.scores(x), tune(data).scores(x))


@pytest.mark.parametrize("count", [0, 1])
def test_none_or_one_image_keeps_zero_shot(count: int) -> None:
    x, _, texts = world(20, 6, 3)
    done = transduce(x[:count], texts)
    assert done.fallback.startswith("zero-shot is kept: ")
    assert done.probabilities.shape == (count, 3)
    assert transduce(torch.zeros(0), texts).fallback.endswith("no image without a label")


def test_classes_that_run_together_are_a_doubt() -> None:
    """One class that takes all images agrees with its neighbours everywhere, and is still no reason."""
    x, y, _ = world(300, 16, 12)
    before, graph = F.one_hot(y, 12).double(), nearest(x)
    assert doubt(before, before, graph) == ""
    assert "run together, 1.0 after 12.0" in doubt(before, F.one_hot(0 * y, 12).double(), graph)
    assert "run together, 3.0 after 12.0" in doubt(before, F.one_hot(y % 3, 12).double(), graph)
    assert doubt(before, F.one_hot(y % 5, 12).double(), graph) == ""
    scattered = torch.randint(12, (300,), generator=torch.Generator().manual_seed(0))
    assert "neighbours agree" in doubt(before, F.one_hot(scattered, 12).double(), graph)


def test_neighbours_that_agree_less_keep_zero_shot() -> None:
    """TransCLIP on a batch of three classes out of fifty spreads them over all: StatA does not."""
    x, y, texts = world(3000, 32, 50, noise=0.6)
    batch = (y < 3).nonzero().flatten()[:64]
    done = transduce(x[batch], texts, method="transclip", logit_scale=30.0)
    assert "neighbours agree" in done.fallback
    assert transduce(x[batch], texts, logit_scale=30.0).fallback == ""


def test_labels_that_zero_shot_hits_and_transduction_does_not() -> None:
    labels = torch.arange(20) % 4
    member = F.one_hot(labels, 4).double()
    wrong = torch.where(torch.arange(20) < 8, (labels + 1) % 4, labels)
    assert behind(member, F.one_hot(wrong, 4).double(), member) == "of 20 labels it hits 12 unseen, zero-shot 20"
    assert behind(F.one_hot(wrong, 4).double(), member, member) == ""
    assert behind(member[:10], F.one_hot(torch.where(torch.arange(10) < 1, 3, labels[:10]), 4).double(), member[:10])
    assert behind(member[:1], member[1:2], member[:1]) == ""  # one label tells nothing


def test_a_head_for_other_images_has_the_mean_variance_of_the_classes() -> None:
    x, _, texts = (rows.float() for rows in world(90, 16, 3))
    x, texts = F.normalize(x, dim=1), F.normalize(texts, dim=1)
    mixture = stata(x, texts, 100.0)
    count = mixture.assignment.sum(0)
    mean = sum(count[c] * mixture.variances[c] for c in range(3)) / count.sum()
    head = transduce(x, texts, guard=False).head
    torch.testing.assert_close(head.variances, mean.expand(3, 16), rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(head.means, mixture.means, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["stata", "ss_text_u", "transclip"])
def test_halves_that_disagree_keep_the_head_of_the_labels(method: str) -> None:
    """Forty images in 256 dimensions, nearly all noise, and the same without it."""
    reasons = []
    for noise in (6.0, 0.1):
        x, y, texts = (rows.float() for rows in world(48, 256, 4, noise=noise))
        member = F.one_hot(y[:8].long(), 4).float()
        reasons.append(unsteady(x, texts, 100.0, member, True, method, Way(nearest(x), label_marginal(member))))
    assert reasons[0].startswith("heads of two halves of the images agree on ")
    assert int(reasons[0].split()[-3].rstrip("%")) < 85
    assert reasons[1] == ""


def test_too_few_images_for_their_dimensions_fall_back() -> None:
    x, y, texts = world(60, 256, 4, noise=6.0)
    done = transduce(x[8:], texts, logit_scale=10.0, labelled=(x[:8], y[:8]))
    assert "heads of two halves of the images agree on" in done.fallback
    assert done.method in ("anchored", "zero_shot")
    free = transduce(x[8:], texts, logit_scale=10.0, labelled=(x[:8], y[:8]), guard=False)
    assert (free.method, free.fallback) == ("stata", "")


def test_ss_text_u_takes_labels_that_pay() -> None:
    x, y, _ = world(600, 16, 5, noise=0.5)
    useless = F.normalize(torch.randn(5, 16, generator=torch.Generator().manual_seed(3)).double(), dim=1)
    marginal = torch.full((5,), 0.2).double()
    pays = lambda labels: labels_pay(x, useless, 10.0, F.one_hot(labels, 5).double(), Way(nearest(x), marginal))  # noqa: E731
    assert pays(y[:40])
    assert not pays(y[torch.randperm(40, generator=torch.Generator().manual_seed(1))])
    assert not pays(y[:5])  # with one image per class none can be held out


def test_ss_text_u_at_one_image_per_class_has_the_labels_frequencies_alone() -> None:
    x, y, texts = world(600, 16, 5, noise=0.5)
    done = transduce(x[5:], texts, method="ss_text_u", logit_scale=10.0, labelled=(x[:5], y[:5]))
    member = F.one_hot(y[:5], 5).double()
    weight = ss_text_u_weights(x, texts, 10.0, x[:0], member[:0], label_marginal(member))
    assert done.fallback == ""
    expected = (10 * x[5:] @ F.normalize(weight, dim=1).T).softmax(1)
    np.testing.assert_allclose(done.probabilities.numpy(), expected.numpy(), rtol=1e-3, atol=1e-5)


def test_useless_texts_leave_the_head_of_the_labels() -> None:
    """Texts of other classes: what the labels alone give is kept, not zero-shot at chance."""
    generator = torch.Generator().manual_seed(3)
    x, y, _ = world(600, 16, 5)
    x, texts = x.float(), torch.randn(5, 16, generator=generator)
    data = tuning_data(x[:20], y[:20], class_embeddings=texts)
    alone = tune(data)
    for method in ("stata", "ss_text_u", "transclip"):
        tuned = tune(data, method, unlabelled=x[20:21])
        torch.testing.assert_close(tuned.scores(x), alone.scores(x))
        assert tuned.best_params["fallback"].startswith("the head of the labels alone is kept: 1 image without a label")
        assert (tuned.method, tuned.chosen_with) == ("anchored", "its own shots")
    done = transduce(x[20:21], texts, labelled=(x[:20], y[:20]))
    assert done.method == "anchored"
    torch.testing.assert_close(done.probabilities, done.head(x[20:21]).softmax(1))
    assert float((done.head(x[20:]).argmax(1) == y[20:]).float().mean()) > 0.8
    shown = (y[:20] != 3).nonzero().flatten()  # a class without a label keeps its text
    assert transduce(x[20:21], texts, labelled=(x[shown], y[shown])).fallback.startswith("zero-shot is kept")


def test_all_images_in_one_class_stay_there() -> None:
    x, y, texts = world(600, 16, 6, noise=0.6)
    batch = (y == 2).nonzero().flatten()[:50]
    zero_shot = float(((x[batch] @ texts.T).argmax(1) == 2).double().mean())
    done = transduce(x[batch], texts, logit_scale=20.0)
    assert float((done.probabilities.argmax(1) == 2).double().mean()) >= zero_shot


def test_a_class_that_only_a_text_names() -> None:
    x, y, texts = world(400, 16, 5, noise=0.8)
    shown = (y[:20] != 3).nonzero().flatten()
    with pytest.raises(ValueError, match=r"class 3 of 5 has no image.*transduce takes classes that only a text names"):
        tuning_data(x[shown], y[shown], class_embeddings=texts)
    for method in ("stata", "ss_text_u"):
        done = transduce(x[20:], texts, method=method, logit_scale=20.0, labelled=(x[shown], y[shown]))
        assert float((done.probabilities.argmax(1)[y[20:] == 3] == 3).double().mean()) > 0.5


def test_bad_input_is_named() -> None:
    x, y, texts = world(30, 6, 3)
    data = tuning_data(x, y, class_embeddings=texts)
    with pytest.raises(ValueError, match="'nope' takes no images without labels, expected one of stata"):
        transduce(x, texts, method="nope")
    with pytest.raises(ValueError, match="class 1 has no text"):
        transduce(x, texts * torch.tensor([[1.0], [0.0], [1.0]]))
    with pytest.raises(ValueError, match="unlabelled features have 5 columns, class_embeddings 6"):
        transduce(x[:, :5], texts)
    with pytest.raises(ValueError, match="row 2 holds NaN"):
        transduce(torch.cat([x[:2], math.nan * x[:1]]), texts)
    with pytest.raises(ValueError, match="frequencies from few labels, and there are none"):
        transduce(x, texts, method="ss_text_u")
    with pytest.raises(ValueError, match="logit_scale must be positive, got 0"):
        transduce(x, texts, logit_scale=0)
    with pytest.raises(ValueError, match="'gda' takes no unlabelled"):
        tune(data, "gda", unlabelled=x)
    with pytest.raises(ValueError, match=r"'stata' needs images without labels: tune\(data, 'stata', unlabelled="):
        tune(data, "stata")
    with pytest.raises(TypeError, match="held-out test data"):
        tune(data, unlabelled=HeldOut(x, y))
    with pytest.raises(ValueError, match="needs class_embeddings"):
        tune(tuning_data(x, y), unlabelled=x)

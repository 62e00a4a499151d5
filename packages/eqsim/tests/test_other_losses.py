"""CyCLIP's terms and the loss for matching heads against their definitions, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch

from eqsim import ClipEqSimLoss, CyclicLoss, EqSimITMLoss, EqSimLoss, SigLipEqSimLoss
from eqsim.settings import Settings

from . import _reference


def features(n: int, d: int = 5, spread: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    image = torch.randn(n, d, generator=generator, dtype=torch.float64)
    text = image + spread * torch.randn(n, d, generator=generator, dtype=torch.float64)
    return [image.requires_grad_(), text.requires_grad_()]


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_cyclic_is_the_loop(n: int, spread: float) -> None:
    inputs = features(n, spread=spread)
    named = CyclicLoss(0.3, 0.7, "mean")(*inputs, output_dict=True)
    slow = _reference.cyclic(*inputs)
    for ours, theirs, weight in zip(named.values(), slow, (0.3, 0.7), strict=True):
        torch.testing.assert_close(ours, weight * theirs, rtol=1e-8, atol=1e-15)
        grads = [torch.autograd.grad(value, inputs, retain_graph=True) for value in (ours, weight * theirs)]
        for fast, plain in zip(*grads, strict=True):
            torch.testing.assert_close(fast, plain, rtol=1e-7, atol=1e-13)
    reference = CyclicLoss(0.3, 0.7)(*inputs)
    torch.testing.assert_close(reference, n * (named["in_modal_loss"] + named["cross_modal_loss"]))


def test_the_cross_modal_term_is_v1_over_all_pairs() -> None:
    n = 12
    inputs = features(n)
    cross = CyclicLoss(0.0, 1.0, "mean")(*inputs)
    torch.testing.assert_close(cross, EqSimLoss("v1")(*inputs) * (n - 1) / n)


@pytest.mark.parametrize("mode", ["v1", "v2"])
@pytest.mark.parametrize("margin_mode", ["mean", "pair"])
def test_matching_heads_score_quadruples(mode: str, margin_mode: str) -> None:
    generator = torch.Generator().manual_seed(0)
    heads = torch.randn(4, 7, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    score = heads.softmax(dim=-1)[..., 1]
    squares = {
        "v1": [(score[1] - score[2]).square()],
        "v2": [
            ((score[0] - score[1]) - (score[3] - score[2])).square(),
            ((score[0] - score[2]) - (score[3] - score[1])).square(),
        ],
    }[mode]
    if margin_mode == "mean":
        expected = sum(torch.relu(square.mean() - 0.05) for square in squares)
    else:
        expected = sum(torch.relu(square - 0.05).mean() for square in squares)
    loss = EqSimITMLoss(mode, "softmax", margin=0.05, margin_mode=margin_mode, weight=2.0)(*heads)
    torch.testing.assert_close(loss, 2 * expected)
    torch.testing.assert_close(torch.autograd.grad(loss, heads)[0], torch.autograd.grad(2 * expected, heads)[0])
    single = EqSimITMLoss(mode, "sigmoid", margin=0.05, margin_mode=margin_mode)(*(heads[..., 1] - heads[..., 0]))
    torch.testing.assert_close(single, expected)


def test_matching_heads_in_half_precision() -> None:
    heads = 30 * torch.eye(4, dtype=torch.float16)
    assert EqSimITMLoss()(*heads).dtype == torch.float32


def test_weight_and_margin_of_a_matching_loss_may_be_set_between_steps() -> None:
    heads = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss = EqSimITMLoss("v1")
    assert (loss.mode, loss.sides, loss.margin, loss.weight) == ("v1", ("text", "image"), 0.0, 1.0)
    loss.margin, loss.weight = 0.01, 0.5
    torch.testing.assert_close(loss(*heads), EqSimITMLoss("v1", margin=0.01, weight=0.5)(*heads))


@pytest.mark.parametrize("kind", [EqSimLoss, ClipEqSimLoss, SigLipEqSimLoss])
def test_a_signature_lists_every_setting_with_its_default(kind: type) -> None:
    listed = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
    fields = {field.name: field.default for field in dataclasses.fields(Settings) if field.name != "contrast"}
    assert listed == fields


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (lambda: CyclicLoss(-1.0), "in_modal=-1.0"),
        (lambda: CyclicLoss(reduction="sum"), "'sum'"),
        (lambda: CyclicLoss()(torch.ones(2, 3), torch.ones(3, 3)), r"\(2, 3\) against \(3, 3\)"),
        (lambda: EqSimITMLoss("hybrid"), "'hybrid'"),
        (lambda: EqSimITMLoss(activation="tanh"), "'tanh'"),
        (lambda: EqSimITMLoss(weight=-1), "weight=-1"),
        (lambda: EqSimITMLoss(activation="softmax")(*torch.ones(4, 5)), r"\(5,\): expected \(\.\.\., 2\)"),
        (lambda: EqSimITMLoss()(torch.ones(2), torch.ones(2), torch.ones(2), torch.ones(3)), r"\(3,\)"),
    ],
)
def test_bad_input_is_named(build: object, shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        build()


TEACHER = (torch.ones(2, 4), torch.ones(3, 4), 1.0)


@pytest.mark.parametrize(
    ("settings", "arguments", "shown"),
    [
        ({}, {"teacher": TEACHER}, "teacher was given with keep_weight=0"),
        ({"keep_weight": 1.0}, {}, r"teacher is None with keep_weight=1.0"),
        (
            {"keep_weight": 1.0},
            {"teacher": (*TEACHER[:1], torch.ones(2, 4), 1.0)},
            r"\(2, 2\) images and texts.*\(2, 3\)",
        ),
        (
            {"keep_weight": 1.0},
            {"teacher": (torch.ones(2, 4), torch.ones(3, 5), 1.0)},
            "the teacher's .* differ in width",
        ),
        ({"hard_weight": 1.0}, {}, "negatives_of is None with 1 negatives"),
        ({"hard_weight": 1.0}, {"negatives_of": torch.tensor([2])}, r"negatives_of holds 2: .* \[0, 2\)"),
        ({"hard_weight": 1.0}, {"negatives_of": torch.tensor([0, 1])}, r"\(2,\): expected torch.int64 of shape \(1,\)"),
        ({"keep": "cosine"}, {}, "keep='cosine'"),
        ({"smoothing": 1.0}, {}, "smoothing=1.0"),
    ],
)
def test_bad_negatives_and_teachers_are_named(
    settings: dict[str, object], arguments: dict[str, object], shown: str
) -> None:
    with pytest.raises(ValueError, match=shown):
        ClipEqSimLoss("v1", **settings)(torch.ones(2, 3), torch.ones(3, 3), 1.0, **arguments)


def test_a_caption_without_a_picture_is_refused_where_it_changes_nothing() -> None:
    with pytest.raises(ValueError, match="3 texts for 2 images: a caption without an image changes nothing"):
        EqSimLoss("v1")(torch.ones(2, 3), torch.ones(3, 3))


def test_a_teacher_that_is_the_model_itself_pulls_on_nothing() -> None:
    image, text = (rows.detach().requires_grad_() for rows in features(6))
    for keep in ("kl", "squares"):
        loss = ClipEqSimLoss("none", keep_weight=1.0, keep=keep, backend="tiled")
        keep_loss = loss(image, text, 3.0, teacher=(image.detach(), text.detach(), 3.0), output_dict=True)["keep_loss"]
        gradients = torch.autograd.grad(keep_loss, (image, text))
        assert abs(float(keep_loss.detach())) < 1e-12
        assert max(float(grad.abs().max()) for grad in gradients) < 1e-12

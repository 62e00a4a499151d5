from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vision_adapters import losses

from . import _reference as slow


def pixels(n: int, k: int, h: int, w: int, seed: int, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, h, w, generator=generator)
    targets = torch.randint(0, k, (n, h, w), generator=generator)
    targets[torch.rand(n, h, w, generator=generator) < 0.2] = -100
    return logits, targets


def rows(logits: torch.Tensor) -> list[list[float]]:
    return logits.double().movedim(1, -1).flatten(0, -2).tolist()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3), st.integers(2, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99),
    st.sampled_from([0.5, 5.0, 30.0]),
)  # fmt: skip
def test_pixel_losses_match_their_definitions(n: int, k: int, h: int, w: int, seed: int, scale: float) -> None:
    logits, targets = pixels(n, k, h, w, seed, scale)
    z, y = rows(logits), targets.flatten().tolist()
    objects = [-100 if each == 0 else each for each in y]
    close = {"rel": 2e-5, "abs": 2e-6}
    assert float(losses.cross_entropy(logits, targets)) == pytest.approx(slow.cross_entropy(z, y), **close)
    assert float(losses.soft_dice_loss(logits, targets)) == pytest.approx(slow.soft_dice(z, y), **close)
    seg = sum(
        weight * (slow.cross_entropy(z, part, 2.0) + slow.cross_entropy(z, part)) / 2
        for weight, part in ((1.0, objects), (0.1, y))
    )
    assert float(losses.segmentation_loss(logits, targets)) == pytest.approx(seg, **close)
    structures = slow.soft_dice(z, y, background=0)
    alone = k * slow.soft_dice(z, y) - (k - 1) * structures
    assert float(losses.acdc_loss(logits, targets)) == pytest.approx(structures + 0.01 * alone, **close)


@pytest.mark.parametrize("loss", [losses.soft_dice_loss, losses.segmentation_loss, losses.acdc_loss])
def test_gradients_agree_with_differences(loss: object) -> None:
    logits, targets = pixels(2, 3, 2, 3, 1)
    assert torch.autograd.gradcheck(lambda z: loss(z, targets), (logits.double().requires_grad_(),))


def test_masks_loss_is_finite_at_certainty() -> None:
    logits = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    value = losses.segmentation_loss(logits, torch.tensor([1, 1]))
    value.backward()
    assert torch.isfinite(logits.grad).all()
    assert float(value.detach()) == pytest.approx(1.1 * 200.0)


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [7, 7, 2, 7, 2], [3]])
def test_contrastive_loss_matches_the_definition(groups: list[int]) -> None:
    n = len(groups)
    logits = 3 * torch.randn(n, n, generator=torch.Generator().manual_seed(n))
    expected = slow.symmetric_cross_entropy(logits.double().tolist(), groups)
    assert float(losses.symmetric_cross_entropy(logits, torch.tensor(groups))) == pytest.approx(
        expected, rel=1e-5, abs=1e-7
    )


def test_binary_cross_entropy_counts_every_label() -> None:
    z, y = torch.tensor([[0.3, -2.0]]), torch.tensor([[1, 0]])
    p = 1 / (1 + np.exp(-np.array([0.3, -2.0])))
    assert float(losses.binary_cross_entropy(z, y)) == pytest.approx(
        float(-(np.log(p[0]) + np.log(1 - p[1])) / 2), rel=1e-6
    )


def test_nothing_to_count_is_zero_with_a_gradient() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    losses.cross_entropy(logits, torch.tensor([-100, -100])).backward()
    assert torch.equal(logits.grad, torch.zeros(2, 3))


def test_errors_show_the_value() -> None:
    with pytest.raises(ValueError, match="target 7 is out of range"):
        losses.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 7]))
    with pytest.raises(ValueError, match="target -1 is out of range"):
        losses.soft_dice_loss(torch.zeros(2, 3), torch.tensor([0, -1]))
    with pytest.raises(ValueError, match=r"shape \(4, 2\)"):
        losses.l1(torch.zeros(4, 2), torch.zeros(4))


def test_weights_of_classes_are_torchs_and_balance_makes_classes_count_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(12, 3, generator=generator), torch.tensor([0] * 8 + [1] * 3 + [-100])
    weight = losses.class_balance(labels[:11], 3)
    ours = losses.cross_entropy(logits, labels, weight)
    torch.testing.assert_close(
        ours, torch.nn.functional.cross_entropy(logits, labels, weight=weight, ignore_index=-100)
    )
    cross_entropy = torch.nn.functional.cross_entropy(logits[:11], labels[:11], reduction="none")
    torch.testing.assert_close(ours, (cross_entropy[:8].mean() + cross_entropy[8:].mean()) / 2)


@pytest.mark.parametrize("targets", [[0, 0, 0], [-100, -100, -100], [0, -100, 0]])
def test_a_batch_whose_classes_weigh_nothing_has_loss_and_gradient_0(targets: list[int]) -> None:
    logits = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = losses.cross_entropy(logits, torch.tensor(targets), weight=torch.tensor([0.0, 1.0]))
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()

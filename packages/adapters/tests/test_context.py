"""Prompt learning: what is fitted, from where, and how long."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vision_adapters.training import ContextHead, coop_recipe, fit_context


class Tower(nn.Module):
    """A text tower that reads vectors in front of names."""

    def __init__(self, names: torch.Tensor) -> None:
        super().__init__()
        self.names = names
        generator = torch.Generator().manual_seed(5)
        self.first = nn.Parameter(torch.randn(4, 6, generator=generator), requires_grad=False)
        self.second = nn.Parameter(torch.randn(6, 8, generator=generator), requires_grad=False)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        read = context.mean(-2).expand(len(self.names), 4) + self.names
        return torch.tanh(read @ self.first) @ self.second


def world(classes: int = 3) -> tuple[torch.Tensor, torch.Tensor, Tower]:
    generator = torch.Generator().manual_seed(0)
    centres, labels = torch.randn(classes, 8, generator=generator), torch.arange(12) % classes
    x = centres[labels] + 0.3 * torch.randn(12, 8, generator=generator)
    return x, labels, Tower(torch.randn(classes, 4, generator=generator))


@pytest.mark.parametrize("own", [False, True])
def test_the_context_alone_is_fitted_and_explains_the_images_better(own: bool) -> None:
    x, y, tower = world()
    before = {name: value.clone() for name, value in tower.state_dict().items()}
    head = fit_context(x, y, tower, 4, classes=3, logit_scale=5.0, shots=4, tokens=2, class_specific=own, seed=1)
    assert head.context.shape == ((3, 2, 4) if own else (2, 4))
    start = 0.02 * torch.randn(head.context.shape, generator=torch.Generator().manual_seed(1))
    loss = [float(F.cross_entropy(ContextHead(tower, u, 5.0)(x), y).detach()) for u in (start, head.context.detach())]
    assert loss[1] < loss[0] - 0.05
    assert all(torch.equal(value, before[name]) for name, value in tower.state_dict().items())
    texts = F.normalize(tower(head.context), dim=1)
    torch.testing.assert_close(head(x), 5.0 * F.normalize(x, dim=1) @ texts.T)
    again = fit_context(x, y, tower, 4, classes=3, logit_scale=5.0, shots=4, tokens=2, class_specific=own, seed=1)
    assert torch.equal(again.context, head.context)


def test_a_step_is_sgds_from_the_drawn_start() -> None:
    """One epoch of one batch: the start less the rate of the first step times the gradient with its decay."""
    x, y, tower = world()
    recipe = coop_recipe(1, 12)
    assert (recipe.steps, recipe.batch_size, recipe.weight_decay, recipe.momentum) == (50, 32, 5e-4, 0.9)
    assert [coop_recipe(shots, 320).steps for shots in (1, 2, 4, 8, 16)] == [500, 1000, 1000, 2000, 2000]
    single = type(recipe)(**{**vars(recipe), "steps": 1, "warmup": 0, "validate_every": 1})
    head = fit_context(x, y, tower, 4, classes=3, logit_scale=5.0, tokens=2, seed=3, recipe=single)
    start = (0.02 * torch.randn(2, 4, generator=torch.Generator().manual_seed(3))).requires_grad_(True)
    scores = 5.0 * F.normalize(x, dim=1) @ F.normalize(tower(start), dim=1).T
    (gradient,) = torch.autograd.grad(F.cross_entropy(scores, y), start)
    torch.testing.assert_close(head.context, start - 0.002 * (gradient + 5e-4 * start))


def test_what_cannot_be_fitted_is_named() -> None:
    x, y, tower = world()
    with pytest.raises(ValueError, match=r"labels: 2 at \[2\] is out of range, expected 0..1"):
        fit_context(x, y, tower, 4, classes=2)
    with pytest.raises(ValueError, match=r"labels: 0.5 at \[0\] is out of range"):
        fit_context(x, torch.where(y == 0, 0.5, y), tower, 4, classes=3)
    with pytest.raises(ValueError, match="must be positive, got 0, 4 and 100"):
        fit_context(x, y, tower, 4, classes=3, tokens=0)
    with pytest.raises(ValueError, match="shots and images must be at least 1, got 0 and 3"):
        coop_recipe(0, 3)

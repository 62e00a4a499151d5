"""CLIP-LoRA's and 2SFS's settings: what is trained by them, and how long."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vision_adapters.finetune import train_only
from vision_adapters.heads import language_head
from vision_adapters.low_rank import add_lora
from vision_adapters.training import clip_lora, fit, two_stage


class Small(nn.Module):
    """An attention over four places, and a head at class texts."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        for parameter in self.attention.parameters():
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
        self.texts = torch.randn(3, 8, generator=generator)
        self.head = language_head(self.texts, 10.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return self.head((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(12) % 3
    centres = torch.randn(3, 4, 8, generator=generator)
    return centres[labels] + 0.2 * torch.randn(12, 4, 8, generator=generator), labels


def trained(module: nn.Module, recipe: object) -> list[float]:
    x, y = data()
    loss = nn.functional.cross_entropy
    with torch.no_grad():
        before = float(loss(module(x), y))
    fit(module, (x,), y, loss=loss, direction="higher", seed=0, recipe=recipe, validate=lambda m: 0.0,
        checkpoint=None, choose="last")  # fmt: skip
    with torch.no_grad():
        return [before, float(loss(module(x), y))]


def test_clip_lora_trains_updates_of_the_attention_alone() -> None:
    pytest.importorskip("peft")
    module = Small()
    settings = clip_lora(module, shots=4, lr=0.01, steps=40)
    assert (settings.rank, settings.alpha, settings.targets) == (2, 1, ["attention"])
    module.head.requires_grad_(False)
    names = add_lora(module, rank=settings.rank, alpha=settings.alpha, targets=settings.targets)
    assert names
    assert all("lora" in name and name.startswith("attention") for name in names)
    before, after = trained(module, settings.recipe)
    assert after < 0.9 * before
    recipe = clip_lora(Small(), shots=4).recipe
    assert (recipe.lr, recipe.steps, recipe.batch_size, recipe.schedule) == (2e-4, 2000, 32, "cosine")


def test_two_stages_train_norms_and_then_the_head() -> None:
    module = Small()
    first, second = two_stage(4, lr=0.02, batch_size=12)
    assert (first.steps, second.steps) == (720, 480)
    first, second = two_stage(1, lr=0.02, batch_size=12)
    assert (first.steps, second.steps) == (180, 120)
    assert train_only(module, "norm") == ["norm.weight", "norm.bias"]
    before, between = trained(module, first)
    norms = module.norm.weight.detach().clone()
    module.requires_grad_(False)
    module.head.requires_grad_(True)
    again, after = trained(module, second)
    assert before > between == pytest.approx(again)
    assert after < again
    assert torch.equal(module.norm.weight, norms)


def test_what_the_settings_do_not_suit_is_refused() -> None:
    with pytest.raises(ValueError, match="shots must be at least 1, got 0"):
        two_stage(0)
    with pytest.raises(ValueError, match="shots must be at least 1, got 0"):
        clip_lora(Small(), 0)
    with pytest.raises(ValueError, match="Sequential has no attention"):
        clip_lora(nn.Sequential(nn.Linear(2, 2)), 1)

from __future__ import annotations

import itertools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vision_adapters.efficiency import performance_efficiency
from vision_adapters.finetune import interpolate, keep_blocks, recompute_blocks, train_only
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy
from vision_adapters.training import Recipe, fit, gate_recipe
from vision_adapters.training.outcome import Kept, best_first
from vision_adapters.training.schedule import parameter_groups


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(3))
        self.norm = nn.LayerNorm(8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).mean(2)
        for block in self.blocks:
            x = x + block(x)
        return self.norm(x)


def images() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randint(0, 100, (24, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    y = torch.arange(24) % 2
    x[y == 1, 0] += 120
    return x, y


def train(model: nn.Module, **changes: object):
    x, y = images()
    recipe = Recipe(**{"lr": 3e-3, "steps": 40, "batch_size": 8, "validate_every": 10, "head_lr_scale": 5.0, **changes})
    accuracy = lambda m: float((m(x).argmax(1) == y).float().mean())  # noqa: E731
    return fit(model, (x,), y, loss=cross_entropy, recipe=recipe, validate=accuracy, direction="higher", seed=0, keep=3)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = Encoder(), LinearHead(8, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder((images.float() / 255 - 0.5) / 0.25))


def model() -> Classifier:
    return seeded(Classifier, 0)


@pytest.mark.parametrize(("part", "expected"), [
    ("all", None), ("none", []), ("bias", "bias"), ("norm", "norm"), ("last_block", "last_block"),
])  # fmt: skip
def test_what_is_trained_moves_and_the_rest_stays(part: str, expected: object) -> None:
    net = model()
    names = train_only(net.encoder, part)
    if part == "last_block":
        assert names == [
            "blocks.2.0.weight",
            "blocks.2.0.bias",
            "blocks.2.1.weight",
            "blocks.2.1.bias",
            "norm.weight",
            "norm.bias",
        ]
    if part == "norm":
        assert len(names) == 8
    if part == "bias":
        assert names
        assert all(name.endswith("bias") for name in names)
    before = {name: value.clone() for name, value in net.named_parameters()}
    steps = itertools.count()
    x, y = images()
    recipe = Recipe(lr=3e-3, steps=3, batch_size=8, validate_every=1)
    fit(net, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda _: next(steps), direction="higher", seed=0)
    for name, value in net.named_parameters():
        trained = name.startswith("head.") or name.removeprefix("encoder.") in names
        assert torch.equal(before[name], value) != trained, name


def test_the_whole_encoder_learns() -> None:
    done = train(model())
    assert done.best_score == 1.0
    assert done.best_step > 0


def test_parts_are_checked() -> None:
    with pytest.raises(ValueError, match="'half'"):
        train_only(Encoder(), "half")
    with pytest.raises(ValueError, match="no list of equal blocks"):
        train_only(nn.Linear(2, 2), "last_block")
    with pytest.raises(ValueError, match="no parameter of kind 'norm'"):
        train_only(nn.Linear(2, 2), "norm")


def test_the_heads_rate_is_its_own() -> None:
    assert {group["lr_scale"] for group in parameter_groups(model(), 0.1, 10.0)} == {1.0, 10.0}


def test_interpolation_ends_are_exact() -> None:
    a, b = model().state_dict(), seeded(model, 5).state_dict()
    b["head.weight"] = b["head.weight"] + 1
    assert all(torch.equal(interpolate(a, b, 0.0)[name], a[name]) for name in a)
    assert all(torch.equal(interpolate(a, b, 1.0)[name], b[name]) for name in a)
    middle = interpolate(a, b, 0.5)["head.weight"]
    torch.testing.assert_close(middle, (a["head.weight"] + b["head.weight"]) / 2)
    with pytest.raises(ValueError, match=r"differ in \['x'\]"):
        interpolate(a, {**b, "x": torch.zeros(1)}, 0.5)
    with pytest.raises(ValueError, match="got 2"):
        interpolate(a, b, 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.sampled_from(["higher", "lower"]))
def test_the_best_checkpoints_are_those_of_a_sort(scores: list[int], direction: str) -> None:
    rows = [Kept(step, float(score), {}) for step, score in enumerate(scores)]
    random.Random(0).shuffle(rows)
    got = [(row.score, row.step) for row in best_first(rows, direction)]
    keyed = sorted((-row.score if direction == "higher" else row.score, row.step) for row in rows)
    assert got == [(-a if direction == "higher" else a, step) for a, step in keyed]


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("keep", [1, 3, 5])
def test_fit_keeps_the_best_and_their_mean_is_the_ensemble(direction: str, keep: int) -> None:
    x, y = images()
    net = model()
    scores = iter([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
    recipe = Recipe(lr=1e-2, steps=7, batch_size=8, validate_every=1)
    validated: list[tuple[float, dict[str, torch.Tensor]]] = []

    def validate(m: nn.Module) -> float:
        score = next(scores)
        validated.append((score, {name: value.clone() for name, value in m.state_dict().items()}))
        return score

    done = fit(
        net, (x,), y, loss=cross_entropy, recipe=recipe, validate=validate, direction=direction, seed=0, keep=keep
    )
    order = sorted(range(8), key=lambda i: (-validated[i][0] if direction == "higher" else validated[i][0], i))[:keep]
    assert [row.step for row in done.kept] == order
    for checkpoint, i in zip(done.kept, order, strict=True):
        assert all(torch.equal(value, validated[i][1][name]) for name, value in checkpoint.state.items())


@pytest.mark.parametrize(("family", "task", "rate"), [
    ("vit", "classification", 1e-5), ("hybrid", "video", 2e-5), ("convolutional", "classification", 1e-3),
    ("convolutional", "medical_segmentation", 6e-4), ("text", "segmentation", 1e-5), ("audio", "fewshot", 1e-5),
])  # fmt: skip
def test_gate_recipes(family: str, task: str, rate: float) -> None:
    recipe = gate_recipe(family, task)
    assert (recipe.lr, recipe.steps, recipe.validate_every, recipe.weight_decay) == (rate, 10_000, 500, 0.01)
    assert (recipe.schedule, recipe.patience, recipe.head_lr_scale, recipe.betas) == (
        "plateau",
        1000,
        10.0 if "segmentation" in task else 1.0,  # of the decoder of segmentation alone
        (0.9, 0.98),
    )
    with pytest.raises(ValueError, match="'mlp'"):
        gate_recipe("mlp")
    with pytest.raises(ValueError, match="steps must be at least 0, got -1"):
        gate_recipe("vit", steps=-1)


def test_performance_efficiency_has_its_minus() -> None:
    """More trained parameters, less PE; the published values of full fine-tuning and of a small adapter."""
    assert performance_efficiency(1.0, 0) == 1.0
    assert performance_efficiency(0.8, 10**8) == pytest.approx(0.8 * 2.718281828 ** (-0.30103))
    assert performance_efficiency(0.7, 10**9) < performance_efficiency(0.7, 10**6) < 0.7
    with pytest.raises(ValueError, match="-3"):
        performance_efficiency(0.5, -3)


@pytest.mark.parametrize("mode", [True, False])
def test_recomputed_blocks_keep_gradients_and_statistics(mode: bool) -> None:
    def built() -> nn.Module:
        torch.manual_seed(0)
        block = lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())  # noqa: E731
        return nn.ModuleDict({"blocks": nn.Sequential(block(), block())}).train(mode)

    images = torch.randn(6, 4)
    plain, again = built(), built()
    assert recompute_blocks(again) == ["blocks.0", "blocks.1"]
    for module in (plain, again):
        module["blocks"](images).square().sum().backward()  # type: ignore[operator, index]
    for parameter, other in zip(plain.parameters(), again.parameters(), strict=True):
        assert torch.equal(parameter.grad, other.grad)  # type: ignore[arg-type]
    for (name, parameter), other in zip(plain.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(parameter, other), name
    keep_blocks(again)
    assert "forward" not in vars(again["blocks"][0])  # type: ignore[index]
    with pytest.raises(ValueError, match="no list of equal blocks"):
        recompute_blocks(nn.Linear(2, 2))

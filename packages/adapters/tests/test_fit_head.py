"""Heads that are trained with what is in front of them: where they start, at which rates, mixed with their start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.finetune import choose_weights, preserve_state
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.training import (
    FrozenFeatures,
    ProbeInit,
    Recipe,
    Scale,
    TrainedEncoder,
    fit,
    fit_head,
    wise_ft,
)
from vision_adapters.training.head import Inputs, Trained
from vision_adapters.training.outcome import Kept

IMAGES = torch.randn(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = (IMAGES.mean((1, 2, 3)) > 0).long()
HEAD = Recipe(lr=0.05, steps=12, batch_size=16, validate_every=4)
WHOLE = Recipe(lr=0.01, steps=6, batch_size=8, validate_every=3)


def new_encoder() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Tanh()), 1)


def accuracy(module: nn.Module, inputs: Inputs) -> float:
    return float((module(*inputs).argmax(1) == LABELS).float().mean()) - float(F.cross_entropy(module(*inputs), LABELS))


def behind(encoder: nn.Module, scale: Scale, unfreeze: Callable[[], object] | None = None) -> TrainedEncoder:
    return TrainedEncoder(encoder, encoder, lambda split: IMAGES, scale, unfreeze=unfreeze)


def frozen(encoder: nn.Module) -> FrozenFeatures:
    with torch.no_grad():
        features = encoder(IMAGES)
    return FrozenFeatures(lambda split: features)


def test_a_head_that_starts_at_its_probe_is_what_two_trainings_by_hand_give() -> None:
    encoder, head = new_encoder(), seeded(lambda: LinearHead(6, 2), 0)
    before, calls = frozen(encoder), []
    backbone = behind(encoder, before.scale, lambda: calls.append(head.weight.detach().clone()))
    options = {"loss": F.cross_entropy, "validate": accuracy, "direction": "higher", "seed": 3}
    done = fit_head(backbone, head, LABELS, recipe=WHOLE, init=ProbeInit(before, HEAD), **options)  # type: ignore[arg-type]  # named

    other, plain = new_encoder(), seeded(lambda: LinearHead(6, 2), 0)
    probe = frozen(other).attach(plain)
    options["validate"] = lambda module: accuracy(module, (frozen(other).rows("validation"),))
    fit(probe, (frozen(other).rows("train"),), LABELS, recipe=HEAD, **options)  # type: ignore[arg-type]  # named
    assert len(calls) == 1
    assert torch.equal(calls[0], plain.weight), "the encoder is as it came until the probe is there"
    attached = behind(other, before.scale).attach(plain)
    options["validate"] = lambda module: accuracy(module, (IMAGES,))
    by_hand = fit(attached, (IMAGES,), LABELS, recipe=WHOLE, **options)  # type: ignore[arg-type]  # named
    assert [row[:3] for row in done.history[1:]] == [row[:3] for row in by_hand.history[1:]]
    assert all(torch.equal(value, attached.state_dict()[name]) for name, value in done.module.state_dict().items())


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_a_head_starts_at_the_weights_that_are_passed_in(value: float) -> None:
    head, encoder = LinearHead(6, 2), new_encoder()
    start = {**head.state_dict(), "weight": torch.full((2, 6), value), "bias": torch.tensor([0.0, 1.0])}
    recipe = Recipe(lr=0.1, steps=0, batch_size=4, validate_every=1)
    done = fit_head(
        frozen(encoder), head, LABELS, loss=F.cross_entropy, recipe=recipe, validate=accuracy, direction="higher",
        seed=0, init=start,
    )  # fmt: skip
    assert torch.equal(done.module.head.weight, start["weight"])  # type: ignore[arg-type]  # a parameter
    assert done.best_step == 0


def test_the_best_of_several_rates_is_the_training_at_that_rate_alone(tmp_path: Path) -> None:
    rates = (1.0, 0.001, 10.0)
    scores: dict[float, float] = {}
    for rate in rates:
        recipe = Recipe(lr=HEAD.lr * rate, steps=12, batch_size=16, validate_every=4)
        backbone = frozen(new_encoder())
        validation_rows = (backbone.rows("validation"),)
        alone = fit(
            backbone.attach(seeded(lambda: LinearHead(6, 2), 0)), (backbone.rows("train"),), LABELS,
            loss=F.cross_entropy, recipe=recipe, direction="higher", seed=0,
            validate=partial(accuracy, inputs=validation_rows),
        )  # fmt: skip
        scores[recipe.lr] = alone.best_score
    for path in (None, tmp_path / "head.pt"):
        done = fit_head(
            frozen(new_encoder()), seeded(lambda: LinearHead(6, 2), 0), LABELS, loss=F.cross_entropy, recipe=HEAD,
            validate=accuracy, direction="higher", seed=0, rates=rates, checkpoint=path,
        )  # fmt: skip
        assert done.best_score == scores[done.recipe.lr] == max(scores.values())
        assert {rate.lr for rate in done.tried} == set(scores)
    assert len(list(tmp_path.iterdir())) == len(rates)


def test_micro_batches_leave_the_gradient_of_a_loss_that_is_no_mean() -> None:
    def spread(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels) - outputs.var(dim=0).sum()

    weights = []
    for count in (1, 3):
        done = fit_head(
            frozen(new_encoder()), seeded(lambda: LinearHead(6, 2), 0), LABELS, loss=spread, recipe=HEAD,
            validate=accuracy, direction="higher", seed=0, micro_batches=count,
        )  # fmt: skip
        weights.append(done.module.head.weight)
    assert torch.allclose(*weights, rtol=0, atol=64 * torch.finfo(torch.float32).eps)  # type: ignore[arg-type]  # two


@pytest.mark.parametrize("whole", [True, False])
def test_a_mix_is_between_start_and_end_and_the_best_share_validates_best(whole: bool) -> None:
    module = nn.ModuleDict({"encoder": nn.Linear(1, 1, bias=False), "head": nn.Linear(1, 1, bias=False)})
    start = {"encoder.weight": torch.zeros(1, 1), "head.weight": torch.zeros(1, 1)}
    end = {"encoder.weight": torch.ones(1, 1), "head.weight": torch.full((1, 1), 2.0)}

    def far(each: nn.Module) -> float:
        return abs(each["encoder"].weight.item() - 0.3)  # type: ignore[index]  # a ModuleDict

    shares: list[float] = []
    mixed = wise_ft(module, start, [Kept(1, 0.0, end)], "best", far, "lower", whole=whole, look=shares.append)
    assert mixed.share == pytest.approx(0.3)
    assert shares == [mix.share for mix in mixed.curve]
    assert module["encoder"].weight.item() == pytest.approx(0.3)
    assert module["head"].weight.item() == pytest.approx(0.6 if whole else 2.0)


def test_weights_that_learn_are_those_that_features_depend_on_and_come_back() -> None:
    module = nn.ModuleDict({"image": nn.Linear(4, 4), "text": nn.Linear(4, 4)})
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with preserve_state(module):
        names = choose_weights(module, lambda: module["image"](torch.ones(2, 4)), "all")
        assert names == ["image.weight", "image.bias"]
        nn.init.zeros_(module["image"].weight)  # type: ignore[arg-type]  # a tensor
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    with pytest.raises(ValueError, match="gives no gradients"):
        choose_weights(module, lambda: torch.ones(1), "all")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_of_any_precision_train_a_head(dtype: torch.dtype) -> None:
    x = 300 * torch.randn(640, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = (x[:, 0] > 0).long()

    def train(rows: torch.Tensor) -> Trained:
        return fit_head(
            FrozenFeatures(lambda split: rows), seeded(lambda: LinearHead(8, 2), 0), y,
            loss=nn.functional.cross_entropy, recipe=Recipe(lr=0.1, steps=40, batch_size=64, validate_every=20),
            validate=lambda module, inputs: float((module(*inputs).argmax(1) == y).float().mean()),
            direction="higher", seed=0,
        )  # fmt: skip

    trained, expected = train(x), train(x.float())
    assert trained.best_score > 0.95
    assert abs(trained.best_score - expected.best_score) <= 0.01
    assert trained.module.head.weight.dtype == torch.float32


def test_a_mix_in_a_direction_that_is_neither_is_refused() -> None:
    module = nn.Linear(1, 1, bias=False)
    checkpoints = [Kept(1, 0.0, {"weight": torch.ones(1, 1)})]
    with pytest.raises(ValueError, match="direction must be"):
        wise_ft(module, {"weight": torch.zeros(1, 1)}, checkpoints, "best", lambda module: 0.0, "max", whole=True)  # type: ignore[arg-type]

from __future__ import annotations

import dataclasses
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy, l1
from vision_adapters.training import Recipe, fit, gate_recipe, shared
from vision_adapters.training.outcome import Fit
from vision_adapters.training.schedule import parameter_groups
from vision_adapters.training.step import batch_indices, moved
from vision_adapters.training.wise_ft import interpolate

from ._reference import adamw_step

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = Recipe(lr=0.01, steps=23, batch_size=5, validate_every=4)


class KilledError(Exception):
    pass


def data(n: int = 31, d: int = 6, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=generator), torch.randint(0, k, (n,), generator=generator)


def network() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)), 1)


def run(
    module: nn.Module, recipe: Recipe = RECIPE, checkpoint: Path | None = None, kill: int | None = None, seed: int = 3
) -> Fit:
    x, y = data()

    def progress(phase: str, step: int, steps: int) -> None:
        assert (phase, steps) == ("train", recipe.steps)
        if step == kill:
            raise KilledError

    def validate(m: nn.Module) -> float:
        assert not m.training
        return float(cross_entropy(m(x), y))

    return fit(
        module, (x,), y, loss=cross_entropy, recipe=recipe, validate=validate, direction="lower", seed=seed,
        checkpoint=checkpoint, progress=progress,
    )  # fmt: skip


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("schedule", [
    {}, {"schedule": "plateau", "patience": 2, "threshold": 0.05}, {"schedule": "cosine", "warmup": 3},
    {"schedule": "constant"}, {"micro_batches": 2, "clip_norm": 0.5},
])  # fmt: skip
@pytest.mark.parametrize("kill", [0, 1, 4, 5, 11, 22, 23])
def test_an_interrupted_training_ends_with_the_same_bits(
    tmp_path: Path, schedule: dict[str, object], kill: int
) -> None:
    recipe = dataclasses.replace(RECIPE, **schedule)
    whole = network()
    first = run(whole, recipe)
    broken, file = network(), tmp_path / "state.pt"
    with pytest.raises(KilledError):
        run(broken, recipe, file, kill)
    again = network()
    second = run(again, recipe, file)
    assert same(whole, again)
    assert repr(first.history) == repr(second.history)
    assert (first.best_step, first.best_score) == (second.best_step, second.best_score)
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
    finished = network()
    third = run(finished, recipe, file)
    assert third.seconds == second.seconds or third.seconds < second.seconds + 1
    assert same(whole, finished)


@pytest.mark.parametrize("schedule", [{}, {"schedule": "cosine", "warmup": 3}])
def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path: Path, schedule: dict[str, object]) -> None:
    recipe = dataclasses.replace(RECIPE, **schedule)
    x, y = data()
    whole = network()
    first = run(whole, recipe)
    file, progress = tmp_path / "state.pt", []

    def part(module: nn.Module, stop: int | None) -> Fit:
        return fit(
            module, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda m: float(cross_entropy(m(x), y)),
            direction="lower", seed=3, checkpoint=file, progress=lambda _, step, steps: progress.append((step, steps)),
            stop=stop,
        )  # fmt: skip

    stop = 2 * recipe.validate_every
    begun = part(network(), stop)
    assert repr(begun.history) == repr(first.history[:3])
    assert progress == [(step, recipe.steps) for step in range(stop + 1)]
    again = network()
    assert repr(part(again, None).history) == repr(first.history)
    assert same(whole, again)
    assert repr(part(network(), stop).history) == repr(first.history)  # past the stop: it is only read
    for bad, message in ((stop + 1, "multiple of"), (-1, "multiple of")):
        with pytest.raises(ValueError, match=message):
            part(network(), bad)
    with pytest.raises(ValueError, match="takes a checkpoint"):
        fit(
            network(), (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda m: 0.0, direction="lower", seed=3,
            stop=stop,
        )  # fmt: skip


def test_the_seed_decides_and_the_callers_generator_is_put_back() -> None:
    before = torch.get_rng_state()
    a, b, c = network(), network(), network()
    run(a), run(b), run(c, seed=4)
    assert torch.equal(before, torch.get_rng_state())
    assert same(a, b)
    assert not same(a, c)


def test_the_best_validated_weights_are_kept_in_both_directions() -> None:
    x, y = data()
    for direction, scores, best in (("higher", [1.0, 3.0, 3.0, 0.0], 2), ("lower", [1.0, 3.0, 0.5, 0.5], 4)):
        head = seeded(lambda: LinearHead(6, 3), 0)
        weights: list[torch.Tensor] = []

        def validate(m: nn.Module, scores: list[float] = scores, weights: list[torch.Tensor] = weights) -> float:
            weights.append(m.weight.detach().clone())
            return scores[len(weights) - 1]

        recipe = Recipe(lr=0.1, steps=6, batch_size=4, validate_every=2)
        done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=validate, direction=direction, seed=0)
        assert done.best_step == best
        assert done.best_score == scores[best // 2]
        assert torch.equal(head.weight, weights[best // 2])
        assert [row.step for row in done.history] == [0, 2, 4, 6]


def test_one_weight_follows_adamw_by_hand() -> None:
    """A single number fitted by |w x - y| with one sample: the gradient is known, so each step is."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 2.0)
    recipe = Recipe(lr=0.05, steps=4, batch_size=1, validate_every=1, weight_decay=0.1, schedule="constant")
    weights: list[float] = []
    fit(
        module, (torch.ones(1, 1),), torch.zeros(1), loss=l1, recipe=recipe, direction="lower", seed=0,
        validate=lambda m: (weights.append(float(m.weight)), 0.0)[1],
    )  # fmt: skip
    value, mean, square = 2.0, 0.0, 0.0
    for step in range(1, 5):
        value, mean, square = adamw_step(value, 1.0, mean, square, step, 0.05, (0.9, 0.98), 1e-6, 0.1)
        assert weights[step] == pytest.approx(value, rel=1e-6)


def test_accumulated_parts_make_the_whole_gradient() -> None:
    a, b = seeded(lambda: LinearHead(6, 3), 0), seeded(lambda: LinearHead(6, 3), 0)
    run(a)
    run(b, dataclasses.replace(RECIPE, micro_batches=3))
    torch.testing.assert_close(a.weight, b.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (10, 3), (12, 4), (5, 9)])
def test_batches_are_whole_and_visit_everything(n: int, size: int) -> None:
    actual = min(size, n)
    per_epoch = n // actual
    for epoch in range(3):
        batches = [batch_indices(n, size, 1 + epoch * per_epoch + i, 7) for i in range(per_epoch)]
        assert all(len(part) == actual for part in batches)
        flat = torch.cat(batches).tolist()
        assert len(set(flat)) == len(flat)
    assert n < 10 or not torch.equal(batch_indices(n, n, 1, 7), batch_indices(n, n, 2, 7))


def test_an_epochs_order_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step drew a permutation of all samples: 131 ms each with 1.28 million of them."""
    generator, drawn = np.random.Generator, []
    monkeypatch.setattr("numpy.random.Generator", lambda bits: drawn.append(bits) or generator(bits))
    steps = [batch_indices(20, 5, step, 11) for step in range(1, 13)]  # three epochs of four steps
    assert len(drawn) == 3
    monkeypatch.undo()
    for number, batch in enumerate(steps):
        epoch, position = divmod(number, 4)
        order = np.random.Generator(np.random.PCG64(np.random.SeedSequence([11, epoch]))).permutation(20)
        assert batch.tolist() == order[5 * position : 5 * position + 5].tolist()
        batch.zero_()  # the caller's copy
    assert batch_indices(20, 5, 12, 11).sum() > 0


def test_biases_norms_and_scalars_do_not_decay() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MultiheadAttention(4, 2), nn.LayerNorm((4, 4)))
    decayed, plain = (group["params"] for group in parameter_groups(module, 0.1))
    assert [group["weight_decay"] for group in parameter_groups(module, 0.1)] == [0.1, 0.0]
    names = {id(p): name for name, p in module.named_parameters()}
    assert sorted(names[id(p)] for p in decayed) == ["0.weight", "2.in_proj_weight", "2.out_proj.weight"]
    assert len(decayed) + len(plain) == len(names)
    shared = nn.Linear(3, 3)
    assert len(parameter_groups(nn.Sequential(shared, shared), 0.1)[0]["params"]) == 1
    with pytest.raises(ValueError, match="no trainable"):
        parameter_groups(nn.Linear(2, 2).requires_grad_(False), 0.1)


def test_frozen_parameters_stay_and_are_not_saved(tmp_path: Path) -> None:
    module = network()
    module[0].requires_grad_(False)
    before = module[0].weight.clone()
    run(module, checkpoint=tmp_path / "state.pt")
    assert torch.equal(before, module[0].weight)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    assert "0.weight" not in saved["module"]


def test_plateau_halves_after_patience() -> None:
    x, y = data()
    recipe = Recipe(lr=0.1, steps=8, batch_size=31, validate_every=1, patience=2, schedule="plateau")
    done = fit(
        LinearHead(6, 3), (x,), y, loss=lambda z, _: z.sum() * 0 + 1.0, recipe=recipe, validate=lambda _: 0.0,
        direction="higher", seed=0,
    )  # fmt: skip
    assert [row.rate for row in done.history[1:]] == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025])


def test_cosine_with_warmup() -> None:
    x, y = data()
    recipe = Recipe(lr=1.0, steps=6, batch_size=31, validate_every=1, schedule="cosine", warmup=2)
    done = fit(
        LinearHead(6, 3), (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda _: 0.0, direction="higher", seed=0
    )
    rest = [0.5 * (1 + math.cos(math.pi * i / 4)) for i in range(4)]
    assert [row.rate for row in done.history[1:]] == pytest.approx([0.5, 1.0, *rest])


def test_the_gradient_norm_is_recorded() -> None:
    x, y = data()
    head = seeded(lambda: LinearHead(6, 3), 0)
    z = x.double().numpy() @ head.weight.detach().double().numpy().T
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    error = (p - np.eye(3)[y.numpy()]) / len(y)
    expected = math.sqrt(np.square(error.T @ x.double().numpy()).sum() + np.square(error.sum(0)).sum())
    recipe = Recipe(lr=0.1, steps=1, batch_size=31, validate_every=1)
    done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda _: 0.0, direction="higher", seed=0)
    assert done.history[1].gradient_norm == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("changed", [0, 1, 777, 1499])
def test_a_checkpoint_knows_every_row(changed: int, tmp_path: Path) -> None:
    x = torch.randn(1500, 4, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[changed, 2] += 1e-3
    for rows in (x, other):
        call: dict[str, Any] = {
            "loss": nn.functional.cross_entropy, "recipe": dataclasses.replace(RECIPE, steps=2, validate_every=2),
            "validate": lambda module: 0.0, "direction": "higher", "seed": 0, "checkpoint": tmp_path / "state.pt",
        }  # fmt: skip
        if rows is x:
            fit(nn.Linear(4, 2), (rows,), torch.zeros(1500, dtype=torch.long), **call)
            continue
        with pytest.raises(ValueError, match="belongs to another training: data differ"):
            fit(nn.Linear(4, 2), (rows,), torch.zeros(1500, dtype=torch.long), **call)


def test_a_resumed_training_holds_its_checkpoints_off_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(8, dtype=torch.long)
    call: dict[str, Any] = {
        "loss": nn.functional.cross_entropy, "recipe": dataclasses.replace(RECIPE, steps=2, validate_every=1),
        "validate": lambda module: 0.0, "direction": "higher", "seed": 0, "checkpoint": tmp_path / "state.pt",
    }  # fmt: skip
    fit(nn.Linear(4, 2), (x,), y, keep=3, **call)
    places: list[str] = []

    def load(*_: Any, map_location: Any, **__: Any) -> None:
        places.append(str(map_location))
        raise RuntimeError("enough")

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(ValueError, match="is not a training checkpoint"):
        fit(nn.Linear(4, 2), (x,), y, keep=3, device="meta", **call)  # meta stands for a GPU
    assert places == ["cpu"]
    start, tuned = {"weight": torch.zeros(2, device="meta")}, {"weight": torch.ones(2)}
    assert interpolate(start, tuned, 0.5)["weight"].device.type == "meta"  # a module on its GPU, weights kept beside it


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.pt"
    run(network(), checkpoint=file)
    with pytest.raises(ValueError, match="another training: seed differ"):
        run(network(), checkpoint=file, seed=9)
    with pytest.raises(ValueError, match="recipe differ"):
        run(network(), dataclasses.replace(RECIPE, lr=0.5), checkpoint=file)
    file.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"not a training checkpoint \(UnpicklingError\); remove it"):
        run(network(), checkpoint=file)


def test_bad_input_is_named() -> None:
    x, y = data()
    call = {"loss": cross_entropy, "recipe": RECIPE, "validate": lambda _: 0.0, "direction": "higher", "seed": 0}
    with pytest.raises(ValueError, match="input 1 has 30 samples but there are 31"):
        fit(LinearHead(6, 3), (x, x[:30]), y, **call)
    broken = x.clone()
    broken[17, 2] = float("nan")
    with pytest.raises(ValueError, match="input 0, sample 17 holds NaN"):
        fit(LinearHead(6, 3), (broken,), y, **call)
    with pytest.raises(ValueError, match="'up'"):
        fit(LinearHead(6, 3), (x,), y, **{**call, "direction": "up"})
    with pytest.raises(FloatingPointError, match="step 1: loss nan"):
        fit(LinearHead(6, 3), (x,), y, **{**call, "loss": lambda z, _: z.sum() * float("nan")})
    with pytest.raises(FloatingPointError, match="step 0: the validation score is nan"):
        fit(LinearHead(6, 3), (x,), y, **{**call, "validate": lambda _: float("nan")})


@pytest.mark.parametrize("change", [
    {"lr": 0.0}, {"lr": math.inf}, {"steps": -1}, {"batch_size": 0}, {"schedule": "linear"}, {"factor": 1.0},
    {"weight_decay": -0.1}, {"clip_norm": 0.0}, {"micro_batches": 0}, {"warmup": 5}, {"precision": "half"},
])  # fmt: skip
def test_recipes_are_checked(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(RECIPE, **change)


def test_images_as_bytes_pass_through() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = LinearHead(48, 2)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            assert images.dtype == torch.uint8
            return self.head(images.flatten(1).float() / 255)

    images = torch.zeros(8, 3, 4, 4, dtype=torch.uint8)
    images[4:] = 200
    y = torch.arange(8) // 4
    done = fit(
        Encoder(), (images,), y, loss=cross_entropy, recipe=Recipe(lr=0.05, steps=30, batch_size=4, validate_every=10),
        validate=lambda m: float((m(images).argmax(1) == y).float().mean()), direction="higher", seed=0,
    )  # fmt: skip
    assert done.best_score == 1.0


def test_bfloat16_trains_close_to_float32_with_weights_in_float32() -> None:
    x, y = data()
    wide, narrow = seeded(lambda: LinearHead(6, 3), 0), seeded(lambda: LinearHead(6, 3), 0)
    dtypes: list[torch.dtype] = []

    def watched(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        dtypes.append(scores.dtype)
        return cross_entropy(scores, targets)

    call = {"validate": lambda m: float(cross_entropy(m(x), y)), "direction": "lower", "seed": 0}
    first = fit(wide, (x,), y, loss=cross_entropy, recipe=RECIPE, **call)
    narrower = dataclasses.replace(RECIPE, precision="bfloat16")
    second = fit(narrow, (x,), y, loss=watched, recipe=narrower, **call)
    assert (first.precision, second.precision) == ("float32", "bfloat16")
    assert set(dtypes) == {torch.float32}
    assert narrow.weight.dtype == torch.float32
    assert not torch.equal(wide.weight, narrow.weight)
    # bfloat16 keeps 8 bits: scores of size 1 are off by up to 1/256, and Adam's 23 steps of 0.01 follow their signs
    assert second.history[-1].loss == pytest.approx(first.history[-1].loss, abs=2**-6)
    assert gate_recipe("vit").precision == "auto"
    assert fit(narrow, (x,), y, loss=cross_entropy, recipe=gate_recipe("vit", steps=0), **call).precision == "float32"


def test_each_layers_gradient_is_recorded(tmp_path: Path) -> None:
    x, y = data()
    module = seeded(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)), 0)
    expected = seeded(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)), 0).double()
    cross_entropy(expected(x.double()), y).backward()
    recipe = Recipe(lr=0.1, steps=1, batch_size=31, validate_every=1, clip_norm=1e-3)
    call = {"loss": cross_entropy, "recipe": recipe, "validate": lambda _: 0.0, "direction": "higher", "seed": 0}
    done = fit(module, (x,), y, **call, layers=True, checkpoint=tmp_path / "state.pt")
    layers = done.history[1].layers
    assert done.history[0].layers == {}
    assert sorted(layers) == ["0", "2"]
    for name, value in layers.items():
        layer = expected[int(name)]
        by_hand = math.sqrt(float(layer.weight.grad.square().sum() + layer.bias.grad.square().sum()))
        assert value == pytest.approx(by_hand, rel=1e-5)
    assert math.hypot(*layers.values()) == pytest.approx(done.history[1].gradient_norm, rel=1e-5)
    assert fit(module, (x,), y, **call, layers=True, checkpoint=tmp_path / "state.pt").history[1].layers == layers
    assert fit(module, (x,), y, **call).history[1].layers == {}


def test_gradients_have_a_row_every_hundred_steps_whenever_it_is_validated(tmp_path: Path) -> None:
    x, y = data()
    recipe = Recipe(lr=0.1, steps=260, batch_size=8, validate_every=130)

    def train(path: Path | None, validate_every: int = 130, stop: int | None = None) -> Fit:
        head = seeded(lambda: LinearHead(6, 3), 0)
        own = dataclasses.replace(recipe, validate_every=validate_every)
        return fit(head, (x,), y, loss=cross_entropy, recipe=own, seed=0, validate=lambda _: 0.0, direction="higher",
                   layers=True, checkpoint=path, stop=stop)  # fmt: skip

    rows = train(None).gradients
    assert [row.step for row in rows] == [100, 130, 200, 260]
    every_step = {row.step: row for row in train(None, validate_every=1).gradients}
    assert sorted(every_step) == list(range(1, 261))
    for start, row in zip((0, 100, 130, 200), rows, strict=True):
        steps = range(start + 1, row.step + 1)
        assert row.norm == pytest.approx(np.mean([every_step[step].norm for step in steps]))
        for name, value in row.layers.items():
            assert value == pytest.approx(np.mean([every_step[step].layers[name] for step in steps]))
    train(tmp_path / "state.pt", stop=130)
    assert train(tmp_path / "state.pt").gradients == rows


def test_samples_are_drawn_as_often_as_their_weights_say() -> None:
    labels = np.repeat([0, 0, 0, 0, 1], 20)
    likely = np.where(labels == 1, 4.0, 1.0)
    shares = likely / likely.sum()
    draws = np.concatenate([batch_indices(100, 10, step, 3, shares.cumsum()).numpy() for step in range(1, 201)])
    assert abs(labels[draws].mean() - 0.5) < 4 * math.sqrt(0.25 / len(draws))
    assert np.array_equal(batch_indices(100, 10, 7, 3, shares.cumsum()), draws[60:70])


def test_a_rare_class_is_learnt_from_balanced_draws(tmp_path: Path) -> None:
    """Without them, a few steps answer with the frequent class alone; a checkpoint knows its draws."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(200) % 20 == 0).long()
    x = torch.eye(2, 4)[y] + 0.3 * torch.randn(200, 4, generator=generator)
    recipe = Recipe(lr=0.02, steps=30, batch_size=20, validate_every=30)
    recalls = []
    for weights in (None, 1.0 + 18.0 * y):
        head = seeded(lambda: LinearHead(4, 2), 0)
        fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda module: 0.0, direction="lower", seed=0,
            keep=2, sample_weights=weights, checkpoint=tmp_path / f"{weights is None}.pt")  # fmt: skip
        done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, direction="lower", seed=0, keep=2,
                   validate=lambda module: 0.0, sample_weights=weights,
                   checkpoint=tmp_path / f"{weights is None}.pt")  # fmt: skip
        head.load_state_dict(max(done.kept, key=lambda state: state.step).state)
        recalls.append(float((head(x[y == 1]).argmax(1) == 1).float().mean()))
    assert recalls[1] > recalls[0] + 0.3
    with pytest.raises(ValueError, match="belongs to another training: sample_weights differ"):
        fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda module: 0.0, direction="lower", seed=0,
            keep=2, checkpoint=tmp_path / "False.pt")  # fmt: skip
    with pytest.raises(ValueError, match="sample_weights must be 200 finite numbers"):
        fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda module: 0.0, direction="lower", seed=0,
            sample_weights=torch.zeros(200))  # fmt: skip


ODD_STATES: dict[str, Any] = {
    "step": 10**9,
    "module": {},
    "kept": [],
    "history": [],
    "optimiser": {},
    "rate": None,
    "generator": torch.zeros(3),
    "seconds": "x",
    "fingerprint": "x",
}


@pytest.mark.parametrize("field", [*ODD_STATES, "a pipe"])
def test_a_checkpoint_of_this_training_that_holds_something_else_is_one_line(tmp_path: Path, field: str) -> None:
    """Its fingerprint is right, as anyone can write it: weights that are missing would be those of the start."""
    x, y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2
    path = tmp_path / "c.pt"

    def train(stop: int | None = None) -> None:
        fit(
            seeded(lambda: LinearHead(3, 2), 1), (x,), y, loss=cross_entropy, direction="lower", seed=3,
            recipe=Recipe(lr=0.05, steps=4, batch_size=5, validate_every=2), stop=stop, checkpoint=path,
            validate=lambda module: float(cross_entropy(module(x), y)),
        )  # fmt: skip

    train(stop=2)
    state = torch.load(path, weights_only=True)
    path.unlink()
    if field == "a pipe":
        os.mkfifo(path)
    else:
        torch.save({**state, field: ODD_STATES[field]}, path)
    with pytest.raises(ValueError, match=r"c\.pt (holds no whole state|is not a training checkpoint).*remove it"):
        train()


def test_batches_go_to_a_gpu_from_pinned_memory() -> None:
    calls: list[str] = []

    class Recorded(torch.Tensor):
        def pin_memory(self, *_: Any) -> Recorded:  # type: ignore[override]  # records alone
            calls.append("pinned")
            return self

        def to(self, *where: Any, **how: Any) -> Recorded:  # type: ignore[override]  # likewise
            calls.append(f"{where[0]} {how.get('non_blocking', False)}")
            return self

    rows = torch.zeros(2).as_subclass(Recorded)
    moved({"image": [rows]}, torch.device("cuda:1"))
    assert calls == ["pinned", "cuda:1 True"]
    calls.clear()
    moved(rows, torch.device("cpu"))
    assert calls == ["cpu False"]


def test_weighted_draws_are_numpys_choice() -> None:
    weights = np.random.default_rng(0).random(50) ** 4
    weights[7:12] = 0
    shares = weights / weights.sum()
    for step in (1, 9):
        expected = np.random.default_rng([3, step]).choice(50, 16, p=shares)
        assert batch_indices(50, 16, step, 3, shares.cumsum() / shares.cumsum()[-1]).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("backend", "kind", "sent"), [("nccl", "cuda", "cuda:1"), ("gloo", "cuda", None), ("gloo", "cpu", None)]
)
def test_objects_travel_on_the_trainings_device(
    monkeypatch: pytest.MonkeyPatch, backend: str, kind: str, sent: str | None
) -> None:
    """NCCL would take each process's current GPU, which is the first for all that never set one."""
    devices = []
    monkeypatch.setattr(shared.dist, "get_backend", lambda group: backend)
    monkeypatch.setattr(shared.dist, "get_global_rank", lambda group, rank: 0)
    monkeypatch.setattr(shared.dist, "broadcast_object_list", lambda box, src, group, device: devices.append(device))
    device = torch.device("cuda", 1) if kind == "cuda" else torch.device("cpu")
    assert shared.from_first({"a": 1}, object(), device) == {"a": 1}
    assert devices == [None if sent is None else torch.device(sent)]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_plateau_on_validation_lowers_the_rate_and_ends_the_training(resumed: bool, tmp_path: Path) -> None:
    """Scores gain once; two validations later the rate falls, and after four without gain the training ends."""
    given = iter([0.1, 0.5, 0.5, 0.4, 0.5, 0.3] + [0.9] * 20)
    x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    recipe = Recipe(
        lr=0.1, steps=20, batch_size=4, validate_every=1, plateau_on="validation", patience=2, factor=0.1, stop=4,
        least_lr=0.005,
    )  # fmt: skip
    how: dict[str, Any] = {
        "loss": lambda out, _: out.square().mean(),
        "recipe": recipe,
        "direction": "higher",
        "seed": 0,
    }
    how |= {"checkpoint": tmp_path / "state.pt", "validate": lambda _: next(given)}
    head = nn.Linear(2, 1)
    if resumed:
        fit(head, (x,), torch.zeros(8), stop=3, **how)
    done = fit(head, (x,), torch.zeros(8), **how)
    assert [row.score for row in done.history] == [0.1, 0.5, 0.5, 0.4, 0.5, 0.3]
    assert [round(row.rate, 6) for row in done.history[1:]] == [0.1, 0.1, 0.1, 0.01, 0.01]
    assert done.best_step == 1
    again = fit(nn.Linear(2, 1), (x,), torch.zeros(8), **{**how, "checkpoint": None, "validate": lambda _: 0.0})
    assert len(again.history) == 5


def test_a_modules_own_scale_of_the_rate_is_taken() -> None:
    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text, self.rest = nn.Linear(2, 2), nn.Linear(2, 2)

        def lr_scale(self, path: str, parameter: torch.Tensor) -> float:
            return 0.1 if path.startswith("text.") else 1.0

    groups = parameter_groups(Slow(), 0.1)
    assert sorted((group["lr_scale"], group["weight_decay"]) for group in groups) == [
        (0.1, 0.0), (0.1, 0.1), (1.0, 0.0), (1.0, 0.1),
    ]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), [("stop", 0), ("plateau_on", "loss, maybe"), ("least_lr", -1.0)])
def test_what_a_plateau_cannot_follow_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        Recipe(**{"lr": 0.1, "steps": 1, "batch_size": 1, "validate_every": 1, field: value})

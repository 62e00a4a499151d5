"""Settings drawn at random over the whole space: every backend that takes them against the float64 definition."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, NamedTuple

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, SigLipEqSimLoss
from eqsim.backends import tiled

from . import _reference

LOSSES = {None: EqSimLoss, "clip": ClipEqSimLoss, "sigmoid": SigLipEqSimLoss}


class Case(NamedTuple):
    contrast: str | None
    settings: dict[str, Any]
    pairs: list[tuple[int, int]] | None
    n: int
    d: int
    tile: int
    scale: float
    owners: list[int]
    teacher_size: int


def draw(seed: int) -> Case:
    """Draw a loss, its settings, a list of pairs (some empty, some with doubles and both orders) and sizes."""
    choose = random.Random(seed)
    n = choose.choice([1, 2, 3, 5, 7])
    mode = choose.choice(["v1", "v2", "v2", "hybrid", "relative", "none"])
    score = choose.choice(["cosine", "logits", "softmax"])
    settings: dict[str, Any] = {
        "mode": mode,
        "score": score,
        "sides": choose.choice([("text", "image"), ("image", "text"), ("text",), ("image",)]),
        "margin": choose.choice([0.0, 0.0, 0.01, 0.3]),
        "margin_v1": choose.choice([0.0, 0.01, 0.3]),
        "margin_mode": choose.choice(["mean", "pair"]),
        "distant_reduction": choose.choice(["mean", "reference"]),
        "weight": choose.choice([0.0, 0.5, 0.5, 1.0]),
        "pair_weight": choose.choice([0.0, 0.0, 0.7]),
        "epsilon": choose.choice([1e-2, 0.5]),
        "hard_weight": choose.choice([0.0, 0.0, 0.6]),
        "focus": choose.choice([0.0, 0.5, 2.0]),
        "smoothing": choose.choice([0.0, 0.02, 0.3]),
        "keep_weight": choose.choice([0.0, 0.0, 0.4]),
        "keep": choose.choice(["kl", "squares"]),
        "score_memory": choose.choice([0, 1 << 20]),
    }
    pairs = None
    if mode in ("hybrid", "relative") or settings["pair_weight"] or choose.random() < 0.3:
        ordered = _reference.all_pairs(n)
        pairs = choose.choices(ordered, k=choose.choice([0, 1, 4, 9])) if ordered else []
        pairs += [(j, i) for i, j in pairs[:2]]
    contrast = choose.choice([None, None, "clip", "sigmoid"])
    scale = choose.choice([0.0, 0.5, 3.0, -1.0])
    sizes = choose.choice([1, 4]), choose.choice([1, 2, 3, 8])
    beside = contrast or score == "softmax" or settings["hard_weight"] or settings["keep_weight"]
    owners = choose.choices(range(n), k=choose.choice([0, 1, 4])) if beside else []
    return Case(contrast, settings, pairs, n, *sizes, scale, owners, choose.choice([1, 3]))


Teacher = tuple[torch.Tensor, torch.Tensor, float]


def definition(
    case: Case, image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, teacher: Teacher
) -> Any:
    """Return the sum of the losses, each by its loop."""
    chosen, n = case.settings, case.n
    scores = _reference.score_matrix(image, text, chosen["score"], scale)
    kind = "cosine" if chosen["score"] == "cosine" else "logits"
    logits = _reference.score_matrix(image, text, kind, scale) * (scale if kind == "cosine" else 1.0)
    scores = scores[:, :n]
    listed = _reference.all_pairs(case.n) if case.pairs is None else case.pairs
    v2 = (chosen["sides"], chosen["margin"], chosen["margin_mode"])
    total = scores.sum() * 0.0
    if chosen["mode"] == "v1":
        total = total + _reference.v1(scores, listed, chosen["margin_v1"], chosen["margin_mode"])
    elif chosen["mode"] == "v2":
        total = total + _reference.v2(scores, listed, *v2)
    elif chosen["mode"] == "hybrid":
        margins = (chosen["sides"], chosen["margin"], chosen["margin_v1"], chosen["margin_mode"])
        total = total + _reference.hybrid(scores, listed, *margins, chosen["distant_reduction"])
    elif chosen["mode"] == "relative":
        total = total + _reference.relative(scores, listed, chosen["epsilon"])
    total = chosen["weight"] * total
    if chosen["pair_weight"]:
        total = total + chosen["pair_weight"] * _reference.pair_loss(logits[:, :n], listed)
    if case.contrast == "clip":
        total = total + _reference.contrastive(logits)
    elif case.contrast == "sigmoid":
        total = total + _reference.sigmoid(logits + bias)
    if chosen["hard_weight"]:
        wrong = torch.stack([logits[i, n + k] for k, i in enumerate(case.owners)] or [logits[0, 0]])[: len(case.owners)]
        hard = _reference.hard(logits.diagonal(), wrong, case.owners, chosen["focus"], chosen["smoothing"])
        total = total + chosen["hard_weight"] * hard
    if chosen["keep_weight"]:
        dots, theirs = (_reference.score_matrix(*rows, kind, 1.0) for rows in ((image, text), teacher[:2]))
        kl = _reference.kl(dots * scale, theirs * teacher[2])
        total = total + chosen["keep_weight"] * (kl if chosen["keep"] == "kl" else (dots - theirs).square().mean())
    return total


def compare(seed: int, backends: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compare value and gradients of one draw, whose definition is computed once; return the backends that took it."""
    case = draw(seed)
    monkeypatch.setattr(tiled, "TILE", case.tile)
    generator = torch.Generator().manual_seed(seed)
    texts = case.n + len(case.owners)
    image, text, *frozen = (
        torch.randn(rows, width, generator=generator, dtype=torch.float64)
        for width in (case.d, case.teacher_size)
        for rows in (case.n, texts)
    )
    teacher = (*frozen, 1.7)
    beside: dict[str, Any] = {"teacher": teacher} if case.settings["keep_weight"] else {}
    if case.settings["hard_weight"] and case.owners:
        beside["negatives_of"] = torch.tensor(case.owners)
    numbers = [torch.tensor(value, dtype=torch.float64) for value in (case.scale, -1.0)]
    inputs = [value.requires_grad_() for value in (image, text, *numbers)]
    pairs = None if case.pairs is None else torch.tensor(case.pairs, dtype=torch.int64).reshape(-1, 2)

    def gradients(value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(value, inputs, allow_unused=True, materialize_grads=True)

    accepted: list[str] = []
    for backend in backends:
        loss = LOSSES[case.contrast](**case.settings)
        loss.settings = dataclasses.replace(loss.settings, backend=backend)
        try:
            loss.explain(case.n, case.d, close_pairs=pairs is not None)
        except ValueError as refusal:
            assert "can" in str(refusal)  # noqa: PT017  # a refusal names what can
            continue
        if not accepted:
            slow = definition(case, *inputs, teacher)
            slow_gradients = gradients(slow)
        accepted.append(backend)
        fast = loss(*inputs, close_pairs=pairs, **beside)
        where = f"{seed}, {backend}, {case}"
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-11, msg=lambda text, at=where: f"{at}: {text}")
        for ours, theirs in zip(gradients(fast), slow_gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10, msg=lambda text, at=where: f"{at}: {text}")
    return accepted


@pytest.mark.parametrize("first", [0, pytest.param(500, marks=pytest.mark.again)])
@pytest.mark.filterwarnings("ignore:.*is exactly 0")
def test_any_settings_are_the_definition_in_every_backend(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    each = ("dense", "tiled", "gram")
    accepted = [backend for seed in range(200) for backend in compare(first + seed, each, monkeypatch)]
    assert accepted.count("dense") == accepted.count("tiled") == 200
    # The Gram matrices refuse most of them: sums over all pairs of raw scores alone.
    accepted += [backend for seed in range(200, 500) for backend in compare(first + seed, ("gram",), monkeypatch)]
    assert accepted.count("gram") > 50

"""A grid of trainings as one batched program: the same scores as run after run, and the module as it was."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, seeded
from vision_adapters.training import Recipe
from vision_adapters.training.checkpoint import changing_state
from vision_adapters.training.side_by_side import Trial, grid_scores

GRID = [Trial(lr, decay) for lr in (1e-6, 1e-3, 1e-1) for decay in (1e-6, 1e-2, 1.0, 1e2)]
RECIPE = Recipe(lr=1.0, steps=12, batch_size=8, validate_every=4, optimiser="sgd", schedule="constant")


class Tower(nn.Module):
    """A hidden layer with batch normalisation, a frozen one, and ELEVATER's head."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.hidden, self.norm = nn.Linear(5, 5), nn.Linear(5, 7), nn.BatchNorm1d(7)
        self.head = LinearHead(7, 3, features="batchnorm")
        self.frozen.requires_grad_(False)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(self.hidden(self.frozen(rows)).relu()))
        return scores


class Refuses(Tower):
    """The same with a step that no batching rule knows."""

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows.sum() + self.hidden.weight.sum()) > 1e9:  # data decide the way
            raise AssertionError
        return super().forward(rows)


def problem() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 5, generator=generator)
    return x, (x @ torch.randn(5, 3, generator=generator)).argmax(1)


def scored(module: nn.Module, trials: Any = GRID, **how: Any) -> dict[Trial, float]:
    x, y = problem()
    return grid_scores(
        module, x[:30], y[:30], trials, loss=F.cross_entropy, recipe=RECIPE, held=x[30:],
        score=lambda scores: -float(F.cross_entropy(scores, y[30:])), worst=-1e9, seed=3, **how,
    )  # fmt: skip


def by_hand(module: Tower, trial: Trial) -> float:
    """SGD as its formula has it, one training after another."""
    from vision_adapters.training.step import batch_indices

    (x, y), best = problem(), -1e9
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    moves = [torch.zeros_like(weight) for weight in weights]
    for step in range(1, RECIPE.steps + 1):
        rows = batch_indices(30, 8, step, 3)
        module.train()
        slopes = torch.autograd.grad(F.cross_entropy(module(x[rows]), y[rows]), weights)
        with torch.no_grad():
            for weight, move, slope in zip(weights, moves, slopes, strict=True):
                move.mul_(0.9).add_(slope + trial.weight_decay * weight)
                weight.sub_(trial.lr * move)
            if step % 4 == 0:
                loss = float(F.cross_entropy(module.eval()(x[30:]), y[30:]))
                best = max(best, -loss if np.isfinite(loss) else -1e9)
    return best


def test_all_at_once_is_run_after_run_and_the_formula() -> None:
    batched = scored(seeded(Tower, 0))
    for how in ({"budget": 1}, {"budget": 5_000}):
        assert scored(seeded(Tower, 0), **how) == pytest.approx(batched, rel=1e-3, abs=1e-4)
    for trial, value in batched.items():
        if trial.lr * trial.weight_decay >= 1:
            assert value == -1e9
        else:
            assert value == pytest.approx(by_hand(seeded(Tower, 0), trial), rel=1e-3, abs=1e-4), trial
    assert len(set(batched.values())) > 6


@pytest.mark.parametrize("budget", [1, 2**28])
def test_the_module_stays_as_it_was(budget: int) -> None:
    module = seeded(Tower, 0)
    before = changing_state(module)
    scored(module, budget=budget)
    assert all(torch.equal(value, before[name]) for name, value in changing_state(module).items())


def test_what_cannot_be_batched_is_trained_run_after_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        alone = scored(seeded(Refuses, 0))
    assert "Refuses is trained run after run" in caplog.text
    assert alone == pytest.approx(scored(seeded(Tower, 0)), rel=1e-3, abs=1e-4)


def test_decays_that_move_nothing_are_trained_once_and_known_scores_stay() -> None:
    trained: list[Trial] = []
    trials = [Trial(1e-6, decay) for decay in (1e-6, 1e-4, 1e-3, 1e2)]
    first = scored(seeded(Tower, 0), trials, noted=lambda trial, value: trained.append(trial))
    assert trained == [Trial(1e-6, 0.0), Trial(1e-6, 1e2)]
    assert len({first[trial] for trial in trials[:3]}) == 1
    trained.clear()
    known = {Trial(1e-6, 1e2): 7.0}
    again = scored(seeded(Tower, 0), trials, known=known, noted=lambda trial, value: trained.append(trial))
    assert trained == [Trial(1e-6, 0.0)]
    assert again[Trial(1e-6, 1e2)] == 7.0

"""A grid of learning rates and weight decays, trained side by side as one batched program where a module can be."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from vision_adapters.heads import global_seed
from vision_adapters.rows import Rows
from vision_adapters.rows.source import Draw, drawn
from vision_adapters.training.checkpoint import changing_state
from vision_adapters.training.fit import fit
from vision_adapters.training.recipe import Recipe
from vision_adapters.training.step import batch_indices

_LOG = logging.getLogger(__name__)
BUDGET = 2**28
"""Bytes of weights, gradients and momenta that are in work at a time."""
_UNMOVED = 1e-6
"""A decay that shrinks a weight by less than this share of itself in a whole training is no decay."""


class Trial(NamedTuple):
    """A point of the grid."""

    lr: float
    weight_decay: float


Noted = Callable[[Trial, float], None]


def grid_scores(
    module: nn.Module,
    inputs: Rows,
    targets: Tensor,
    trials: Sequence[Trial],
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
    recipe: Recipe,
    held: Rows,
    score: Callable[[Tensor], float],
    worst: float,
    seed: int,
    device: torch.device | str | None = None,
    known: Mapping[Trial, float] | None = None,
    noted: Noted = lambda trial, value: None,
    budget: int = BUDGET,
) -> dict[Trial, float]:
    """Each trial's best validation over its epochs, all from the module's weights, which stay as they are.

    Trials are trained side by side: their weights are stacked, and one pass over a batch makes the gradients of all
    (`torch.func.vmap`). A module whose operations cannot be batched is trained run after run, by `fit`; so is one of
    which not even two fit into the budget. Batches and their order are the same either way.

    Args:
        module: called with a batch of `inputs`; parameters that need no gradient are shared.
        inputs: rows to train on.
        targets: one per row.
        trials: learning rates and decays. One whose decay erases the weights in one step (lr x decay >= 1) scores
            `worst`; of those whose decay is too small to move a weight, one stands for all of a rate.
        loss: of outputs and targets, a mean over samples.
        recipe: SGD with momentum, constant rate; its rate and decay are replaced, `validate_every` is an epoch.
        held: rows that validate.
        score: outputs for all of `held` to a number of which more is better.
        worst: the score of a trial that is not finite.
        seed: of the order of batches.
        device: of the module and of batches.
        known: scores of an earlier call that was interrupted.
        noted: told each score as it is known.
        budget: bytes for weights, gradients and momenta of the trials in work.

    Example:
        >>> x, y = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]), torch.tensor([0, 1, 0, 1])
        >>> recipe = Recipe(lr=1.0, steps=9, batch_size=4, validate_every=3, optimiser="sgd", schedule="constant")
        >>> scores = grid_scores(
        ...     nn.Linear(1, 2), x, y, [Trial(1e-9, 0.0), Trial(0.5, 0.0)], loss=nn.functional.cross_entropy,
        ...     recipe=recipe, held=x, score=lambda s: -float(nn.functional.cross_entropy(s, y)), worst=-9.0, seed=0,
        ... )
        >>> scores[Trial(0.5, 0.0)] > scores[Trial(1e-9, 0.0)]
        True
    """
    device = torch.device(device or "cpu")
    module.to(device)
    scores = dict(known or {})
    stands_for: dict[Trial, Trial] = {}
    waiting: list[Trial] = []
    for trial in trials:
        shrinks = trial.lr * trial.weight_decay
        unmoved = recipe.steps * shrinks / (1 - recipe.momentum) < _UNMOVED
        stands_for[trial] = Trial(trial.lr, 0.0) if unmoved else trial
        if shrinks >= 1:
            scores[trial] = worst
        elif stands_for[trial] not in scores and stands_for[trial] not in waiting:
            waiting.append(stands_for[trial])
    each = 4 * sum(weight.numel() * weight.element_size() for weight in module.parameters() if weight.requires_grad)
    together = max(1, budget // max(1, each)) if recipe.micro_batches == 1 else 1
    job = _Job(module, inputs, targets, loss, recipe, held, score, worst, seed, device)
    while waiting:
        part, waiting = waiting[:together], waiting[together:]
        values = job.side_by_side(part) if len(part) > 1 else None
        if values is None:
            values = [job.alone(part[0])]
            waiting, together = part[1:] + waiting, 1
            part = part[:1]
        for trial, value in zip(part, values, strict=True):
            scores[trial] = value
            noted(trial, value)
    return {trial: scores[trial] if trial in scores else scores[stands_for[trial]] for trial in trials}


class _Job(NamedTuple):
    module: nn.Module
    inputs: Rows
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    recipe: Recipe
    held: Rows
    score: Callable[[Tensor], float]
    worst: float
    seed: int
    device: torch.device

    def judged(self, outputs: Tensor) -> float:
        """The score of outputs, the worst for what is not finite."""
        if not bool(torch.isfinite(outputs).all()):
            return self.worst
        value = self.score(outputs)
        return value if math.isfinite(value) else self.worst

    def predicted(self, call: Callable[[Any], Tensor], axis: int) -> Tensor:
        """Outputs for all that validates, a batch at a time."""
        size = self.recipe.batch_size
        parts = [self.held[start : start + size].to(self.device) for start in range(0, len(self.held), size)]
        return torch.cat([call(part).detach().float().cpu() for part in parts], dim=axis)

    def alone(self, trial: Trial) -> float:
        """One trial by `fit`; the module is put back."""
        before = changing_state(self.module)
        recipe = replace(self.recipe, lr=trial.lr, weight_decay=trial.weight_decay)
        try:
            done = fit(
                self.module, (self.inputs,), self.targets, loss=self.loss, recipe=recipe,
                validate=lambda module: self.judged(self.predicted(module, 0)), direction="higher", seed=self.seed,
                device=self.device,
            )  # fmt: skip
            return max((row.score for row in done.history[1:]), default=self.worst)
        except FloatingPointError:
            return self.worst
        finally:
            self.module.load_state_dict(before, strict=False)

    def side_by_side(self, trials: Sequence[Trial]) -> list[float] | None:
        """Several trials at once; None where the module's operations cannot be batched."""
        try:
            with global_seed(self.seed), sdpa_kernel(SDPBackend.MATH):  # the others have no batching rule
                return self._stacked(trials)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            reason = " ".join(str(error).split())[:120]
            _LOG.info("%s is trained run after run: %s", type(self.module).__name__, reason)
            return None

    def _stacked(self, trials: Sequence[Trial]) -> list[float]:
        def stacked(value: Tensor) -> Tensor:
            return value.detach().expand(len(trials), *value.shape).clone()

        named = self.module.named_parameters()
        weights = {name: stacked(weight) for name, weight in named if weight.requires_grad}
        buffers = {name: stacked(value) for name, value in self.module.named_buffers()}
        moves = {name: torch.zeros_like(value) for name, value in weights.items()}
        rates, decays = (torch.tensor(column, device=self.device) for column in zip(*trials, strict=True))

        def loss(own: Any, state: Any, batch: Tensor, truth: Tensor) -> Tensor:
            return self.loss(functional_call(self.module, (own, state), (batch,)), truth)

        def outputs(own: Any, state: Any, batch: Tensor) -> Any:
            return functional_call(self.module, (own, state), (batch,))

        gradients = vmap(grad(loss), in_dims=(0, 0, None, None), randomness="different")
        outputs_of = vmap(outputs, in_dims=(0, 0, None))
        best = [self.worst] * len(trials)
        recipe, count = self.recipe, len(self.targets)
        steps = range(1, recipe.steps + 1)
        draws = (Draw(self.seed, step, batch_indices(count, recipe.batch_size, step, self.seed)) for step in steps)
        for step, (batch, truth) in enumerate(drawn((self.inputs, self.targets), draws), start=1):
            self.module.train()
            steepest = gradients(weights, buffers, batch.to(self.device), truth.to(self.device))
            with torch.no_grad():
                for name, value in weights.items():
                    shape = (-1, *[1] * (value.ndim - 1))
                    slope = steepest[name] + decays.view(shape) * value
                    moves[name].mul_(recipe.momentum).add_(slope)
                    value.sub_(rates.view(shape) * moves[name])
            if step % recipe.validate_every == 0 or step == recipe.steps:
                self.module.eval()
                with torch.no_grad():
                    every = self.predicted(lambda part: outputs_of(weights, buffers, part), 1)
                best = [max(old, self.judged(own)) for old, own in zip(best, every, strict=True)]
        return best

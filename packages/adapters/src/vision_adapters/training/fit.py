"""The training loop: minibatches from an explicit order, validation, the best weights, and resumption."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from vision_adapters.training.checkpoint import changing_state, fingerprint, load, save
from vision_adapters.training.schedule import Rate, parameter_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vision_adapters.training.recipe import Recipe

Direction = Literal["higher", "lower"]


class Kept(NamedTuple):
    """A validated checkpoint: its step, its score, and what training can change."""

    step: int
    score: float
    state: dict[str, Tensor]


class Validation(NamedTuple):
    """One validation: its step and score, and the training since the one before.

    `loss` and `gradient_norm` are means over those steps (NaN at step 0), `rate` the last learning rate.
    """

    step: int
    score: float
    loss: float
    gradient_norm: float
    rate: float


@dataclass(frozen=True)
class Fit:
    """The outcome of a training.

    Args:
        best_step: step of the best validation, the earliest among equals; its weights are in the module.
        best_score: its score.
        history: every validation, in order.
        seconds: time in the loop, summed over interruptions.
        kept: the best validated checkpoints, best first, as many as `fit` was asked to keep.
    """

    best_step: int
    best_score: float
    history: list[Validation]
    seconds: float
    kept: list[Kept]


def batch_indices(samples: int, batch_size: int, step: int, seed: int) -> Tensor:
    """The samples of step 1, 2, …: a new permutation in each epoch, whole batches only.

    Args:
        samples: n >= 1.
        batch_size: at most n samples are taken.
        step: >= 1.
        seed: any non-negative integer.

    Returns:
        Indices; they depend on the arguments alone, so that a resumed training needs no state for them.

    Example:
        >>> sorted(torch.cat([batch_indices(6, 2, step, 0) for step in (1, 2, 3)]).tolist())
        [0, 1, 2, 3, 4, 5]
    """
    size = min(batch_size, samples)
    epoch, place = divmod(step - 1, samples // size)
    order = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch]))).permutation(samples)
    return torch.from_numpy(order[place * size : (place + 1) * size].copy())


def fit(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    targets: Tensor,
    *,
    loss: Callable[[Any, Tensor], Tensor],
    recipe: Recipe,
    validate: Callable[[nn.Module], float],
    direction: Direction,
    seed: int,
    checkpoint: Path | None = None,
    progress: Callable[[int, int, float | None], None] | None = None,
    device: torch.device | str | None = None,
    keep: int = 1,
) -> Fit:
    """Train a module in place and leave in it the weights that validated best, the untrained ones included.

    Args:
        module: called as `module(*batch)`; parameters that need no gradient are left alone.
        inputs: tensors indexed along their first dimension: frozen features, token grids, or uint8 images.
        targets: one per sample.
        loss: of the module's output and the batch's targets; a mean over samples.
        recipe: optimiser, schedule, length.
        validate: scores the module, which is in eval mode, without gradients.
        direction: "higher" or "lower" is better.
        seed: of the order of the samples, and of the global generator (dropout) inside the loop; the caller's global
            generator is put back at the end.
        checkpoint: a file for the state, written after each validation. If it exists, the training goes on from it and
            ends with the same bits as one that was never interrupted. A finished one is only read.
        progress: called after each step with (step, steps, score of a validation or None).
        device: where the module and each batch go; by default, where the first input is.
        keep: how many of the best validated checkpoints to keep, for `ensemble_logits`.

    Returns:
        Best step and score, the history and the time. The module is left in eval mode.

    Raises:
        ValueError: lengths that differ, no samples, features that are not finite, a bad direction, or a checkpoint of
            another training, with the values.
        FloatingPointError: a loss, gradient or validation score that is not finite, with the step.

    Numerics:
        The same call gives the same bits on the same machine and thread count, as far as the module's own operations do
        (on CUDA, some backward passes add in no fixed order). Memory: two copies of what training can change.

    Example:
        >>> from vision_adapters.heads import LinearHead, seeded
        >>> from vision_adapters.losses import cross_entropy
        >>> x = torch.tensor([[1.0], [-1.0], [2.0], [-2.0]])
        >>> y = torch.tensor([0, 1, 0, 1])
        >>> head = seeded(lambda: LinearHead(1, 2), 0)
        >>> recipe = Recipe(lr=0.1, steps=20, batch_size=2, validate_every=10)
        >>> accuracy = lambda m: float((m(x).argmax(1) == y).float().mean())
        >>> done = fit(head, (x,), y, loss=cross_entropy, recipe=recipe, validate=accuracy, direction="higher", seed=0)
        >>> done.best_score
        1.0

    Source:
        GATE, section 8.1: validation at intervals and the best validated weights; validating step 0 is ours, and makes
        a language-initialised head never worse on validation than zero-shot.
    """
    place = torch.device(device) if device is not None else inputs[0].device if inputs else torch.device("cpu")
    _check(inputs, targets, direction, seed)
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    module.to(place)
    optimiser = torch.optim.AdamW(
        parameter_groups(module, recipe.weight_decay, recipe.head_lr_scale),
        lr=recipe.lr,
        betas=recipe.betas,
        eps=recipe.eps,
    )
    rate = Rate(recipe, optimiser)
    marks: dict[str, str] = {}
    if checkpoint is not None:
        marks = {**fingerprint(inputs, targets, recipe, seed, direction, module), "keep": str(keep)}
    history: list[Validation] = []
    kept: list[Kept] = []
    done, seconds = 0, 0.0
    losses: list[float] = []
    norms: list[float] = []
    now = math.nan

    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        if checkpoint is not None and checkpoint.exists():
            state = load(checkpoint, marks, place)
            module.load_state_dict(state["module"], strict=False)
            optimiser.load_state_dict(state["optimiser"])
            rate.load(state["rate"])
            torch.set_rng_state(state["generator"].cpu())
            if place.type == "cuda":
                torch.cuda.set_rng_state(state["device_generator"].cpu(), place)
            history = [Validation(int(row[0]), *row[1:]) for row in state["history"]]
            kept = [Kept(*each) for each in state["kept"]]
            done, seconds = state["step"], state["seconds"]
        start = time.perf_counter()

        for step in range(done if not history else done + 1, recipe.steps + 1):
            if step > 0:
                module.train()
                now = rate.set(step)
                value, norm = _step(module, optimiser, inputs, targets, loss, recipe, step, seed, place)
                rate.observe(value)
                losses.append(value)
                norms.append(norm)
            score: float | None = None
            if step % recipe.validate_every == 0 or step == recipe.steps:
                score = _validated(module, validate, step)
                if len(kept) < keep or _better(score, kept[-1].score, direction):
                    kept = best_first([*kept, Kept(step, score, changing_state(module))], direction)[:keep]
                history.append(Validation(step, score, _mean(losses), _mean(norms), now))
                losses, norms = [], []
                if checkpoint is not None:
                    state = {
                        "fingerprint": marks,
                        "step": step,
                        "module": changing_state(module),
                        "kept": [tuple(each) for each in kept],
                        "optimiser": optimiser.state_dict(),
                        "rate": rate.state(),
                        "generator": torch.get_rng_state(),
                        "history": [tuple(row) for row in history],
                        "seconds": seconds + time.perf_counter() - start,
                    }
                    if place.type == "cuda":
                        state["device_generator"] = torch.cuda.get_rng_state(place)
                    save(checkpoint, state)
            if progress is not None:
                progress(step, recipe.steps, score)
        seconds += time.perf_counter() - start

    module.load_state_dict(kept[0].state, strict=False)
    module.eval()
    return Fit(best_step=kept[0].step, best_score=kept[0].score, history=history, seconds=seconds, kept=kept)


Scored = TypeVar("Scored", Kept, Validation)


def best_first(validated: Sequence[Scored], direction: Direction) -> list[Scored]:
    """Sort by score, the best first, the earlier step first among equals.

    Args:
        validated: checkpoints or validations.
        direction: "higher" or "lower" is better.

    Returns:
        The same, sorted.

    Example:
        >>> rows = [Kept(0, 2.0, {}), Kept(5, 1.0, {}), Kept(9, 1.0, {})]
        >>> [row.step for row in best_first(rows, "lower")]
        [5, 9, 0]
    """
    sign = -1.0 if direction == "higher" else 1.0
    return sorted(validated, key=lambda row: (sign * row.score, row.step))


def ensemble_logits(module: nn.Module, kept: Sequence[Kept], forward: Callable[[nn.Module], Tensor]) -> Tensor:
    """The mean of the scores that several checkpoints of one module give.

    Args:
        module: the trained module; its present weights are put back at the end.
        kept: checkpoints, for example the first three of `Fit.kept`.
        forward: module -> scores, for example on the test inputs.

    Returns:
        The mean scores.

    Raises:
        ValueError: no checkpoints.

    Source:
        GATE, section 8.1: logits of the top 1, 3 and 5 validated models are averaged.
    """
    if not kept:
        raise ValueError("there are no checkpoints to average")
    before = changing_state(module)
    module.eval()
    total: Tensor | None = None
    with torch.no_grad():
        for each in kept:
            module.load_state_dict(each.state, strict=False)
            scores = forward(module).float()
            total = scores if total is None else total + scores
    module.load_state_dict(before, strict=False)
    assert total is not None
    return total / len(kept)


def _step(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    inputs: tuple[Tensor, ...],
    targets: Tensor,
    loss: Callable[[Any, Tensor], Tensor],
    recipe: Recipe,
    step: int,
    seed: int,
    place: torch.device,
) -> tuple[float, float]:
    """One optimiser step; the loss and the norm of its gradient."""
    optimiser.zero_grad(set_to_none=True)
    chosen = batch_indices(len(targets), recipe.batch_size, step, seed)
    total = 0.0
    for part in chosen.chunk(recipe.accumulate):
        batch = [each[part.to(each.device)].to(place) for each in inputs]
        value = loss(module(*batch), targets[part.to(targets.device)].to(place)) * (len(part) / len(chosen))
        torch.autograd.backward(value)
        total += float(value.detach())
    trained = [parameter for parameter in module.parameters() if parameter.grad is not None]
    limit = math.inf if recipe.clip_norm is None else recipe.clip_norm
    norm = float(torch.nn.utils.clip_grad_norm_(trained, limit))
    if not (math.isfinite(total) and math.isfinite(norm)):
        raise FloatingPointError(f"step {step}: loss {total} with gradient norm {norm}, expected finite numbers")
    optimiser.step()
    return total, norm


def _validated(module: nn.Module, validate: Callable[[nn.Module], float], step: int) -> float:
    """The validation score, in eval mode and without gradients."""
    module.eval()
    with torch.no_grad():
        score = float(validate(module))
    if not math.isfinite(score):
        raise FloatingPointError(f"step {step}: the validation score is {score}, expected a finite number")
    return score


def _better(score: float, than: float, direction: Direction) -> bool:
    """Whether `score` is strictly better."""
    return score > than if direction == "higher" else score < than


def _mean(values: list[float]) -> float:
    """The mean, NaN for none."""
    return math.fsum(values) / len(values) if values else math.nan


def _check(inputs: tuple[Tensor, ...], targets: Tensor, direction: str, seed: int) -> None:
    """Refuse what cannot be trained on."""
    if not inputs or len(targets) == 0:
        raise ValueError(
            f"expected at least one input and one sample, got {len(inputs)} inputs, {len(targets)} targets"
        )
    for place, each in enumerate(inputs):
        if len(each) != len(targets):
            raise ValueError(f"input {place} has {len(each)} samples but there are {len(targets)} targets")
        if each.is_floating_point():
            for first in range(0, len(each), 4096):  # in parts: no second copy of all features
                rows = torch.isfinite(each[first : first + 4096]).flatten(1).all(1)
                if not bool(rows.all()):
                    raise ValueError(f"input {place}, sample {first + int((~rows).nonzero()[0])} holds NaN or infinity")
    if direction not in ("higher", "lower"):
        raise ValueError(f"direction must be 'higher' or 'lower', got {direction!r}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")

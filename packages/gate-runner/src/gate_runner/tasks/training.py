"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gate_runner.benchmarks.data import Split
from gate_runner.tasks.job import Job, Outcome, TaskScore
from vision_adapters.metrics import METRICS, Score, evaluate
from vision_adapters.training import Direction, Fit, Recipe, fit

_LOG = logging.getLogger(__name__)

Inputs = tuple[Tensor, ...]
Loss = Callable[[Any, Tensor], Tensor]

_RECIPE = {"lr", "steps", "batch_size", "validate_every", "weight_decay", "schedule"}


def train_and_test(
    job: Job,
    head: nn.Module,
    loss: Loss,
    inputs: tuple[Inputs, Inputs, Inputs],
    targets: tuple[Tensor, Tensor, Tensor],
    blind: Shaped[Tensor, "n ..."],
    *,
    read: Callable[[Tensor], Tensor] = lambda output: output,
    gather: Callable[[Tensor, Split], Tensor] = lambda predictions, split: predictions,
) -> Outcome:
    """Fit a head on cached features.

    Args:
        job: benchmark, encoder and seed.
        head: called as ``head(*inputs)``.
        loss: of its output and targets.
        inputs: of train, validation and test.
        targets: likewise.
        blind: predictions for the test split made without its images, for the chance level.
        read: output to predictions, e.g. scores to class maps, batch by batch.
        gather: predictions or targets of a split's samples to those of units, e.g. slices to volumes.

    Returns:
        Scores on the test split with the weights that validated best.
    """
    headline = METRICS[job.benchmark.metrics[0]]
    recipe = Recipe(**{key: value for key, value in job.training.items() if key in _RECIPE})
    expected = gather(targets[1], job.data.validation)

    def validate(module: nn.Module) -> float:
        found = gather(predict(module, inputs[1], read, job.predict_size), job.data.validation)
        return evaluate(headline.name, found, expected, resamples=0).value

    fitted = fit_head(job, head, inputs[0], targets[0], loss, recipe, validate, headline.direction)
    with job.timed("test"):
        predictions = gather(predict(head, inputs[2], read, job.predict_size), job.data.test)
        truth = gather(targets[2], job.data.test)
        scores = score(job, predictions, truth, gather(blind, job.data.test))
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters() if p.requires_grad),
        "steps": recipe.steps,
        "chosen_step": fitted.best_step,
        "validation": [{"step": row.step, headline.name: row.score} for row in fitted.history],
    }
    return Outcome(tuple(one for one, _ in scores), scores[0][1].outcomes, training)


def fit_head(
    job: Job,
    head: nn.Module,
    inputs: Inputs,
    targets: Tensor,
    loss: Loss,
    recipe: Recipe,
    validate: Callable[[nn.Module], float],
    direction: Direction,
) -> Fit:
    """Train a head in place, from where an interrupted training of the same job stopped.

    A checkpoint that is damaged, or of a job with other numbers, is warned about and the training starts anew.

    Args:
        job: seed, checkpoint, device, and into how many parts to cut a batch.
        head: left with the weights that validated best.
        inputs: of the training split.
        targets: likewise.
        loss: of the head's output and targets; a mean over samples.
        recipe: how to train.
        validate: scores the head.
        direction: "higher" or "lower" scores are better.

    Returns:
        How the training went.
    """
    in_parts(head, min(job.parts, recipe.batch_size))

    def train() -> Fit:
        return fit(
            head,
            inputs,
            targets,
            loss=loss,
            recipe=recipe,
            validate=validate,
            direction=direction,
            seed=job.seed,
            checkpoint=job.checkpoint,
            progress=lambda step, steps, _: job.progress("train", step, steps),
            device=job.encoder.device,
        )

    with job.timed("train"):
        try:
            return train()
        except ValueError as error:
            if job.checkpoint is None or not str(error).startswith(f"{job.checkpoint} "):
                raise
            _LOG.warning("%s: starting this training anew", error)
            job.checkpoint.unlink(missing_ok=True)
            return train()


def in_parts(head: nn.Module, parts: int) -> None:
    """Let a head pass each training batch in parts, which are computed again in the backward pass instead of kept.

    The loss still sees the whole batch, so that the gradient is the same also for losses that do not average over
    samples (dice), and a training may go on with another number of parts.

    Args:
        head: changed in place; its parameters and their names stay.
        parts: 1 leaves the head as it is; n needs about 1/n of the memory for activations, and a second forward pass.
    """
    if parts == 1:
        return
    whole = head.forward

    def forward(*inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            result: Tensor = whole(*inputs)
            return result
        pieces = zip(*(each.chunk(parts) for each in inputs), strict=True)
        return torch.cat([checkpoint(whole, *piece, use_reentrant=False) for piece in pieces])

    setattr(head, "forward", forward)  # noqa: B010 - an attribute of this one instance, which a type checker refuses


def score(job: Job, predictions: Tensor, truth: Tensor, blind: Tensor) -> list[tuple[TaskScore, Score]]:
    """Every metric of the benchmark on the test split, with its interval and its chance level."""
    found = []
    for name in job.benchmark.metrics:
        value = evaluate(name, predictions, truth, seed=job.seed)
        chance = evaluate(name, blind, truth, resamples=0).value
        found.append((TaskScore(name, value.direction, value.value, value.low, value.high, chance), value))
    return found


@torch.inference_mode()
def predict(module: nn.Module, inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int) -> Tensor:
    """Predictions for every sample, on the CPU."""
    device = next(module.parameters()).device
    count = len(inputs[0])
    parts = [
        read(module(*(each[start : start + batch_size].to(device) for each in inputs))).cpu()
        for start in range(0, count, batch_size)
    ]
    return torch.cat(parts)


def frequencies(targets: Tensor, classes: int) -> Tensor:
    """Log-frequencies of classes ``[k]``, or for each place of class maps ``[k, h, w]``."""
    counts = torch.stack([(targets == index).float().mean(dim=0) for index in range(classes)])
    return counts.clamp_min(1e-6).log()

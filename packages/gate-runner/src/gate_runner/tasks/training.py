"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gate_runner.tasks.job import Job, Outcome, TaskScore
from vision_adapters.metrics import METRICS, Score, evaluate
from vision_adapters.training import Recipe, fit

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
    gather: Callable[[Tensor], Tensor] = lambda predictions: predictions,
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
        gather: predictions or targets of samples to those of units, e.g. slices to volumes.

    Returns:
        Scores on the test split with the weights that validated best.
    """
    headline = METRICS[job.benchmark.metrics[0]]
    recipe = Recipe(**{key: value for key, value in job.training.items() if key in _RECIPE})
    expected = gather(targets[1])

    def validate(module: nn.Module) -> float:
        found = gather(predict(module, inputs[1], read, job.batch_size))
        return evaluate(headline.name, found, expected, resamples=0).value

    with job.timed("train"):
        fitted = fit(
            head,
            inputs[0],
            targets[0],
            loss=loss,
            recipe=recipe,
            validate=validate,
            direction=headline.direction,
            seed=job.seed,
            checkpoint=job.checkpoint,
            progress=lambda step, steps, _: job.progress("train", step, steps),
            device=job.encoder.device,
        )
    with job.timed("test"):
        predictions = gather(predict(head, inputs[2], read, job.batch_size))
        truth = gather(targets[2])
        scores = score(job, predictions, truth, gather(blind))
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters() if p.requires_grad),
        "steps": recipe.steps,
        "chosen_step": fitted.best_step,
        "validation": [{"step": row.step, headline.name: row.score} for row in fitted.history],
    }
    return Outcome(tuple(one for one, _ in scores), scores[0][1].outcomes, training)


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

"""A job's training: by which recipe, from where its head starts, and what a result says of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn
from torch import Tensor

from gate_runner.settings import Settings
from gate_runner.tasks.backbone import Learning
from gate_runner.tasks.job import Job
from gate_runner.tasks.recipes import checked, recipe_for
from gate_runner.tasks.retention import Fitted, after_training
from vision_adapters.heads import InitializedHead
from vision_adapters.losses import class_balance
from vision_adapters.rows import Rows
from vision_adapters.training import Backbone, Direction, EncoderWithHead, ProbeInit, Recipe, Scale
from vision_adapters.training import fit_head as fit
from vision_adapters.training.backbones import SplitName
from vision_adapters.training.head import Inputs
from vision_adapters.training.outcome import Validation

Loss = Callable[[Any, Any], Tensor]

_DEFAULT = {"lr": 1e-3, "steps": 10_000, "batch_size": 1024, "validate_every": 500}
"""Of a linear head on more features than a solved probe takes."""
_RECIPE = {"lr", "steps", "batch_size", "validate_every", "weight_decay", "schedule", "warmup"}


def head_recipe(training: Mapping[str, Any], fields: Mapping[str, Any], own: Mapping[str, Any]) -> Recipe:
    """The benchmark's, with what a task type or the settings say of it.

    Its warm-up is that of its own schedule: settings that ask for plateaus leave it out.
    """
    numbers = {key: value for key, value in training.items() if key in _RECIPE} | dict(own)
    fields = checked(fields)
    if fields.get("schedule") == "plateau":
        numbers.pop("warmup", None)
    return Recipe(**{**_DEFAULT, **numbers, **fields})


def rate_factors(training: Mapping[str, Any], settings: Settings) -> tuple[float, ...]:
    """What the learning rate is multiplied with, one training for each; the rate as it is comes first."""
    fixed = settings.tune != "frozen" or "lr" in settings.recipe_fields
    return (1.0,) if fixed else tuple(training.get("rates", (1.0,)))


CURVE = ".curve"
"""Ending, behind the checkpoint's, of the file of a training's validations so far, a line of JSON each."""


def noted(job: Job) -> Callable[[Validation], None] | None:
    """Return what writes each validation of a training to a file beside its checkpoint, for whoever looks on."""
    if job.checkpoint is None:
        return None
    path, metric = job.checkpoint.with_name(f"{job.checkpoint.name}{CURVE}"), job.benchmark.metrics[0]

    def note(row: Validation) -> None:
        values = {f"validation {metric}": row.score, "training loss": row.loss, "learning rate": row.rate}
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": row.step, **finite}) + "\n")

    return note


def fit_head(
    job: Job,
    backbone: Backbone,
    head: torch.nn.Module,
    targets: Rows,
    loss: Loss,
    validate: Callable[[EncoderWithHead, Inputs], float],
    direction: Direction,
    inputs: Callable[[Backbone, SplitName], Inputs] | None = None,
    scales: Sequence[Scale | None] = (),
    own: Mapping[str, Any] | None = None,
) -> Fitted:
    """Train a head behind a job's backbone, from where an interrupted training of the same job stopped.

    Of an encoder that is trained, the head starts where it ends on the frozen features, unless the recipe has it
    otherwise, or it starts at class prompts or a solved probe already.

    Args:
        job: seed, settings, checkpoint, device.
        backbone: of the job.
        head: trained in place.
        targets: of the training split.
        loss: of the head's outputs and the targets; a mean over samples.
        validate: scores the module on its inputs of the validation split.
        direction: "higher" or "lower" scores are better.
        inputs: see `vision_adapters.training.fit_head`.
        scales: likewise.
        own: a task type's numbers for a recipe, which go before the benchmark's.
    """
    settings, own = job.settings, own or {}
    for part in (backbone, backbone.before) if isinstance(backbone, Learning) else (backbone,):
        if part is not None:  # what is encoded is not counted as training
            inputs(part, "validation") if inputs else part.rows("validation")
    init = None
    if isinstance(backbone, Learning) and backbone.before is not None:
        path = None if job.checkpoint is None else job.checkpoint.with_name(f"{job.checkpoint.name}.head")
        rates = tuple(job.training.get("rates", (1.0,)))
        init = ProbeInit(
            backbone.before,
            head_recipe(job.training, {}, own),
            rates,
            path,
            lambda _, done, of: job.progress("train head", done, of),
            targets,
        )
    frozen, weights = settings.tune == "frozen", None
    if frozen:
        recipe = head_recipe(job.training, settings.recipe_fields, own)
    else:
        assert job.encoder.module is not None
        recipe = recipe_for(settings, job.encoder.module, job.benchmark.task)
    if settings.class_weight == "sampled":
        labels = torch.as_tensor(targets[:])
        weights = class_balance(labels, int(labels.max()) + 1)[labels]
    with job.timed("train"), job.together() as group:
        done = fit(
            backbone,
            head,
            backbone.moved(targets) if isinstance(backbone, Learning) else targets,
            loss=loss,
            recipe=recipe,
            validate=validate,
            direction=direction,
            seed=job.seed,
            init=init,
            rates=rate_factors(job.training, settings),
            inputs=inputs,
            scales=scales,
            micro_batches=settings.micro_batches,
            checkpoint=job.checkpoint,
            belongs_to={"data_sha256": job.data.digest()},
            progress=job.progress,
            device=job.encoder.device,
            keep=1 if frozen else 5,
            layers=not frozen,
            group=group,
            sample_weights=weights,
            watch=None if frozen else noted(job),
        )
    if frozen:
        return Fitted(**vars(done))
    with job.timed("train"):
        held = inputs(backbone, "validation") if inputs else (backbone.rows("validation"),)
        starts_solved = init is not None or isinstance(head, InitializedHead)
        return after_training(job, done, lambda module: validate(done.module, held), direction, mix_head=starts_solved)

"""Fit a head, or an encoder with its head: at which rates, from where, and how an interrupted one goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gate_runner.tasks.after_training import after_training
from gate_runner.tasks.backbone import Scaled
from gate_runner.tasks.job import Job, StartedAt
from gate_runner.tasks.rates import factors, rungs, work
from gate_runner.tasks.recipes import checked, recipe_for
from gate_runner.tasks.trained import Trained, Tried
from vision_adapters.finetune import recomputed
from vision_adapters.rows import Rows
from vision_adapters.training import Direction, Fit, Recipe, fit
from vision_adapters.training.checkpoint import changing_state

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_LOG = logging.getLogger(__name__)

Inputs = tuple[Rows, ...]
Loss = Callable[[Any, Any], Tensor]

_DEFAULT = {"lr": 1e-3, "steps": 10_000, "batch_size": 1024, "validate_every": 500}
"""Of a linear head on more features than a solved probe takes."""
_RECIPE = {"lr", "steps", "batch_size", "validate_every", "weight_decay", "schedule"}


class FollowedError(Exception):
    """A training that this process shared with another is over; only the first process goes on from there."""


class HeadTrained(Exception):  # noqa: N818 - it ends a task that was asked for its head alone; nothing is wrong
    """The head that was asked for."""

    def __init__(self, start: StartedAt) -> None:
        super().__init__("the head is trained")
        self.start = start


def recipe_of(job: Job, **own: Any) -> Recipe:
    """The recipe of a job: a frozen encoder's heads have the benchmark's, a trained encoder has the settings'.

    Args:
        job: whose settings, and whose benchmark's numbers for its head.
        own: a task type's numbers, which go before the benchmark's.

    Returns:
        The recipe.

    Raises:
        UsageError: a field that there is not; the message shows the nearest.
    """
    if job.settings.tune != "frozen":
        assert job.encoder.module is not None
        return recipe_for(job.settings, job.encoder.module, job.benchmark.task)
    said = {key: value for key, value in job.training.items() if key in _RECIPE}
    return Recipe(**{**_DEFAULT, **said, **own, **checked(job.settings.recipe_fields)})


def fit_head(
    job: Job,
    module: nn.Module,
    inputs: Inputs,
    targets: Rows,
    loss: Loss,
    recipe: Recipe,
    validate: Callable[[nn.Module], float],
    direction: Direction,
) -> Trained:
    """Train a module in place, from where an interrupted training of the same job stopped.

    The head of a frozen encoder begins at each of the learning rates that the benchmark's ``rates`` are factors for,
    unless the settings name one; half of these trainings end after a quarter of the steps, all but the one that
    validates best after a half. A checkpoint that is damaged, or of a job with other numbers, is warned about and the
    training starts anew.

    Args:
        job: seed, checkpoint, device, and into how many micro-batches to cut a batch.
        module: left with the weights that validated best.
        inputs: of the training split.
        targets: likewise.
        loss: of the module's output and the targets; a mean over samples.
        recipe: how to train.
        validate: scores the module.
        direction: "higher" or "lower" scores are better.

    Returns:
        How the training went.

    Raises:
        FollowedError: in all processes but the first, where several share the training.
        HeadTrained: the job is for the head alone.
    """
    in_micro_batches(module, min(job.settings.micro_batches, recipe.batch_size))
    recipes = [replace(recipe, lr=recipe.lr * factor) for factor in factors(job.training, job.settings)]
    start = changing_state(module)
    with ExitStack() as stack:
        stack.enter_context(job.timed("train"))
        path = job.checkpoint
        if path is None and len(recipes) > 1:
            path = Path(stack.enter_context(TemporaryDirectory())) / "head.pt"
        fitting = _Fitting(job, module, inputs, targets, loss, recipes, validate, direction, start, path)
        with job.together() as group:
            done = _best_of(fitting, group)
            if group is not None and group.rank() > 0:
                raise FollowedError
        if job.head_only:
            assert isinstance(module, Scaled)
            raise HeadTrained(StartedAt(module.head.state_dict(), module.scale))
        if job.settings.tune == "frozen":
            return done
        return after_training(job, module, start, done, validate, higher=direction == "higher")


@dataclass(frozen=True)
class _Fitting:
    """One training for each recipe, all of the same module from the same start.

    Args:
        start: what training changes in the module, before.
        path: the first one's checkpoint, from which the others' names come; None where there is only one, and it keeps
            none.
    """

    job: Job
    module: nn.Module
    inputs: Inputs
    targets: Rows
    loss: Loss
    recipes: list[Recipe]
    validate: Callable[[nn.Module], float]
    direction: Direction
    start: Mapping[str, Tensor]
    path: Path | None

    def until(self, number: int, stop: int, ahead: int, group: ProcessGroup | None) -> Fit:
        """Train by one of the recipes to a step, from where its checkpoint is.

        Args:
            number: of the recipe.
            stop: the step.
            ahead: steps of all trainings before its first one, for who watches.
            group: of processes that share it.
        """
        path = self.path if self.path is None or number == 0 else self.path.with_name(f"{self.path.name}.rate{number}")
        try:
            return self._once(number, stop, ahead, group, path)
        except ValueError as error:
            if path is None or not str(error).startswith(f"{path} "):
                raise
            _LOG.warning("%s: starting this training anew", error)
            path.unlink(missing_ok=True)
            return self._once(number, stop, ahead, group, path)

    def _once(self, number: int, stop: int, ahead: int, group: ProcessGroup | None, path: Path | None) -> Fit:
        job, recipe = self.job, self.recipes[number]
        whole = work(recipe.steps, recipe.validate_every, len(self.recipes)).steps
        more: dict[str, Any] = {} if job.settings.tune == "frozen" else {"keep": 5, "layers": True}
        self.module.load_state_dict(self.start, strict=False)
        return fit(
            self.module,
            self.inputs,
            self.targets,
            loss=self.loss,
            recipe=recipe,
            validate=self.validate,
            direction=self.direction,
            seed=job.seed,
            checkpoint=path,
            progress=lambda phase, done, total: job.progress(phase, ahead + done, whole),
            device=job.encoder.device,
            group=group,
            stop=stop if stop < recipe.steps else None,
            **more,
        )


def _best_of(fitting: _Fitting, group: ProcessGroup | None) -> Trained:
    """Train by all recipes, the better ones for longer; the module is left with the best one's weights."""
    recipes, sign = fitting.recipes, 1.0 if fitting.direction == "higher" else -1.0
    parts = rungs(recipes[0].steps, recipes[0].validate_every, len(recipes))
    going, ahead = list(range(len(recipes))), 0
    tried: dict[int, tuple[int, float]] = {}
    for part in parts:
        going = sorted(going, key=lambda number: -sign * tried.get(number, (0, 0.0))[1])[: part.trainings]
        for number in sorted(going):
            found = fitting.until(number, part.stop, ahead - part.start, group)
            ahead += part.stop - part.start
            scores = [row.score for row in found.history if row.step <= part.stop]
            tried[number] = (part.stop, sign * max(sign * score for score in scores))
    (best,) = going
    rates = [Tried(recipes[number].lr, *each) for number, each in sorted(tried.items())] if len(tried) > 1 else []
    return Trained(**vars(found), recipe=recipes[best], tried=rates)


def in_micro_batches(head: nn.Module, count: int) -> None:
    """Let a head pass each training batch in micro-batches, computed again in the backward pass instead of kept.

    The loss still sees the whole batch, so that the gradient is the same also for losses that do not average over
    samples (dice), and a training may go on with another number of them.

    Args:
        head: changed in place; its parameters and their names stay.
        count: 1 leaves the head as it is; n needs about 1/n of the memory for activations, and a second forward pass.
    """
    if count == 1:
        return
    whole = head.forward
    again = recomputed(head, whole)

    def forward(*inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            result: Tensor = whole(*inputs)
            return result
        pieces = zip(*(each.chunk(count) for each in inputs), strict=True)
        return torch.cat([again(*piece) for piece in pieces])

    setattr(head, "forward", forward)  # noqa: B010 - an attribute of this one instance, which a type checker refuses

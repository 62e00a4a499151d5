"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from gate_runner.benchmarks.data import Split
from gate_runner.benchmarks.request import SplitName
from gate_runner.tasks.after_training import after_training, gained
from gate_runner.tasks.backbone import Backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.rates import factors, rungs, work
from gate_runner.tasks.recipes import checked, recipe_for
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.score import Score
from gate_runner.tasks.trained import Trained, Tried
from vision_adapters.finetune import recomputed
from vision_adapters.metrics import METRICS, RunningScores, evaluate
from vision_adapters.metrics import Score as Estimate
from vision_adapters.rows import Rows
from vision_adapters.training import Direction, Fit, Kept, Recipe, fit
from vision_adapters.training.checkpoint import changing_state

_LOG = logging.getLogger(__name__)

Inputs = tuple[Rows, ...]
Loss = Callable[[Any, Any], Tensor]
Beside = Callable[[Tensor, Tensor], np.ndarray]

_DEFAULT = {"lr": 1e-3, "steps": 10_000, "batch_size": 1024, "validate_every": 500}
"""Of a linear head on more features than a solved probe takes."""
_MOST_AVERAGED = 5
"""Checkpoints in the largest ensemble, as in GATE."""
_RECIPE = {"lr", "steps", "batch_size", "validate_every", "weight_decay", "schedule"}


class FollowedError(Exception):
    """A training that this process shared with another is over; only the first process goes on from there."""


@dataclass(frozen=True)
class Extra:
    """What a head gets besides the images: rows of each split, and their scale, if any."""

    rows: Mapping[SplitName, Rows]
    scale: Scale | None = None


def train_and_test(
    job: Job,
    backbone: Backbone,
    head: nn.Module,
    loss: Loss,
    blind: Shaped[Tensor, "n ..."],
    *,
    extras: Sequence[Extra] = (),
    targets: Mapping[SplitName, Rows] | None = None,
    read: Callable[[Tensor], Tensor] = lambda output: output,
    gather: Callable[[Tensor, Split], Tensor] | None = None,
    answer: Callable[[Tensor], np.ndarray] | None = None,
    beside: Beside | None = None,
) -> Outcome:
    """Train a head on a backbone, with the targets of the job's data.

    Predictions are scored batch by batch, so that memory holds what a metric keeps per sample, and no predictions.

    Args:
        job: benchmark, encoder and seed.
        backbone: of the job.
        head: called as ``head(features, *extras)``.
        loss: of its output and targets.
        blind: predictions for the test split made without its images, for the chance level.
        extras: further inputs of the head.
        targets: of each split, as `targets_of` gives them; the data's, which are then tensors, where None.
        read: output to predictions, e.g. scores to class maps, batch by batch.
        gather: predictions or targets of a split's samples to those of units, e.g. slices to volumes; those of a split
            are then all in memory.
        answer: predictions to what is kept of them beside the outcomes, batch by batch; None keeps nothing.
        beside: the same from predictions and targets of units, where predictions alone are too much to keep.

    Returns:
        Scores on the test split with the weights that validated best.
    """
    data, metrics = job.data, job.benchmark.metrics
    truths = targets or {"train": data.train.targets, "validation": data.validation.targets, "test": data.test.targets}
    headline = METRICS[job.benchmark.metrics[0]]
    recipe = recipe_of(job, **{key: value for key, value in job.training.items() if key in _RECIPE})
    module = backbone.attach(head, *(extra.scale for extra in extras))

    def inputs(name: SplitName) -> Inputs:
        return (backbone.rows(name), *(extra.rows[name] for extra in extras))

    held, test = inputs("validation"), inputs("test")

    def judge(name: SplitName, metrics: Sequence[str], beside: Beside | None = None) -> _Judge:
        return _Judge(metrics, truths[name], getattr(data, name), gather, beside)

    def validate(module: nn.Module) -> float:
        judged = judge("validation", [headline.name])
        for found in _predictions(module, held, read, job.predict_size):
            judged.add(found)
        return judged.scores(resamples=0)[headline.name].value

    fitted = fit_head(job, module, inputs("train"), truths["train"], loss, recipe, validate, headline.direction)
    with job.timed("test"):
        judged, guessed, answers = judge("test", metrics, beside), judge("test", metrics), []
        kept = fitted.kept[:_MOST_AVERAGED] if job.settings.tune != "frozen" else fitted.kept[:1]
        means = {size: judge("test", [headline.name]) for size in _averaged(len(kept)) if size > 1}
        for found, guess in zip(
            _tested(module, kept, test, read, job.predict_size), torch.split(blind, job.predict_size), strict=True
        ):
            judged.add(found[1])
            guessed.add(guess)
            for size, one in means.items():
                one.add(found[size])
            answers += [answer(found[1])] if answer else []
        estimates, chance = judged.scores(seed=job.seed), guessed.scores(resamples=0)
        averaged = {1: estimates, **{size: one.scores(seed=job.seed) for size, one in means.items()}}
        rows: dict[str, Any] = {}
        if job.settings.tune != "frozen":
            by_size = {size: averaged[size][headline.name] for size in _averaged(len(kept))}
            rows["ensembles"] = [
                {"checkpoints": size, headline.name: one.value, "low": one.low, "high": one.high}
                for size, one in by_size.items()
            ]
        outcomes = estimates[headline.name].outcomes
        if fitted.zero_shot is not None:
            rows["gained"] = gained(headline.name, fitted.zero_shot, np.asarray(outcomes), job.seed)
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters() if p.requires_grad),
        **fitted.about(headline.name),
        **rows,
    }
    scores = tuple(_score(estimates[name], chance[name].value) for name in metrics)
    answers += judged.kept
    return Outcome(scores, outcomes, training, np.concatenate(answers) if answers else None)


class _Judge:
    """Scores predictions for a split's samples that come in batches, in order.

    Args:
        metrics: names of ``vision_adapters.metrics``.
        targets: of the split.
        split: its samples.
        gather: see `train_and_test`.
        beside: likewise.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        targets: Rows,
        split: Split,
        gather: Callable[[Tensor, Split], Tensor] | None,
        beside: Beside | None,
    ) -> None:
        self.running, self.targets, self.split, self.gather = RunningScores(metrics), targets, split, gather
        self.beside = beside
        self.parts: list[Tensor] = []
        self.kept: list[np.ndarray] = []

    def add(self, predictions: Tensor) -> None:
        """Score the next samples, or keep them where units are gathered of several."""
        if self.gather is None:
            start = self.running.samples
            self._update(predictions, self.targets[start : start + len(predictions)])
        else:
            self.parts.append(predictions)

    def scores(self, *, seed: int = 0, resamples: int = 1000) -> dict[str, Estimate]:
        """Each metric on all samples, by name."""
        if self.gather is not None:
            truth = self.gather(self.targets[:], self.split)
            self._update(self.gather(torch.cat(self.parts), self.split), truth)
        return self.running.scores(seed=seed, resamples=resamples)

    def _update(self, predictions: Tensor, truth: Tensor) -> None:
        self.running.update(predictions, truth)
        if self.beside is not None:
            self.kept.append(self.beside(predictions, truth))


def recipe_of(job: Job, **own: Any) -> Recipe:
    """The recipe of a job: a frozen encoder's heads have the benchmark's, a trained encoder has the settings'.

    Args:
        job: whose settings.
        own: the benchmark's numbers for its head.

    Returns:
        The recipe.

    Raises:
        UsageError: a field that there is not; the message shows the nearest.
    """
    if job.settings.tune != "frozen":
        assert job.encoder.module is not None
        return recipe_for(job.settings, job.encoder.module, job.benchmark.task)
    return Recipe(**{**_DEFAULT, **own, **checked(job.settings.recipe_fields)})


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
    """
    in_micro_batches(module, min(job.settings.micro_batches, recipe.batch_size))
    tuned = job.settings.tune != "frozen"
    more: dict[str, Any] = {"keep": 5, "layers": True} if tuned else {}
    recipes = [replace(recipe, lr=recipe.lr * factor) for factor in factors(job.training, job.settings)]
    parts = rungs(recipe.steps, recipe.validate_every, len(recipes))
    whole = work(recipe.steps, recipe.validate_every, len(recipes)).steps
    sign = 1.0 if direction == "higher" else -1.0
    start = changing_state(module)
    with ExitStack() as stack:
        stack.enter_context(job.timed("train"))
        path = job.checkpoint
        if path is None and len(recipes) > 1:
            path = Path(stack.enter_context(TemporaryDirectory())) / "head.pt"

        def train(number: int, stop: int, ahead: int, group: ProcessGroup | None) -> Fit:
            def progress(phase: str, done: int, total: int) -> None:
                job.progress(phase, ahead + done, whole)

            checkpoint = path if path is None or number == 0 else path.with_name(f"{path.name}.rate{number}")

            def once() -> Fit:
                module.load_state_dict(start, strict=False)
                return fit(
                    module,
                    inputs,
                    targets,
                    loss=loss,
                    recipe=recipes[number],
                    validate=validate,
                    direction=direction,
                    seed=job.seed,
                    checkpoint=checkpoint,
                    progress=progress,
                    device=job.encoder.device,
                    group=group,
                    stop=stop if stop < recipe.steps else None,
                    **more,
                )

            try:
                return once()
            except ValueError as error:
                if checkpoint is None or not str(error).startswith(f"{checkpoint} "):
                    raise
                _LOG.warning("%s: starting this training anew", error)
                checkpoint.unlink(missing_ok=True)
                return once()

        going, ahead = list(range(parts[0].trainings)), 0
        tried: dict[int, tuple[int, float]] = {}
        with job.together() as group:
            for part in parts:
                going = sorted(going, key=lambda number: -sign * tried.get(number, (0, 0.0))[1])[: part.trainings]
                for number in sorted(going):
                    found = train(number, part.stop, ahead - part.start, group)
                    ahead += part.stop - part.start
                    scores = [row.score for row in found.history if row.step <= part.stop]
                    tried[number] = (part.stop, sign * max(sign * score for score in scores))
            if group is not None and group.rank() > 0:
                raise FollowedError
        (best,) = going
        rates = [Tried(recipes[number].lr, *each) for number, each in sorted(tried.items())] if len(tried) > 1 else []
        done = Trained(**vars(found), recipe=recipes[best], tried=rates)
        return after_training(job, module, start, done, validate, higher=direction == "higher") if tuned else done


def _averaged(kept: int) -> list[int]:
    """Of how many of the best checkpoints outputs are averaged, of those that were kept."""
    return sorted({min(size, kept) for size in (1, 3, _MOST_AVERAGED)})


def _tested(
    module: nn.Module, kept: Sequence[Kept], inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int
) -> Iterator[dict[int, Tensor]]:
    """Predictions batch by batch, of the mean outputs of the best 1, 3 and 5 checkpoints, by their number.

    The module comes, and is left, with the first one's weights.
    """
    device, sizes = next(module.parameters()).device, _averaged(len(kept))
    for start in range(0, len(inputs[0]), batch_size):
        batch = [each[start : start + batch_size].to(device) for each in inputs]
        with torch.inference_mode():
            output = module(*batch)
            found = {1: read(output).cpu()}
            if len(kept) > 1:
                total = output.float()
                for number, one in enumerate(kept[1:], start=2):
                    module.load_state_dict(one.state, strict=False)
                    total = total + module(*batch).float()
                    if number in sizes:
                        found[number] = read(total / number).cpu()
                module.load_state_dict(kept[0].state, strict=False)
        yield found


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


def score(job: Job, predictions: Tensor, truth: Tensor, blind: Tensor) -> list[tuple[Score, Estimate]]:
    """Every metric of the benchmark on the test split, with its interval and its chance level."""
    found = []
    for name in job.benchmark.metrics:
        value = evaluate(name, predictions, truth, seed=job.seed)
        found.append((_score(value, evaluate(name, blind, truth, resamples=0).value), value))
    return found


def _score(found: Estimate, chance: float) -> Score:
    return Score(found.metric, found.direction, found.value, found.low, found.high, chance)


def predict(module: nn.Module, inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int) -> Tensor:
    """Predictions for every sample, on the CPU."""
    return torch.cat(list(_predictions(module, inputs, read, batch_size)))


def _predictions(
    module: nn.Module, inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int
) -> Iterator[Tensor]:
    """The same batch by batch."""
    device = next(module.parameters()).device
    for start in range(0, len(inputs[0]), batch_size):
        with torch.inference_mode():
            found = read(module(*(each[start : start + batch_size].to(device) for each in inputs))).cpu()
        yield found

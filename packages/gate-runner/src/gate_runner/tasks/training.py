"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.request import SplitName
from gate_runner.tasks.after_training import gained
from gate_runner.tasks.backbone import Backbone
from gate_runner.tasks.fitting import Inputs, Loss, fit_head, recipe_of
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.score import Score
from vision_adapters.metrics import METRICS, RunningScores, evaluate
from vision_adapters.metrics import Score as Estimate
from vision_adapters.rows import Rows
from vision_adapters.training import Kept

Beside = Callable[[Tensor, Tensor], np.ndarray]

_MOST_AVERAGED = 5
"""Checkpoints in the largest ensemble, as in GATE."""


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
    recipe = recipe_of(job)
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
        kept = most_averaged(fitted.kept) if job.settings.tune != "frozen" else fitted.kept[:1]
        means = {size: judge("test", [headline.name]) for size in averaged_sizes(len(kept)) if size > 1}
        for found, guess in zip(
            averaged(module, kept, test, read, job.predict_size), torch.split(blind, job.predict_size), strict=True
        ):
            judged.add(found[1])
            guessed.add(guess)
            for size, one in means.items():
                one.add(found[size])
            answers += [answer(found[1])] if answer else []
        estimates, chance = judged.scores(seed=job.seed), guessed.scores(resamples=0)
        rows: dict[str, Any] = {}
        if job.settings.tune != "frozen":
            by_size = {1: estimates, **{size: one.scores(seed=job.seed) for size, one in means.items()}}
            rows["ensembles"] = ensemble_rows(
                headline.name, {size: one[headline.name] for size, one in by_size.items()}
            )
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
        return self.running.compute(seed=seed, resamples=resamples)

    def _update(self, predictions: Tensor, truth: Tensor) -> None:
        self.running.update(predictions, truth)
        if self.beside is not None:
            self.kept.append(self.beside(predictions, truth))


def most_averaged(kept: Sequence[Kept]) -> Sequence[Kept]:
    """The checkpoints of the largest ensemble."""
    return kept[:_MOST_AVERAGED]


def averaged_sizes(kept: int) -> list[int]:
    """Of how many of the best checkpoints outputs are averaged, of those that were kept."""
    return sorted({min(size, kept) for size in (1, 3, _MOST_AVERAGED)})


def ensemble_rows(metric: str, by_size: Mapping[int, Estimate | Score]) -> list[dict[str, Any]]:
    """What a result says of ensembles.

    Args:
        metric: the headline's name.
        by_size: its value and interval, by how many checkpoints are averaged.
    """
    return [{"checkpoints": size, metric: one.value, "low": one.low, "high": one.high} for size, one in by_size.items()]


def averaged(
    module: nn.Module,
    kept: Sequence[Kept],
    inputs: Inputs,
    read: Callable[[Tensor], Tensor],
    batch_size: int,
    *,
    side_by_side: bool = False,
) -> Iterator[dict[int, Tensor]]:
    """Predictions batch by batch, of the mean outputs of the best 1, 3 and 5 checkpoints, by their number.

    The module comes, and is left, with the first one's weights.

    Args:
        module: from inputs to outputs.
        kept: checkpoints, the best first.
        inputs: of the split.
        read: outputs to predictions.
        batch_size: samples per call.
        side_by_side: outputs are vectors whose products are scores: put side by side, their products are the mean of
            the scores, which the product of mean vectors is not.
    """
    device, sizes = next(module.parameters()).device, averaged_sizes(len(kept))
    for start in range(0, len(inputs[0]), batch_size):
        batch = [each[start : start + batch_size].to(device) for each in inputs]
        with torch.inference_mode():
            output = module(*batch)
            found = {1: read(output).cpu()}
            if len(kept) > 1:
                total = output.float()
                for number, one in enumerate(kept[1:], start=2):
                    module.load_state_dict(one.state, strict=False)
                    more = module(*batch).float()
                    total = torch.cat([total, more], dim=-1) if side_by_side else total + more
                    if number in sizes:
                        found[number] = read(total / (number**0.5 if side_by_side else number)).cpu()
                module.load_state_dict(kept[0].state, strict=False)
        yield found


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

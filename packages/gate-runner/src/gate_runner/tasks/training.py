"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.request import SplitName
from gate_runner.tasks.after_training import gained
from gate_runner.tasks.fitting import Loss, fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.score import Score
from vision_adapters.metrics import METRICS, RunningScores, evaluate
from vision_adapters.metrics import Score as Estimate
from vision_adapters.rows import Rows
from vision_adapters.training import Backbone, Scale
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import averaged, averaged_sizes, most_averaged
from vision_adapters.training.predictions import predict as batches

Beside = Callable[[Tensor, Tensor], np.ndarray]


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
    """
    data, metrics = job.data, job.benchmark.metrics
    truths = targets or {"train": data.train.targets, "validation": data.validation.targets, "test": data.test.targets}
    headline = METRICS[job.benchmark.metrics[0]]

    def inputs(of: Backbone, name: SplitName) -> Inputs:
        return (of.rows(name), *(extra.rows[name] for extra in extras))

    test = inputs(backbone, "test")

    def judge(name: SplitName, metrics: Sequence[str], beside: Beside | None = None) -> _Judge:
        return _Judge(metrics, truths[name], getattr(data, name), gather, beside)

    def validate(module: nn.Module, held: Inputs) -> float:
        judged = judge("validation", [headline.name])
        for predicted in batches(module, held, read, job.predict_size):
            judged.add(predicted)
        return judged.scores(resamples=0)[headline.name].value

    scales = [extra.scale for extra in extras]
    fitted = fit_head(
        job, backbone, head, truths["train"], loss, validate, headline.direction, inputs=inputs, scales=scales
    )
    with job.timed("test"):
        judged, guessed, answers = judge("test", metrics, beside), judge("test", metrics), []
        kept = most_averaged(fitted.kept) if job.settings.tune != "frozen" else fitted.kept[:1]
        means = {size: judge("test", [headline.name]) for size in averaged_sizes(len(kept)) if size > 1}
        for found, guess in zip(
            averaged(fitted.module, kept, test, read, job.predict_size),
            torch.split(blind, job.predict_size),
            strict=True,
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


def ensemble_rows(metric: str, by_size: Mapping[int, Estimate | Score]) -> list[dict[str, Any]]:
    """What a result says of ensembles.

    Args:
        metric: the headline's name.
        by_size: its value and interval, by how many checkpoints are averaged.
    """
    return [{"checkpoints": size, metric: one.value, "low": one.low, "high": one.high} for size, one in by_size.items()]


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
    return torch.cat(list(batches(module, inputs, read, batch_size)))

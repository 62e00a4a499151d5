"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.maps import Maps
from gate_data.request import SplitName
from gate_runner.features import digests_of
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
        checkpoints = most_averaged(fitted.kept) if job.settings.tune != "frozen" else fitted.kept[:1]
        means = {size: judge("test", [headline.name]) for size in averaged_sizes(len(checkpoints)) if size > 1}
        for predictions, guess in zip(
            averaged(fitted.module, checkpoints, test, read, job.predict_size),
            torch.split(blind, job.predict_size),
            strict=True,
        ):
            judged.add(predictions[1])
            guessed.add(guess)
            for size, running in means.items():
                running.add(predictions[size])
            answers += [answer(predictions[1])] if answer else []
        estimates, chance = judged.scores(seed=job.seed), guessed.scores(resamples=0)
        rows: dict[str, Any] = {}
        if job.settings.tune != "frozen":
            by_size = {1: estimates, **{size: running.scores(seed=job.seed) for size, running in means.items()}}
            rows["ensembles"] = ensemble_rows(
                headline.name, {size: running[headline.name] for size, running in by_size.items()}
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
    answers += judged.beside_rows
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
        self.beside_rows: list[np.ndarray] = []

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
            self.beside_rows.append(self.beside(predictions, truth))


def ensemble_rows(metric: str, by_size: Mapping[int, Estimate | Score]) -> list[dict[str, Any]]:
    """What a result says of ensembles.

    Args:
        metric: the headline's name.
        by_size: its value and interval, by how many checkpoints are averaged.
    """
    return [
        {"checkpoints": size, metric: estimate.value, "low": estimate.low, "high": estimate.high}
        for size, estimate in by_size.items()
    ]


def score(job: Job, predictions: Tensor, truth: Tensor, blind: Tensor) -> list[tuple[Score, Estimate]]:
    """Every metric of the benchmark on the test split, with its interval and its chance level."""
    scores = []
    for name in job.benchmark.metrics:
        value = evaluate(name, predictions, truth, seed=job.seed)
        scores.append((_score(value, evaluate(name, blind, truth, resamples=0).value), value))
    return scores


def _score(estimate: Estimate, chance: float) -> Score:
    return Score(estimate.metric, estimate.direction, estimate.value, estimate.low, estimate.high, chance)


def predict(module: nn.Module, inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int) -> Tensor:
    """Predictions for every sample, on the CPU."""
    return torch.cat(list(batches(module, inputs, read, batch_size)))


_READ = 64
"""Maps that are read together."""
_COUNTED = 1_000_000
"""Numbers that are counted together."""


def targets_of(job: Job) -> dict[SplitName, Rows]:
    """The targets of each split, as rows.

    Maps in files are read here, once and all of them, so that what is wrong with one is said before anything is
    encoded. They are kept as features are: in memory while they are few, in a file under the cap of
    ``--feature-cache``, and read again whenever they are needed beyond it.
    """
    return {"train": _kept(job, "train"), "validation": _kept(job, "validation"), "test": _kept(job, "test")}


def _kept(job: Job, split: SplitName) -> Rows:
    targets = getattr(job.data, split).targets
    if not isinstance(targets, Maps):
        values: Rows = targets
        return values
    name = f"maps-{split}"

    def progress(done: int, total: int) -> None:
        job.progress(f"read maps {split}", done, total)

    with job.timed("data"):
        rows = job.features.rows(name, "maps", digests_of(targets), _READ, targets.__getitem__, progress)
        if job.features.placed[name] == "encoded again":
            for numbers in torch.split(torch.arange(len(targets)), _READ):
                rows[numbers]  # one that is wrong is said now
    return rows


def frequencies(targets: Rows, classes: int) -> Float[Tensor, k * places]:
    """Log-frequencies of classes ``[k]``, or for each place of class maps ``[k, h, w]``.

    Args:
        targets: of training, ``[n]`` or ``[n, h, w]``; looked at in parts. Below 0 they count nowhere.
        classes: k.

    Example:
        >>> frequencies(torch.tensor([0, 1, 1, 1]), 2).exp()
        tensor([0.2500, 0.7500])
    """
    places = targets[:1].shape[1:]
    size = places.numel()
    counts = torch.zeros(classes * size, dtype=torch.int32)
    for numbers in torch.split(torch.arange(len(targets)), max(1, _COUNTED // size)):
        part = targets[numbers].reshape(len(numbers), size).long()
        flat = (part * size + torch.arange(size))[part >= 0]
        counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
    shares = counts.reshape(classes, *places).float() / len(targets)
    return shares.clamp_min(1e-6).log()


def middle(targets: Rows) -> float:
    """The lower median of all numbers above 0, exactly, in two passes that hold a part at a time.

    A positive float32 is ordered like its bits: the first pass counts their upper halves, the second the lower halves
    of those among which the median is.

    Args:
        targets: ``[n, ...]``, float32.

    Example:
        >>> middle(torch.tensor([[0.0, 3.0], [1.0, 2.0]]))
        2.0
    """

    def counted(upper: int | None) -> Tensor:
        counts = torch.zeros(1 << 16, dtype=torch.int64)
        size = max(1, targets[:1].numel())
        for numbers in torch.split(torch.arange(len(targets)), max(1, _COUNTED // size)):
            part = targets[numbers].flatten()
            bits = part[part > 0].contiguous().view(torch.int32)
            halves = bits >> 16 if upper is None else (bits & 0xFFFF)[bits >> 16 == upper]
            counts += torch.bincount(halves, minlength=1 << 16)
        return counts

    first = counted(None).cumsum(0)
    if not int(first[-1]):
        raise ValueError("no number is above 0")
    rank = (int(first[-1]) - 1) // 2
    upper = int(torch.searchsorted(first, rank, right=True))
    offset = rank - (int(first[upper - 1]) if upper else 0)
    lower = int(torch.searchsorted(counted(upper).cumsum(0), offset, right=True))
    return float(torch.tensor([upper << 16 | lower], dtype=torch.int32).view(torch.float32))

"""The part that all trained heads share: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.maps import Maps
from gate_data.request import SplitName
from gate_runner.settings.values import ensemble_in
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.losses_on_test import losses_on_test
from gate_runner.tasks.predicted import MOST_PROBABILITIES, best, confident, distributions
from gate_runner.tasks.scoring import Answer, mean_of, with_chance
from paired_scores.metrics import METRICS, RunningScores
from paired_scores.metrics import Score as Estimate
from vision_adapters.rows import Rows
from vision_adapters.training import Backbone, Direction, Scale
from vision_adapters.training.head import Inputs
from vision_adapters.training.outcome import Kept
from vision_adapters.training.predictions import averaged, averaged_sizes, most_averaged
from vision_adapters.training.predictions import predict as batches
from vision_adapters.training.retention import paired_change
from vision_features.features import digests_of

if TYPE_CHECKING:
    from gate_runner.tasks.fitting import Loss
    from gate_runner.tasks.retention import Fitted

Beside = Callable[[Tensor, Tensor], np.ndarray]
Gather = Callable[[Tensor, Split], Tensor]


@dataclass(frozen=True)
class Measured:
    """Metrics that a task defines itself, each the mean of one number per sample; NaN where a sample does not count.

    ``chance`` is what the best prediction scores that never looks at the image; ``lower`` are better when lower.
    """

    measure: Callable[[Tensor, Split], Mapping[str, np.ndarray]]
    chance: Mapping[str, float]
    lower: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Solved:
    """A head that took no steps, behind its features, its score on validation, and what was tried."""

    module: nn.Module
    score: float
    tried: Sequence[Mapping[str, Any]]
    zero_shot: None = None

    @property
    def kept(self) -> list[Kept]:
        """Its one state."""
        return [Kept(0, self.score, dict(self.module.state_dict()))]

    def about(self, metric: str) -> dict[str, Any]:
        """What a result's ``training`` says of it; ``metric`` is what validation chose by."""
        tried = [{(metric if key == "score" else key): value for key, value in row.items()} for row in self.tried]
        return {"steps": 0, "tried": tried}


def train_and_test(
    job: Job,
    backbone: Backbone,
    head: nn.Module,
    loss: Loss,
    scorer: Shaped[Tensor, "n ..."] | Measured,
    *,
    inputs: Callable[[Backbone, SplitName], Inputs] = lambda of, name: (of.rows(name),),
    scales: Sequence[Scale | None] = (),
    targets: Mapping[SplitName, Rows] | None = None,
    read: Callable[[Tensor], Tensor] = lambda output: output,
    side_by_side: bool = False,
    gather: Gather | None = None,
    answer: Answer | None = None,
    beside: Beside | None = None,
    terms: Mapping[str, Loss] | None = None,
    solve: Callable[[Callable[[nn.Module], float]], Solved] | None = None,
) -> Outcome:
    """Train a head on a backbone, choose its step by the headline on validation, and score the test split once.

    Metrics of ``vision_adapters`` are scored batch by batch, so that memory holds what they keep per sample alone.

    Scores are those of the best checkpoint, or of the mean output of as many as the recipe's ``ensemble`` says.

    Args:
        job: benchmark, encoder and seed.
        backbone: of the job.
        head: called with a batch of its inputs.
        loss: of its output and targets.
        scorer: predictions for the test split made without its images, which give the chance level of the benchmark's
            metrics; or metrics of the task's own.
        inputs: a backbone and a split to what the head gets: the backbone's rows, and what else there is.
        scales: of these inputs but the first.
        targets: of each split, as `targets_of` gives them; the data's for a split that is not there.
        read: output to predictions, e.g. scores to class maps, batch by batch.
        side_by_side: how checkpoints are averaged, see `averaged`.
        gather: predictions or targets of a split's samples to those of units, e.g. slices to volumes; those of a split
            are then all in memory.
        answer: predictions to what is kept of them beside the outcomes; None keeps nothing.
        beside: the same from predictions and targets of units, where predictions alone are too much to keep.
        terms: further losses of its output and targets that GATE's recipe scores on the test split, by metric.
        solve: a head's score on validation to the head, solved, which then takes the place of the training.
    """
    metrics, headline = job.benchmark.metrics, job.benchmark.metrics[0]
    names: tuple[SplitName, ...] = ("train", "validation", "test")
    truths = {name: (targets or {}).get(name, getattr(job.data, name).targets) for name in names}

    def judge(name: SplitName, metrics: Sequence[str], *, keeps: bool = False) -> _Judge:
        readers = (answer, beside) if keeps else (None, None)
        measured = scorer if isinstance(scorer, Measured) else None
        return _Judge(metrics, measured, truths[name], getattr(job.data, name), gather, *readers)

    def validate(module: nn.Module, held: Inputs) -> float:
        judged = judge("validation", [headline])
        for predictions in batches(module, held, read, job.predict_size):
            judged.add(predictions)
        return judged.headline()

    test = inputs(backbone, "test")
    direction = _direction(headline, scorer)
    fitted: Fitted | Solved
    if solve is not None:
        held = inputs(backbone, "validation")
        with job.timed("train"):
            fitted = solve(lambda module: validate(module, held))
    else:
        from gate_runner.tasks.fitting import fit_head

        fitted = fit_head(job, backbone, head, truths["train"], loss, validate, direction, inputs=inputs, scales=scales)
    tuned = job.settings.tune != "frozen"
    with job.timed("test"):
        checkpoints = most_averaged(fitted.kept) if tuned else fitted.kept[:1]
        sizes = averaged_sizes(len(checkpoints))
        shown = min(ensemble_in(job.settings.recipe_fields), len(checkpoints))
        judges = {size: judge("test", metrics if size == shown else [headline], keeps=size == shown) for size in sizes}
        for batch in averaged(fitted.module, checkpoints, test, read, job.predict_size, side_by_side=side_by_side):
            for size, judged in judges.items():
                judged.add(batch[size])
        estimates = {size: judged.estimates(seed=job.seed) for size, judged in judges.items()}
        if isinstance(scorer, Measured):
            chance = scorer.chance
        else:
            guessed = judge("test", metrics)
            for blind in torch.split(scorer, job.predict_size):
                guessed.add(blind)
            chance = {name: estimate.value for name, estimate in guessed.estimates(resamples=0).items()}
        by_size = {size: own[headline] for size, own in estimates.items()}
        rows_of: dict[str, Any] = {"ensembles": ensemble_rows(headline, by_size)} if tuned else {}
        outcomes = by_size[shown].outcomes
        if fitted.zero_shot is not None:
            change = paired_change(headline, fitted.zero_shot, np.asarray(outcomes), seed=job.seed)
            rows_of["gained"] = change._asdict()
    training = {
        "head_parameters": sum(p.numel() for p in (fitted.module if solve else head).parameters() if p.requires_grad),
        **fitted.about(headline),
        **rows_of,
    }
    scores = tuple(with_chance(estimates[shown][name], chance[name]) for name in metrics)
    if job.settings.recipe == "gate":
        with job.timed("test"):
            several, losses = checkpoints[:shown], {"loss": loss, **(terms or {})}
            tested = losses_on_test(
                job, fitted.module, several, test, truths["test"], losses, side_by_side=side_by_side
            )
            scores = (*scores, *tested)
    final = judges[shown]
    outcome = Outcome(scores, outcomes, training, final.answers(), confidence=final.confidence())
    return replace(outcome, distributions=final.distributions())


def _direction(metric: str, scorer: Tensor | Measured) -> Direction:
    if isinstance(scorer, Measured):
        return "lower" if metric in scorer.lower else "higher"
    return METRICS[metric].direction


class _Judge:
    """Scores predictions for a split's samples that come in batches, in order; see `train_and_test`."""

    def __init__(
        self,
        metrics: Sequence[str],
        measured: Measured | None,
        targets: Rows,
        split: Split,
        gather: Gather | None,
        answer: Answer | None,
        beside: Beside | None,
    ) -> None:
        self.metrics, self.measured, self.targets, self.split = metrics, measured, targets, split
        self.gather, self.answer, self.beside = gather, answer, beside
        self.running = RunningScores([] if measured else metrics)
        self.parts: list[Tensor] = []
        self.answer_rows: list[np.ndarray] = []
        self.confidence_rows: list[np.ndarray] = []
        self.distribution_rows: list[np.ndarray | None] = []

    def add(self, predictions: Tensor) -> None:
        """Score the next samples, or keep them where all are scored together."""
        if self.measured is not None or self.gather is not None:
            self.parts.append(predictions)
        else:
            start = self.running.samples
            self._update(predictions, self.targets[start : start + len(predictions)])

    def _update(self, predictions: Tensor, truth: Tensor) -> None:
        if self.measured is None:
            self.running.update(predictions, truth)
        self.answer_rows += [self.answer(predictions)] if self.answer else []
        if self.answer is best:
            self.confidence_rows.append(confident(predictions))
            self._add_distributions(predictions)
        self.answer_rows += [self.beside(predictions, truth)] if self.beside else []

    def _add_distributions(self, predictions: Tensor) -> None:
        """Keep probabilities of all classes, and none once they are too many."""
        classes, samples = predictions.shape[1], sum(map(len, self.confidence_rows))
        self.distribution_rows.append(None if samples * classes > MOST_PROBABILITIES else distributions(predictions))
        if self.distribution_rows[-1] is None:
            self.distribution_rows = [None]

    def _together(self) -> Tensor:
        predictions, truth = torch.cat(self.parts), self.targets[:] if self.gather or self.beside else torch.empty(0)
        if self.gather is not None:
            predictions, truth = self.gather(predictions, self.split), self.gather(truth, self.split)
        self._update(predictions, truth)
        return predictions

    def headline(self) -> float:
        """The first metric's value, with no interval."""
        if self.measured is None:
            return self.estimates(resamples=0)[self.metrics[0]].value
        return float(np.nanmean(self.measured.measure(torch.cat(self.parts), self.split)[self.metrics[0]]))

    def estimates(self, *, seed: int = 0, resamples: int = 1000) -> Mapping[str, Estimate]:
        """Each metric on all samples, by name."""
        predictions = self._together() if self.parts else None
        if self.measured is None:
            return self.running.compute(seed=seed, resamples=resamples)
        assert predictions is not None
        outcomes = self.measured.measure(predictions, self.split)
        return {name: mean_of(name, outcomes[name], _direction(name, self.measured), seed) for name in self.metrics}

    def answers(self) -> np.ndarray | None:
        """What is kept of the predictions, once they are scored."""
        return np.concatenate(self.answer_rows) if self.answer_rows else None

    def confidence(self) -> np.ndarray | None:
        """Return the probability of each answer, if it is the class of the highest score."""
        return np.concatenate(self.confidence_rows) if self.confidence_rows else None

    def distributions(self) -> np.ndarray | None:
        """Return probabilities of all classes, if they are not too many."""
        rows = [row for row in self.distribution_rows if row is not None]
        return np.concatenate(rows) if rows and len(rows) == len(self.distribution_rows) else None


def ensemble_rows(metric: str, by_size: Mapping[int, Estimate]) -> list[dict[str, Any]]:
    """What a result says of ensembles: the headline by how many checkpoints are averaged."""
    return [
        {"checkpoints": size, metric: estimate.value, "low": estimate.low, "high": estimate.high}
        for size, estimate in by_size.items()
    ]


def predict(module: nn.Module, inputs: Inputs, read: Callable[[Tensor], Tensor], batch_size: int) -> Tensor:
    """Predictions for every sample, on the CPU."""
    return torch.cat(list(batches(module, inputs, read, batch_size)))


_READ = 64
"""Maps that are read together."""


def targets_of(job: Job) -> dict[SplitName, Rows]:
    """The targets of each split, as rows.

    Maps in files are read once, so that what is wrong with one is said before anything is encoded, and kept as features
    are: in memory while they are few, then in a file under the cap of ``feature_cache``, and read again beyond it.
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

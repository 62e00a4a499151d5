"""A number for each image: ridge regression on frozen features, a linear head on standardised targets otherwise."""

from __future__ import annotations

import torch
from torch import Tensor

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.features import kinds_to_probe, rows_of
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import values
from gate_runner.tasks.scoring import outcome_of
from gate_runner.tasks.training import train_and_test
from paired_scores.metrics import METRICS, evaluate
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.heads.linear import Standardised
from vision_adapters.losses import l1
from vision_adapters.ridge import Ridge, fit_ridge


def run(job: Job) -> Outcome:
    """Chance: the median of the training targets, which no other constant beats in absolute error."""
    train = job.data.train.targets
    blind = train.median().expand(len(job.data.test))
    if job.settings.tune == "frozen" and "steps" not in job.training:
        return _solved(job, blind)
    backbone = make_backbone(job, "pooled")
    spread = train.std(correction=0)
    head = seeded(lambda: LinearHead(backbone.width, 1), job.seed)
    scaled = Standardised(head, train.mean(), spread if float(spread) > 0 else torch.ones(()))
    return train_and_test(job, backbone, scaled, l1, blind, answer=values)


def _solved(job: Job, blind: Tensor) -> Outcome:
    data, metric = job.data, METRICS[job.benchmark.metrics[0]]
    sign = 1.0 if metric.direction == "lower" else -1.0

    def error(predicted: Tensor, truth: Tensor) -> float:
        try:
            return sign * evaluate(metric.name, predicted, truth, resamples=0).value
        except ValueError:  # a rank correlation of equal predictions, say
            return float("inf")

    fits: list[tuple[str, Ridge, Tensor]] = []
    kinds = kinds_to_probe(job)
    for number, (name, kind) in enumerate(kinds.items()):
        rows = {
            split: rows_of(job, getattr(data, split), kind, f"{split}-{name}")[:].float()
            for split in ("train", "validation", "test")
        }
        with job.timed("train"):
            fit = fit_ridge(rows["train"], data.train.targets, rows["validation"], data.validation.targets, error=error)
            fits.append((name, fit, rows["test"]))
            job.progress("train", number + 1, len(kinds))
    name, fit, test = min(fits, key=lambda fitted: min(value for _, value in fitted[1].path))
    training = {
        "head_parameters": len(fit.weight) + 1,
        "steps": 0,
        "features": name,
        "penalty": fit.penalty,
        "tried": [
            {"features": kind, "penalty": penalty, metric.name: None if value == float("inf") else sign * value}
            for kind, fitted, _ in fits
            for penalty, value in fitted.path
        ],
    }
    with job.timed("test"):
        return outcome_of(job, fit.predict(test).float(), blind, training, values)

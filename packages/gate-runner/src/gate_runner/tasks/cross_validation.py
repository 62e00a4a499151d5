"""Cross-validation of the whole: every sample is scored by a head that was chosen and fitted without it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from gate_runner.tasks.features import kinds_to_probe, rows_of
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.training import score
from vision_adapters.metrics import evaluate
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.folds import class_folds


def cross_validated(job: Job, blind: Tensor) -> Outcome:
    """Scores of all samples. The interval is the wider of that of the samples and of that over the folds' heads.

    The latter is Student's with the variance of the folds' values times 1 / k + 1 / (k - 1): folds share samples.

    Source:
        Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    data, metric, count = job.data.test, job.benchmark.metrics[0], job.settings.folds or 2
    features = {name: rows_of(job, data, kind, name)[:].float() for name, kind in kinds_to_probe(job).items()}
    scores, values = torch.empty(len(data), len(job.data.classes)), []
    heads: list[dict[str, Any]] = []
    with job.timed("train"):
        numbers = class_folds(data.targets, count, job.seed)
        for fold in range(count):
            train, test = (numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()
            name, scores[test], params = _fold(job, features, train, test)
            values.append(evaluate(metric, scores[test], data.targets[test], resamples=0).value)
            heads.append({"features": name, **params})
    with job.timed("test"):
        judged = score(job, scores, data.targets, blind)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stats.t.ppf(0.975, count - 1)) * math.sqrt(variance * (1 / count + 1 / (count - 1)))
    (headline, estimate), *further = judged
    low, high = max(mean - half, min(headline.low, 0.0)), min(mean + half, 1.0)
    headline = replace(headline, low=min(headline.low, low), high=max(headline.high, high))
    crossed = {"folds": count, "values": values, "low": mean - half, "high": mean + half, "heads": heads}
    training = {"steps": 0, "head_parameters": 0, "cross_validation": crossed}
    return Outcome((headline, *(scored for scored, _ in further)), estimate.outcomes, training, best(scores))


def _fold(job: Job, features: dict[str, Tensor], train: Tensor, test: Tensor) -> tuple[str, Tensor, dict[str, Any]]:
    """The features that validate best within the other folds, and what their head says of this one.

    A class that the others lack is below all that they have.
    """
    labels = job.data.test.targets[train]
    present = torch.unique(labels)
    named = torch.searchsorted(present, labels)
    options: Any = {"metric": job.benchmark.metrics[0], "class_weight": job.class_weight, "seed": job.seed}
    tuned = {name: tune(tuning_data(rows[train], named, **options)) for name, rows in features.items()}
    chosen = max(tuned, key=lambda name: -math.inf if (value := tuned[name].validation) is None else value)
    logits = tuned[chosen].scores(features[chosen][test])
    scores = logits.new_full((len(test), len(job.data.classes)), float(logits.min()) - 1.0)
    scores[:, present] = logits
    return chosen, scores, dict(tuned[chosen].best_params)

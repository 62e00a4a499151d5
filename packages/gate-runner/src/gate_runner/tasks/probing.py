"""A linear probe of frozen features that is solved, not stepped: a benchmark must not measure its own optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from gate_runner.heads.kept import KeptHead
from gate_runner.tasks import predicted
from gate_runner.tasks.features import kinds_to_probe, rows_of
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.training import score
from vision_adapters.tuning import Fold, Tuned, TuningData, cross_validate, tune

if TYPE_CHECKING:
    from gate_data.data import Split


def cross_validated(job: Job, blind: Tensor) -> Outcome:
    """All samples, each scored by a head that was chosen and fitted on the other folds.

    The interval is the wider of that of all samples and of that over the folds, whose heads differ.
    """
    data, metric = job.data.test, job.benchmark.metrics[0]
    features = {name: rows_of(job, data, kind, name)[:].float() for name, kind in kinds_to_probe(job).items()}
    with job.timed("train"):
        crossed = cross_validate(
            features,
            data.targets,
            len(job.data.classes),
            folds=job.settings.folds or 2,
            metric=metric,
            class_weight="balanced" if weighted(job) else None,
            seed=job.seed,
        )
    with job.timed("test"):
        judged = score(job, crossed.scores, data.targets, blind)
    (headline, estimate), *others = judged
    low, high = max(crossed.low, min(headline.low, 0.0)), min(crossed.high, 1.0)
    headline = replace(headline, low=min(headline.low, low), high=max(headline.high, high))
    training = {
        "steps": 0,
        "head_parameters": 0,
        "cross_validation": {
            "folds": len(crossed.values),
            "values": list(crossed.values),
            "low": crossed.low,
            "high": crossed.high,
            "heads": [
                {"features": name, **params} for name, params in zip(crossed.features, crossed.best_params, strict=True)
            ],
        },
    }
    scores = (headline, *(other_score for other_score, _ in others))
    return Outcome(scores, estimate.outcomes, training, predicted.best(crossed.scores))


class _Solved(NamedTuple):
    kind: str
    tuned: Tuned
    test: Tensor


def solve_and_test(job: Job, blind: Tensor) -> Outcome:
    """Logistic regression on standardised features, its strength chosen on validation, then fitted on both splits.

    Where the encoder shows features before its projection, they are tried, too, and taken where they validate better.

    Args:
        job: of a task with one class per image.
        blind: predictions for the test split made without its images, for the chance level.
    """
    present, metric = torch.unique(job.data.train.targets), job.benchmark.metrics[0]
    kinds, found = kinds_to_probe(job), []
    for number, (kind, of) in enumerate(kinds.items()):
        features = {name: rows_of(job, split, of, f"{name}-{kind}")[:].float() for name, split in _splits(job)}
        with job.timed("train"):
            data = _tuning_data(job, features["train"], features["validation"], present)
            found.append(_Solved(kind, tune(data), features["test"]))
            job.progress("train", number + 1, len(kinds))
    best = max(found, key=lambda one: one.tuned.validation or 0.0)
    with job.timed("test"):
        known = best.tuned.scores(best.test)
        scores = known.new_full((len(known), len(job.data.classes)), float(known.min()) - 1.0)
        scores[:, present] = known
        judged = score(job, scores, job.data.test.targets, blind)
    training = {
        "head_parameters": best.tuned.trained_parameters(),
        "steps": 0,
        "features": best.kind,
        **_way(best.tuned.best_params),
        "tried": [
            {"features": one.kind, **_way(row), metric: row["validation"]}
            for one in found
            for row in one.tuned.candidates
        ],
    }
    kept = None
    if job.settings.save_heads:
        classes = [job.data.classes[index] for index in present.tolist()]
        kept = KeptHead(best.tuned.head, "backbone" if kinds[best.kind] == "backbone" else "projected", classes)
    outcomes = judged[0][1].outcomes
    return Outcome(tuple(one for one, _ in judged), outcomes, training, predicted.best(scores), head=kept)


def _way(row: Mapping[str, Any]) -> dict[str, Any]:
    """The kind of head and its numbers."""
    return {name: value for name, value in row.items() if name not in ("validation", "loss")}


def _splits(job: Job) -> list[tuple[str, Split]]:
    return [("train", job.data.train), ("validation", job.data.validation), ("test", job.data.test)]


def _tuning_data(job: Job, train: Tensor, held: Tensor, present: Tensor) -> TuningData:
    """Training and validation rows of the classes that training shows, numbered anew."""
    counts = torch.isin(job.data.validation.targets, present)
    labels = torch.cat([job.data.train.targets, job.data.validation.targets[counts]])
    rows = torch.cat([train, held[counts]])
    fold = Fold(torch.arange(len(train)), torch.arange(len(train), len(rows)))
    named = torch.searchsorted(present, labels)
    weight: Literal["balanced"] | None = "balanced" if weighted(job) else None
    return TuningData(rows, named, len(present), None, 100.0, job.benchmark.metrics[0], (fold,), weight)


def weighted(job: Job) -> bool:
    """Whether every class counts the same; solved, drawing pictures equally often is that, too."""
    return job.settings.class_weight != "none"

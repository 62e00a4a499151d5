"""Scores of predictions that are there: every metric with its interval and its image-blind baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.predicted import best, confident, distributions
from paired_scores.metrics import Score as Estimate
from paired_scores.metrics import evaluate, score_outcomes
from paired_scores.metrics.definitions import hits_at
from vision_adapters.rows.counting import log_frequencies

if TYPE_CHECKING:
    from vision_features.heads.saved import KeptHead

Answer = Callable[[Tensor], np.ndarray]


def score(job: Job, predictions: Tensor, truth: Tensor, blind: Tensor) -> list[tuple[Score, Estimate]]:
    """Every metric of the benchmark on the test split, with its interval and its chance level."""
    estimates = [evaluate(name, predictions, truth, seed=job.seed) for name in job.benchmark.metrics]
    return [
        (with_chance(estimate, evaluate(estimate.metric, blind, truth, resamples=0).value), estimate)
        for estimate in estimates
    ]


def outcome_of(
    job: Job,
    predictions: Tensor,
    blind: Tensor,
    training: Mapping[str, Any],
    answer: Answer,
    head: KeptHead | None = None,
    *,
    cosines: bool = False,
) -> Outcome:
    """Predictions of the test split that no step was trained for, scored by every metric of the benchmark.

    Cosines have no softmax that is a probability: their scale is the encoder's own.
    """
    judged = score(job, predictions, job.data.test.targets, blind)
    scores = tuple(scored for scored, _ in judged)
    sure = confident(predictions) if answer is best and not cosines else None
    every = None if sure is None else distributions(predictions)
    outcome = Outcome(scores, judged[0][1].outcomes, training, answer(predictions), head=head, confidence=sure)
    return replace(outcome, distributions=every)


def most_frequent(job: Job) -> Tensor:
    """Scores of the test samples made without looking: the training split's most frequent classes."""
    frequencies = log_frequencies(job.data.train.targets, len(job.data.classes))
    return frequencies.expand(len(job.data.test), -1)


def with_chance(estimate: Estimate, chance: float) -> Score:
    """An estimate as a result has it."""
    return Score(estimate.metric, estimate.direction, estimate.value, estimate.low, estimate.high, chance)


def mean_of(name: str, outcomes: np.ndarray, direction: Literal["higher", "lower"], seed: int) -> Estimate:
    """The mean of one number per sample with its interval; samples that are NaN do not count.

    Where all samples are right, or all wrong, resampling has nothing to vary: the interval is an accuracy's, Wilson's.
    """
    known = outcomes[~np.isnan(outcomes)].astype(np.float64)
    share = direction == "higher" and bool(((known >= 0) & (known <= 1)).all())
    estimate = score_outcomes("accuracy" if share else "mae", known, seed=seed)
    return Estimate(name, direction, estimate.value, estimate.low, estimate.high, outcomes)


def hits(scores: Tensor, truth: Tensor, k: int = 1) -> np.ndarray:
    """For each row, the chance that the true column is among the k best, ties sharing their places."""
    return hits_at(k)(scores.numpy(), truth.numpy())

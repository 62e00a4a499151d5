"""Every question counts once: missing answers are wrong, duplicates are settled, harmonic means have intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.evaluation.files import Prediction, Reference, unique_references
from oven_retrieval.evaluation.official import harmonic_mean

if TYPE_CHECKING:
    from jaxtyping import Float64

Correct = npt.NDArray[np.bool_]


class Estimate(NamedTuple):
    """A value in percent with its bootstrap interval.

    Example:
        >>> estimate = Estimate(50.0, 40.0, 60.0)
        >>> estimate.low < estimate.value < estimate.high
        True
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SplitScores:
    """Scores of one split in percent.

    And how the answers were: `questions` in all, `missing` answers, `duplicates`, `unknown` answers to no question.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> result = split_scores(outcomes(references, [Prediction("a", "Q1")]), resamples=100)
        >>> result.seen.value, result.unseen.value, result.missing
        (100.0, 0.0, 1)
    """

    seen: Estimate
    unseen: Estimate
    harmonic: Estimate
    questions: int
    missing: int
    duplicates: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Scores:
    """Both splits and the harmonic mean between them.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> marked = outcomes(references, [Prediction("a", "Q1"), Prediction("b", "Q2")])
        >>> isinstance(scores(marked, marked, resamples=100), Scores)
        True
    """

    query: SplitScores
    entity: SplitScores
    final: Estimate


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no single truth
class Outcomes:
    """Which questions were answered right, and the counts of `SplitScores`.

    `references` in the order of `correct`; `answers` the different entities that each question was answered with,
    none where there was no answer; `scores` the greatest score of each question's answers, NaN where there is none.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> marked = outcomes(references, [Prediction("a", "Q1", 0.9)])
        >>> marked.correct.tolist(), marked.missing, marked.answers
        ([True, False], 1, (('Q1',), ()))
    """

    references: tuple[Reference, ...]
    correct: Correct
    missing: int
    duplicates: int
    unknown: int
    answers: tuple[tuple[str, ...], ...]
    scores: Float64[np.ndarray, " q"]


def outcomes(references: Sequence[Reference], predictions: Sequence[Prediction]) -> Outcomes:
    """Mark every question once.

    A question without an answer is wrong. A question with several is right only if all of them are: nobody gains by
    answering twice.

    Raises:
        ValueError: a data_id that occurs twice among the references.

    Example:
        >>> references = [Reference(str(i), f"Q{i}", "val_seen") for i in range(4)]
        >>> answers = [Prediction("0", "Q0"), Prediction("1", "Q1"), Prediction("1", "Q7"), Prediction("9", "Q9")]
        >>> marked = outcomes(references, answers)
        >>> marked.correct.tolist(), marked.missing, marked.duplicates, marked.unknown
        ([True, False, False, False], 2, 1, 1)
    """
    by_id = unique_references(references)
    answers: dict[str, dict[str, None]] = {}
    best_scores: dict[str, float] = {}
    unknown = duplicates = 0
    for prediction in predictions:
        if prediction.data_id not in by_id:
            unknown += 1
            continue
        entity_ids = answers.setdefault(prediction.data_id, {})
        duplicates += bool(entity_ids)
        entity_ids[prediction.entity_id] = None
        if prediction.score is not None:
            best_scores[prediction.data_id] = max(
                prediction.score, best_scores.get(prediction.data_id, prediction.score)
            )
    ordered = tuple(by_id.values())
    correct = np.array(
        [{reference.entity_id} == set(answers.get(reference.data_id, ())) for reference in ordered], dtype=np.bool_
    )
    return Outcomes(
        ordered,
        correct,
        len(ordered) - len(answers),
        duplicates,
        unknown,
        tuple(tuple(answers.get(reference.data_id, ())) for reference in ordered),
        np.array([best_scores.get(reference.data_id, np.nan) for reference in ordered], dtype=np.float64),
    )


def seen_mask(references: Sequence[Reference]) -> Correct:
    """Whether each question's entity was seen in training."""
    return np.array(["_seen" in reference.data_split for reference in references], dtype=np.bool_)


def bootstrap(
    groups: Sequence[Correct], rng: np.random.Generator, resamples: int
) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """Accuracies in percent of resampled groups, and the harmonic mean of each resample.

    Questions are drawn with replacement within each group; for right-or-wrong answers the number right is binomial,
    so it is drawn as such.
    """
    accuracies = [rng.binomial(len(group), group.mean(), resamples) / len(group) * 100 for group in groups]
    safe = [np.where(accuracy == 0, 1e-12, accuracy) for accuracy in accuracies]
    return accuracies, len(groups) / np.sum([1 / accuracy for accuracy in safe], axis=0)


def _estimate(value: float, draws: npt.NDArray[np.float64], confidence: float) -> Estimate:
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, float(low), float(high))


def _groups(marked: Outcomes, label: str) -> list[Correct]:
    is_seen = seen_mask(marked.references)
    groups = [marked.correct[is_seen], marked.correct[~is_seen]]
    for kind, group in zip(("seen", "unseen"), groups, strict=True):
        if not len(group):
            raise ValueError(f"{label}: expected questions of {kind} entities, got none")
    return groups


def _check(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected between 0 and 1, got {confidence!r}")
    if resamples < 100:
        raise ValueError(f"resamples: expected at least 100, got {resamples!r}")


def split_scores(
    marked: Outcomes, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0, label: str = "references"
) -> SplitScores:
    """Seen, unseen and harmonic mean of one split, unrounded, with percentile bootstrap intervals.

    Args:
        marked: from `outcomes`.
        confidence: of the intervals, between 0 and 1.
        resamples: at least 100.
        seed: of the resampling.
        label: what the questions are called in an error.

    Raises:
        ValueError: no seen or no unseen question, or an option out of its range.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> result = split_scores(outcomes(references, [Prediction("a", "Q1"), Prediction("b", "Q2")]), resamples=100)
        >>> result.harmonic.value
        100.0
    """
    _check(confidence, resamples)
    return _split(marked, _groups(marked, label), confidence, resamples, np.random.default_rng(seed))[0]


def _split(
    marked: Outcomes, groups: list[Correct], confidence: float, resamples: int, rng: np.random.Generator
) -> tuple[SplitScores, npt.NDArray[np.float64]]:
    accuracies, harmonic = bootstrap(groups, rng, resamples)
    values = [float(group.mean()) * 100 for group in groups]
    estimates = [_estimate(value, draws, confidence) for value, draws in zip(values, accuracies, strict=True)]
    mean = _estimate(harmonic_mean(*values), harmonic, confidence)
    counts = (len(marked.correct), marked.missing, marked.duplicates, marked.unknown)
    return SplitScores(estimates[0], estimates[1], mean, *counts), harmonic


def scores(
    query: Outcomes, entity: Outcomes, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Scores:
    """Both splits and the harmonic mean between them. Arguments and errors as in `split_scores`.

    Example:
        >>> references = [Reference(str(i), "Q1", "val_seen" if i % 2 else "val_unseen") for i in range(40)]
        >>> marked = outcomes(references, [Prediction(str(i), "Q1") for i in range(20)])
        >>> result = scores(marked, marked)
        >>> result.final.value, result.query.missing, result.final.low < 50 < result.final.high
        (50.0, 20, True)
    """
    _check(confidence, resamples)
    rng = np.random.default_rng(seed)
    query_scores, query_draws = _split(query, _groups(query, "query split"), confidence, resamples, rng)
    entity_scores, entity_draws = _split(entity, _groups(entity, "entity split"), confidence, resamples, rng)
    value = harmonic_mean(query_scores.harmonic.value, entity_scores.harmonic.value)
    draws = 2 / (1 / query_draws + 1 / entity_draws)
    return Scores(query_scores, entity_scores, _estimate(value, draws, confidence))

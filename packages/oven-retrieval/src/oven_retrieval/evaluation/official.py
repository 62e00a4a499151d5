"""OVEN's published numbers, bit for bit, with what they leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oven_retrieval.evaluation.files import Prediction, Reference

_ZERO = 1e-12


class OfficialSplit(NamedTuple):
    """Accuracies of one of the two splits in percent, rounded to 2 decimals.

    Example:
        >>> OfficialSplit(seen=20.0, unseen=10.0).unseen
        10.0
    """

    seen: float
    unseen: float


class OfficialScores(NamedTuple):
    """What OVEN's evaluation reports; harmonic means in percent, rounded to 2 decimals.

    Example:
        >>> split = OfficialSplit(50.0, 50.0)
        >>> OfficialScores(50.0, 50.0, 50.0, split, split).entity.unseen
        50.0
    """

    query_score: float
    entity_score: float
    final_score: float
    query: OfficialSplit
    entity: OfficialSplit


def harmonic_mean(*values: float) -> float:
    """Harmonic mean; a zero counts as 1e-12.

    HM = n / (1/a_1 + … + 1/a_n)

    Example:
        >>> round(harmonic_mean(12.6, 10.1), 1), harmonic_mean(0.0, 50.0) < 1e-11
        (11.2, True)

    Source: OVEN equation 1; the 1e-12 is the official evaluation's.
    """
    return len(values) / sum(1.0 / (value if value != 0 else _ZERO) for value in values)


def official_split(references: Sequence[Reference], predictions: Sequence[Prediction]) -> OfficialSplit:
    """Seen and unseen accuracy as the official evaluation counts them.

    It goes through the predictions: a question without one is not counted, one with two is counted twice. Where
    several `data_split`s are seen (or unseen), the one whose first prediction comes last counts.

    Args:
        references: of one split.
        predictions: in the order of their file, which matters as above.

    Raises:
        ValueError: a prediction for a question that is not among the references, or no prediction for seen or unseen.

    Example:
        >>> splits = ["val_seen", "val_unseen", "val_seen"]
        >>> references = [Reference(str(i), f"Q{i}", split) for i, split in enumerate(splits, start=1)]
        >>> official_split(references, [Prediction("1", "Q1"), Prediction("2", "Q9")])
        OfficialSplit(seen=100.0, unseen=0.0)

    Source: the evaluation script that OVEN's authors released.
    """
    by_id = {reference.data_id: reference for reference in references}
    hits: dict[str, list[int]] = {}
    for prediction in predictions:
        reference = by_id.get(prediction.data_id)
        if reference is None:
            raise ValueError(f"data_id: {prediction.data_id!r} is predicted and not among the references")
        hits.setdefault(reference.data_split, []).append(int(reference.entity_id == prediction.entity_id))
    accuracy: dict[str, float] = {}
    for split, marks in hits.items():
        percent = round(sum(marks) / len(marks) * 100, 2)
        if "_seen" in split:
            accuracy["seen"] = percent
        elif "_unseen" in split:
            accuracy["unseen"] = percent
    missing = [kind for kind in ("seen", "unseen") if kind not in accuracy]
    if missing:
        raise ValueError(f"predictions: expected some for {' and '.join(missing)} questions, got none")
    return OfficialSplit(accuracy["seen"], accuracy["unseen"])


def official_scores(
    query_references: Sequence[Reference],
    query_predictions: Sequence[Prediction],
    entity_references: Sequence[Reference],
    entity_predictions: Sequence[Prediction],
) -> OfficialScores:
    """The published numbers of both splits.

    Accuracies are rounded to 2 decimals before the harmonic means are taken, these are not before theirs, and all are
    at the end.

    Example:
        >>> references = [Reference("1", "Q1", "val_seen"), Reference("2", "Q2", "val_unseen")]
        >>> answers = [Prediction("1", "Q1"), Prediction("2", "Q2")]
        >>> official_scores(references, answers, references, answers).final_score
        100.0
    """
    query = official_split(query_references, query_predictions)
    entity = official_split(entity_references, entity_predictions)
    query_score, entity_score = harmonic_mean(*query), harmonic_mean(*entity)
    final = harmonic_mean(query_score, entity_score)
    return OfficialScores(round(query_score, 2), round(entity_score, 2), round(final, 2), query, entity)

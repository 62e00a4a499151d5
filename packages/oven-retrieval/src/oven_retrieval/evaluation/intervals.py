"""Intervals of accuracies: Wilson's, widened where questions share an entity or an image."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from paired_scores.labels import as_labels
from paired_scores.metrics.arrays import as_array

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64

Correct = npt.NDArray[np.bool_]
CONFIDENCE = 0.95
"""Coverage of the intervals."""


class Estimate(NamedTuple):
    """A value in percent with its interval.

    Example:
        >>> Estimate(50.0, 40.0, 60.0).low
        40.0
    """

    value: float
    low: float
    high: float


def wilson(correct: float, questions: float) -> Estimate:
    """Return an accuracy in percent with Wilson's interval; see `paired_scores.wilson`.

    Args:
        correct: right answers.
        questions: all of them; fractions of one where they do not count whole (see `effective_size`).

    Raises:
        ValueError: more right answers than questions, or no question.

    Example:
        >>> tuple(round(x, 1) for x in wilson(5, 10))
        (50.0, 23.7, 76.3)
    """
    if not 0 <= correct <= questions or questions < 1:
        raise ValueError(
            f"correct, questions: expected 0 <= correct <= questions, at least one, got {correct}, {questions}"
        )
    from paired_scores import wilson as interval

    share = correct / questions
    low, high = interval(share, questions, CONFIDENCE)
    return Estimate(100 * share, min(100 * share, 100 * low), max(100 * share, 100 * high))


def effective_size(correct: Correct, *clusters: Sequence[str]) -> float:
    """Return how many independent questions tell as much as these, which share entities or images.

    n_eff = p (1 - p) / v, v = G / (G - 1) · sum over clusters g of (right_g - p · n_g)² / n²

    Args:
        correct: [n] which questions were answered right.
        clusters: of several ways to group them, [n] labels each; an empty label is a group of its own.

    Returns:
        The least of the ways, from 1 to n; where all or no answers are right, the number of groups.

    Raises:
        ValueError: no answer, an answer that is neither 0 nor 1, or labels of another number than answers.

    Example:
        >>> right = np.repeat([True, False, True, False], 25)
        >>> effective_size(right), round(effective_size(right, [f"Q{i // 25}" for i in range(100)]), 2)
        (100.0, 3.0)

    Source: the design effect of a ratio estimate (Kish 1965). For all or none right, groups are counted.
    """
    right = truths(correct, "correct")
    if right.ndim != 1 or not len(right):
        raise ValueError(f"correct: expected one value for each question, at least one, got {right.shape}")
    count, share = len(right), float(right.mean())
    size = float(count)
    for labels in clusters:
        group = _groups(labels)
        if len(group) != count:
            raise ValueError(f"clusters: {len(group)} labels for {count} questions; expected one for each")
        groups = int(group.max(initial=-1)) + 1
        if groups == count:
            continue
        if share in (0.0, 1.0) or groups == 1:
            size = min(size, float(groups))
            continue
        excess = np.bincount(group, right - share)
        variance = groups / (groups - 1) * float(np.sum(excess**2)) / count**2
        if variance > 0:
            size = min(size, share * (1 - share) / variance)
    return max(1.0, size)


def _groups(labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Number the groups; questions without a label are groups of their own."""
    number: dict[Hashable, int] = {}
    held = as_labels(labels, "clusters", missing=True)
    keys = (
        ("alone", i) if label is None or label == "" or label != label else (label,) for i, label in enumerate(held)
    )
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def truths(values: npt.ArrayLike, name: str) -> Bool[np.ndarray, " n"]:
    """Return truth values of a list, an array or a tensor.

    Raises:
        ValueError: a value that is neither 0 nor 1, such as NaN or a text, or that is masked; shows it.

    Example:
        >>> truths([1, 0.0, True], "correct").tolist()
        [True, False, True]
    """
    given = as_array(values, name)
    wrong = ~np.isin(given, (0, 1))
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(f"{name}: the value at {place.tolist()} is {given[tuple(place)]}; expected 0 or 1")
    return given.astype(np.bool_)


def accuracy(correct: Correct, *clusters: Sequence[str]) -> Estimate:
    """Return the accuracy in percent with Wilson's interval, for as many questions as are independent.

    Args:
        correct: [n] which questions were answered right, at least one.
        clusters: as in `effective_size`.

    Raises:
        ValueError: as `effective_size`.

    Example:
        >>> tuple(round(x, 1) for x in accuracy(np.zeros(17, np.bool_)))
        (0.0, 0.0, 18.4)
    """
    size = effective_size(correct, *clusters)
    return wilson(float(truths(correct, "correct").mean()) * size, size)


def accuracy_draws(
    correct: Correct, rng: np.random.Generator, draws: int, *clusters: Sequence[str]
) -> Float64[np.ndarray, " draws"]:
    """Draw accuracies in percent that the answers leave possible: for intervals of means of several.

    They follow Jeffreys' posterior, Beta(right + 1/2, wrong + 1/2), of as many questions as are independent; a
    bootstrap of answers that are all wrong would say that nothing but 0 is possible.

    Source: Brown, Cai and DasGupta 2001.
    """
    size = effective_size(correct, *clusters)
    right = float(truths(correct, "correct").mean()) * size
    return 100 * rng.beta(right + 0.5, size - right + 0.5, draws)


def quantiles(value: float, draws: Float64[np.ndarray, " draws"]) -> Estimate:
    """Return a value with the middle 95 % of its draws, which hold the value, too."""
    low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value, min(value, float(low)), max(value, float(high)))

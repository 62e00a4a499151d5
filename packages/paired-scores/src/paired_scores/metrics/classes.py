"""What happens within each class: who is taken for whom, precision, recall and F1 with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paired_scores.metrics.arrays import as_array, class_labels, ratio, refuse_nan, require_sampling, require_whole
from paired_scores.metrics.score import wilson

if TYPE_CHECKING:
    from jaxtyping import Int


@dataclass(frozen=True)
class ClassScore:
    """One class's precision, recall and F1, each with its interval (value, low, high); None where nothing defines it.

    `support` samples are of the class, `predicted` were taken for it.
    """

    label: int
    support: int
    predicted: int
    precision: tuple[float, float, float] | None
    recall: tuple[float, float, float] | None
    f1: tuple[float, float, float] | None


def confusion(predictions: Any, targets: Any, classes: int) -> Int[np.ndarray, "k k"]:
    """How often each class (row) was taken for each (column).

    Predictions are classes ``[n]``, or scores ``[n, k]``, whose largest counts; targets are classes ``[n]``.

    Raises:
        ValueError: another number of predictions than targets, scores of another number of classes, such as classes in
            one column ``[n, 1]``, or a class out of range.

    Example:
        >>> confusion([0, 0, 1], [0, 1, 1], classes=2).tolist()
        [[1, 0], [1, 1]]
    """
    require_whole(classes=classes)
    guessed, true = as_array(predictions, "predictions"), class_labels(as_array(targets, "targets"), classes)
    if guessed.ndim == 2 and guessed.shape[1] != classes:
        raise ValueError(
            f"predictions have shape {guessed.shape}; expected classes [n], or a score of each of {classes} classes"
        )
    if guessed.ndim == 2:
        refuse_nan("predictions", guessed)
        guessed = guessed.argmax(axis=1)
    if len(guessed) != len(true):
        raise ValueError(f"there are {len(guessed)} predictions and {len(true)} targets; expected as many")
    guessed = class_labels(guessed, classes, "prediction")
    return np.bincount(true * classes + guessed, minlength=classes * classes).reshape(classes, classes)


def by_class(
    predictions: Any, targets: Any, classes: int, *, seed: int = 0, resamples: int = 1000, level: float = 0.95
) -> list[ClassScore]:
    r"""Precision, recall and F1 of each class, with intervals; see `confusion`.

    $P = TP / (TP + FP)$, $R = TP / (TP + FN)$, $F_1 = 2\,TP / (2\,TP + FP + FN)$, as scikit-learn has them; the first
    two with Wilson's interval. A resample of samples is, for one class, a multinomial draw of its four counts, so F1's
    bootstrap costs no pass over the samples.

    Raises:
        ValueError: as `confusion`; a level outside (0, 1), or a number of resamples below 0.

    Example:
        >>> [None if row.f1 is None else round(row.f1[0], 3) for row in by_class([0, 0, 1], [0, 1, 1], classes=3)]
        [0.667, 0.667, None]
    """
    require_sampling(level=level, seed=seed, resamples=(resamples, 0))
    table = confusion(predictions, targets, classes)
    count, right = int(table.sum()), np.diag(table)
    of_it, guessed = table.sum(axis=1), table.sum(axis=0)
    generator = np.random.default_rng(seed)
    rows = []
    for label in range(classes):
        hits, support, predicted = int(right[label]), int(of_it[label]), int(guessed[label])
        f1 = None
        if support + predicted:
            value = 2 * hits / (support + predicted)
            cells = np.array([hits, predicted - hits, support - hits, count - predicted - support + hits])
            drawn = generator.multinomial(count, cells / count, size=resamples).astype(np.float64)
            values = ratio(2 * drawn[:, 0], 2 * drawn[:, 0] + drawn[:, 1] + drawn[:, 2])
            values = values[~np.isnan(values)]
            low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]) if len(values) else (value, value)
            f1 = (value, float(low), float(high))
        rows.append(
            ClassScore(
                label, support, predicted, _share(hits, predicted, level), _share(hits, support, level), f1
            )
        )  # fmt: skip
    return rows


def _share(hits: int, trials: int, level: float) -> tuple[float, float, float] | None:
    return (hits / trials, *wilson(hits / trials, trials, level)) if trials else None

"""Candidates for wrong labels among one's own images, from predictions of heads that never saw them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from gate_runner.errors import DataError
from paired_scores.metrics import evaluate, wilson


class Suspect(NamedTuple):
    """An image whose label may be wrong.

    Args:
        file: the image's name, as the result has it.
        label: its class in the data.
        prediction: the class that the head gives it.
        confidence: probability of the prediction.
        of_label: probability of the label; NaN in results that hold the prediction's alone.
        threshold: mean probability of the predicted class in images that are labelled so.
        cleanlab: whether cleanlab names it, too; None without cleanlab.
        place: of the image among those tested.
    """

    file: str
    label: str
    prediction: str
    confidence: float
    of_label: float
    threshold: float
    cleanlab: bool | None
    place: int


def suspects(rows: Mapping[str, np.ndarray], predicted: Int[np.ndarray, " n"]) -> list[Suspect]:
    """Return the candidates, those with the largest margin of the prediction over the label first.

    An image is one if another class than its label's is predicted, with at least the mean probability that the head
    gives that class in images with its label.

    Args:
        rows: files, truths, classes, confidences and probabilities, see `gate_runner.runs.tested`.
        predicted: class indices.

    Raises:
        DataError: probabilities that are not one for each class, or whose rows do not sum to 1; shows the row.

    Source:
        Northcutt, Jiang and Chuang, Confident Learning, Journal of Artificial Intelligence Research 70, 2021. In
        results that hold the predicted class's probability alone, thresholds average over the recognised images of a
        class: they are higher, and fewer images are named.
    """
    truth, confidence, classes = rows["truth"], rows["confidence"], rows["classes"]
    if "distributions" in rows:
        _check_distributions(rows)
        of_label = np.take_along_axis(rows["distributions"], truth[:, None].astype(np.int64), axis=1)[:, 0].astype(
            float
        )
        thresholds = _means(of_label, truth, len(classes))
        margins = confidence - of_label
    else:
        of_label = np.full(len(truth), np.nan)
        is_right = predicted == truth
        thresholds = _means(confidence[is_right], truth[is_right], len(classes))
        margins = confidence - thresholds[predicted]
    places = np.flatnonzero((predicted != truth) & (confidence >= thresholds[predicted]))
    second = votes_of_cleanlab(rows)
    return [
        Suspect(
            str(rows["files"][at]),
            str(classes[truth[at]]),
            str(classes[predicted[at]]),
            float(confidence[at]),
            float(of_label[at]),
            float(thresholds[predicted[at]]),
            None if second is None else bool(second[at]),
            int(at),
        )
        for at in places[np.argsort(-margins[places], kind="stable")]
    ]


def _check_distributions(rows: Mapping[str, np.ndarray]) -> None:
    """Refuse what are no probabilities: a run's folder may be a stranger's."""
    distributions, truth = rows["distributions"], rows["truth"]
    expected = (len(truth), len(rows["classes"]))
    if distributions.shape != expected or distributions.dtype.kind != "f":
        raise DataError(
            f"probabilities {distributions.dtype} have the shape {distributions.shape}, expected {expected}"
        )
    try:
        evaluate("log_loss", distributions, truth, resamples=0)
    except ValueError as error:
        raise DataError(f"probabilities of the test images: {error}") from error


def _means(values: Float[np.ndarray, " m"], classes: Int[np.ndarray, " m"], count: int) -> Float[np.ndarray, " k"]:
    """Mean of the values of each class; infinite for a class of none."""
    counts, sums = np.bincount(classes, minlength=count), np.bincount(classes, values, count)
    means: np.ndarray = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    return means


def votes_of_cleanlab(rows: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " n"] | None:
    """Return which images cleanlab takes for wrongly labelled; None without it, or without all probabilities.

    cleanlab needs every class among the labels: those that no image has are left out of what it sees.
    """
    if "distributions" not in rows or find_spec("cleanlab") is None:
        return None
    from cleanlab.filter import find_label_issues

    present, labels = np.unique(rows["truth"], return_inverse=True)
    if len(present) < 2:
        return None
    probabilities = rows["distributions"][:, present].astype(np.float64) + 1e-12
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    issues: np.ndarray = find_label_issues(labels, probabilities, n_jobs=1)
    return issues


class Corrected(NamedTuple):
    """An accuracy before and after a review of labels, with 95 % intervals.

    Args:
        before: value, low and high with the labels as they are.
        after: the same with the corrected ones.
        images: that count before, and after.
    """

    before: tuple[float, float, float]
    after: tuple[float, float, float]
    images: tuple[int, int]


def corrected_accuracy(
    truth: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], corrections: Mapping[int, int | None]
) -> Corrected:
    """Return the accuracy before and after corrections.

    Args:
        truth: class indices.
        predicted: class indices.
        corrections: the right class, -1 for one that is not among the classes, or None for an image that is left out,
            by the image's place.
    """
    hits = (truth == predicted).astype(float)
    left = np.ones(len(truth), bool)
    changed = hits.copy()
    for at, label in corrections.items():
        left[at] = label is not None
        changed[at] = float(label == predicted[at])
    count = int(left.sum())
    if not count:
        raise DataError("every test image is left out: no accuracy is left")
    before, after = float(hits.mean()), float(changed[left].mean())
    return Corrected((before, *wilson(before, len(hits))), (after, *wilson(after, count)), (len(hits), count))


def accuracy_range(truth: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], count: int) -> tuple[float, float]:
    """Return the accuracy as it is, and as it would be if so many wrong answers were right and their labels wrong."""
    hits = int((truth == predicted).sum())
    return hits / len(truth), (hits + count) / len(truth)

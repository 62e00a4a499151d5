"""Candidates for wrong labels among one's own test images, from predictions of heads that never saw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Suspect(NamedTuple):
    """An image whose label may be wrong."""

    file: str
    label: str
    prediction: str
    confidence: float
    threshold: float  # mean confidence in images of the predicted class that are labelled so


def suspects(rows: Mapping[str, np.ndarray], predicted: np.ndarray) -> list[Suspect]:
    """Return the candidates, those furthest above their threshold first.

    An image is one where another class than its label's is predicted, with at least the mean confidence that the head
    has in the images of that class that it recognises.

    Args:
        rows: files, truths, classes and confidences, see `gate_runner.runs.tested`.
        predicted: class indices ``[n]``.

    Source:
        Northcutt, Jiang and Chuang, Confident Learning, Journal of Artificial Intelligence Research 70, 2021. Their
        thresholds average over all images of a class; a result keeps the predicted class's probability alone, and so
        these average over the recognised ones: they are higher, and fewer images are named.
    """
    truth, confidence, classes = rows["truth"], rows["confidence"], rows["classes"]
    is_right = predicted == truth
    counts = np.bincount(truth[is_right], minlength=len(classes))
    sums = np.bincount(truth[is_right], confidence[is_right], len(classes))
    thresholds = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    margins = confidence - thresholds[predicted]
    places = np.flatnonzero(~is_right & (margins >= 0))
    return [
        Suspect(
            str(rows["files"][at]),
            str(classes[truth[at]]),
            str(classes[predicted[at]]),
            float(confidence[at]),
            float(thresholds[predicted[at]]),
        )
        for at in places[np.argsort(-margins[places], kind="stable")]
    ]


def accuracy_range(truth: np.ndarray, predicted: np.ndarray, count: int) -> tuple[float, float]:
    """Return the accuracy as it is, and as it would be if so many wrong answers were right and their labels wrong."""
    hits = int((truth == predicted).sum())
    return hits / len(truth), (hits + count) / len(truth)

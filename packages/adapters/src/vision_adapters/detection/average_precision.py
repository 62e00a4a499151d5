"""COCO's average precision from matched outcomes, each image counted as often as its weight says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from paired_scores.metrics.arrays import mean_over
from vision_adapters.detection.matching import THRESHOLDS, PictureRows

RECALLS = np.linspace(0.0, 1.0, 101)
_CELLS = 4_000_000


def average_precisions(
    outcomes: PictureRows, weights: Float[np.ndarray, "r n"], thresholds: Sequence[int] = range(len(THRESHOLDS))
) -> Float[np.ndarray, "r k t"]:
    """Average precision of each class with objects, at each threshold, under weights; NaN where these leave none.

    Precision at the 101 recalls 0, 0.01, ... 1, each the highest at that recall or a larger one; with weights w, a
    detection of image i counts $w_i$ times. With weights of one, pycocotools' values to the last bits of a mean; with
    larger ones, detections of an image that share a score stay together, where copies of the image would lie in
    turns.
    """
    weights = np.asarray(weights, dtype=np.float64)
    columns = outcomes.columns
    image = np.repeat(np.arange(len(outcomes.lengths)), outcomes.lengths)
    truth = columns["truth"]
    kinds = np.unique(columns["label"][truth])
    precisions = np.empty((len(weights), len(kinds), len(thresholds)))
    for row, kind in enumerate(kinds):
        of_kind = columns["label"] == kind
        mine = np.flatnonzero(of_kind & ~truth)
        mine = mine[np.argsort(-columns["score"][mine], kind="stable")]
        objects = np.bincount(image[of_kind & truth], minlength=len(outcomes.lengths)).astype(np.float64)
        hits = [(columns["hits"][mine] >> bit) & 1 for bit in thresholds]
        ignored = [(columns["ignored"][mine] >> bit) & 1 for bit in thresholds]
        useful = max((int(np.flatnonzero(hit)[-1]) + 1 if hit.any() else 0 for hit in hits), default=0)
        rows = max(1, _CELLS // max(1, useful))
        for start in range(0, len(weights), rows):
            part = weights[start : start + rows]
            precisions[start : start + rows, row] = _of_class(part, part @ objects, image[mine[:useful]], hits, ignored)
    return precisions


def mean_average_precision(outcomes: PictureRows, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """COCO's mean over classes and thresholds from .50 to .95; NaN where there is no object at all.

    Example:
        >>> from vision_adapters.detection.matching import Matches
        >>> columns = {"label": [0, 0], "score": [0.9, 0.0], "hits": [63, 0], "ignored": [0, 0], "truth": [False, True]}
        >>> outcomes = Matches({name: np.array(column) for name, column in columns.items()}, np.array([2]))
        >>> mean_average_precision(outcomes, np.ones((1, 1))).round(3).tolist()
        [0.6]
    """
    return mean_over(average_precisions(outcomes, weights).reshape(len(weights), -1))


def at_half(outcomes: PictureRows, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The same at an overlap of .50."""
    return mean_over(average_precisions(outcomes, weights, [0])[..., 0])


def at_three_quarters(outcomes: PictureRows, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The same at an overlap of .75."""
    return mean_over(average_precisions(outcomes, weights, [5])[..., 0])


def _of_class(
    weights: np.ndarray, objects: np.ndarray, image: np.ndarray, hits: list[np.ndarray], ignored: list[np.ndarray]
) -> np.ndarray:
    """Average precision ``[r, t]`` of one class; ``image`` is that of each detection up to the last that hits."""
    useful = len(image)
    precisions = np.zeros((len(weights), len(hits)))
    every = np.cumsum(weights[:, image], axis=1) if useful else None
    with np.errstate(invalid="ignore", divide="ignore"):
        for row, (hit, gone) in enumerate(zip(hits, ignored, strict=True)):
            at = np.flatnonzero(hit[:useful])
            if not len(at) or every is None:
                continue
            true = np.cumsum(weights[:, image[at]], axis=1)
            if gone[:useful].any():
                counted = np.cumsum(weights[:, image] * (1 - gone[:useful]), axis=1)[:, at]
            else:
                counted = every[:, at]
            precision = true / (counted + np.spacing(1))
            precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
            reached = np.searchsorted(RECALLS, np.nan_to_num(true / objects[:, None]), side="right")
            reached = np.where(true > 0, reached, 0)
            steps = np.diff(reached, axis=1, prepend=0)
            precisions[:, row] = (precision * steps).sum(axis=1) / len(RECALLS)
    precisions[objects <= 0] = np.nan
    return precisions

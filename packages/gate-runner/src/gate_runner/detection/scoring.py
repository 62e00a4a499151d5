"""From detections on the test split to scores with intervals, and what a report needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gate_data.boxes.objects import Objects, checked_detections
from gate_data.ragged import Ragged
from gate_runner.detection.coco_map import CocoMetrics, coco_metrics
from gate_runner.errors import DataError, UsageError
from gate_runner.tasks.job import Score
from paired_scores.metrics import wilson
from vision_adapters.detection import match_detections
from vision_adapters.detection.average_precision import at_half, at_three_quarters, mean_average_precision

STATISTICS = {"map": mean_average_precision, "ap50": at_half, "ap75": at_three_quarters}
"""The metrics that have intervals, and can be computed again on resampled images."""
_RESAMPLES = 1000
_WORST, _BEST = 12, 6
_PLACES = 5


class DetectionScores(NamedTuple):
    """Scores of detections, what is kept of each image, and further numbers for the result file."""

    scores: tuple[Score, ...]
    outcomes: Ragged
    predicted: np.ndarray
    more: dict[str, Any]


def match(truth: Objects, detections: Ragged) -> Ragged:
    """What became of each detection and object, see `vision_adapters.detection.match_detections`."""
    matches = match_detections(truth.rows, detections)
    return Ragged(matches.columns, matches.lengths)


def validated(truth: Objects, detections: Ragged) -> float:
    """The mean average precision, without an interval; 0 where there is no object."""
    value = mean_average_precision(match(truth, detections), np.ones((1, len(truth))))[0]
    return 0.0 if np.isnan(value) else float(value)


def judge(
    truth: Objects, detections: Ragged, blind: Ragged | None, classes: Sequence[str], metrics: Sequence[str], seed: int
) -> DetectionScores:
    """Score detections on images that were not trained on."""
    for name in metrics:
        if name not in STATISTICS:
            raise UsageError(f"detection has no metric {name!r}; it has: {', '.join(STATISTICS)}")
    detections = checked_detections(detections, truth, len(classes))
    report = coco_metrics(truth, detections, classes)
    chance = dict.fromkeys(metrics, 0.0) if blind is None else _values(coco_metrics(truth, blind, classes))
    outcomes = match(truth, detections)
    count = len(truth)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=_RESAMPLES).astype(float)
    scores = []
    for name in metrics:
        spread = STATISTICS[name](outcomes, drawn)
        low, high = np.nanquantile(spread, [0.025, 0.975])
        value = _values(report)[name]
        if value in (0.0, 1.0):  # resampled images have nothing to vary: as many trials as images with objects
            low, high = wilson(value, max(int((truth.rows.lengths > 0).sum()), 1))
        scores.append(Score(name, "higher", value, float(low), float(high), chance[name]))
    more = {
        "coco": report.values,
        "classes": report.classes,
        "without_truth": list(report.without_truth),
        "detections": int(detections.lengths.sum()),
        "drawn": _kept(truth, detections, outcomes),
    }
    return DetectionScores(tuple(scores), outcomes, found_of(outcomes, len(classes)), more)


def found_of(outcomes: Ragged, classes: int) -> np.ndarray:
    """How many objects of each image its best boxes found, as many boxes as there are objects."""
    counts = np.zeros((len(outcomes), 3), np.int32)
    starts = np.cumsum(outcomes.lengths) - outcomes.lengths
    columns = outcomes.columns
    for picture, (start, length) in enumerate(zip(starts, outcomes.lengths, strict=True)):
        label, score, hits, truth = (
            columns[name][start : start + length] for name in ("label", "score", "hits", "truth")
        )
        count = int(truth.sum())
        best = np.argsort(np.where(truth, -np.inf, score), kind="stable")[::-1][:count]
        hit = best[(hits[best] & 1).astype(bool) & ~truth[best]]
        missed = np.bincount(label[truth], minlength=classes) - np.bincount(label[hit], minlength=classes)
        counts[picture] = count, len(hit), int(missed.argmax()) if missed.any() else -1
    return counts


def guessed(train: Objects, test: Objects, classes: int) -> Ragged:
    """What can be said without looking: boxes of each class's mean shape where training has its objects."""
    keep = ~train.rows.columns["crowd"]
    shares, labels = train.boxes_in_shares()[keep], train.rows.columns["label"][keep]
    if not len(labels):
        raise DataError(f"{len(train)} training images hold no object")
    boxes, names, scores = [], [], []
    for label in range(classes):
        mine = shares[labels == label]
        if not len(mine):
            continue
        shape = mine[:, 2:].mean(axis=0)
        cell = np.clip((mine[:, :2] * _PLACES).astype(int), 0, _PLACES - 1)
        for pair in np.unique(cell, axis=0):
            inside = (cell == pair).all(axis=1)
            centre = mine[inside, :2].mean(axis=0)
            boxes.append(np.concatenate([centre - shape / 2, shape]))
            names.append(label)
            scores.append(inside.sum() / len(labels))
    size = np.repeat(np.tile(test.sizes.astype(float), (1, 2)), len(boxes), axis=0)
    count = len(test)
    return Ragged(
        {
            "box": np.tile(np.array(boxes), (count, 1)) * size,
            "label": np.tile(np.array(names, dtype=np.int64), count),
            "score": np.tile(np.array(scores), count),
        },
        np.full(count, len(boxes)),
    )


def in_pixels(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> Ragged:
    """Boxes as shares of images to detections in their pixels, cut at the edges; those of no area are dropped."""
    first = np.clip(boxes[..., :2] - boxes[..., 2:] / 2, 0, 1)
    last = np.clip(boxes[..., :2] + boxes[..., 2:] / 2, 0, 1)
    size = sizes[:, None].astype(np.float64)
    box = np.concatenate([first * size, (last - first) * size], axis=-1)
    keep = (scores > 0) & (box[..., 2:] > 0).all(axis=-1)
    return Ragged(
        {"box": box[keep], "label": labels[keep].astype(np.int64), "score": scores[keep].astype(np.float64)},
        keep.sum(axis=1),
    )


def _values(report: CocoMetrics) -> dict[str, float]:
    return {name: float(value or 0.0) for name, value in report.values.items()}


def _kept(truth: Objects, detections: Ragged, outcomes: Ragged) -> dict[str, list[list[float]]]:
    """Of the worst and best images, the best detections: left, top, width, height, class, score."""
    precisions = np.array([mean_average_precision(outcomes.take(np.array([row])), np.ones((1, 1)))[0]
                     for row in range(len(truth))])  # fmt: skip
    order = [int(row) for row in np.argsort(precisions, kind="stable") if np.isfinite(precisions[row])]
    rows: Mapping[int, None] = dict.fromkeys([*order[:_WORST], *order[::-1][:_BEST]])
    drawn = {}
    for row in rows:
        boxes = detections[row]
        few = np.argsort(-boxes["score"], kind="stable")[: int(truth.rows.lengths[row]) + 2]
        drawn[str(row)] = [
            [
                *(round(float(side), 1) for side in boxes["box"][at]),
                int(boxes["label"][at]),
                round(float(boxes["score"][at]), 3),
            ]
            for at in few
        ]
    return drawn

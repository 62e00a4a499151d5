"""Pixels of class maps as counts: mean intersection over union with intervals, by class, and along a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gate_runner.errors import DataError
from gate_runner.tasks.job import Score
from paired_scores.metrics import score_outcomes
from paired_scores.metrics.arrays import UndefinedMetricError
from vision_adapters.losses import IGNORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(20))
"""Probabilities below which a pixel is background, at which the curve is computed."""


def pixels(answer: Int[Tensor, "h w"], truth: Int[Tensor, "h w"], classes: int) -> Float[np.ndarray, "3 k"]:
    """Return how many pixels of each class are right, answered and true; those that count nowhere are left out.

    Raises:
        DataError: the maps differ in size, or the truth has a value that is no class.
    """
    if answer.shape != truth.shape:
        raise DataError(
            f"the class map has {' x '.join(map(str, truth.shape))} pixels, its image "
            f"{' x '.join(map(str, answer.shape))}: expected the same size"
        )
    valid = truth != IGNORED
    true, given = truth[valid].long(), answer[valid].long()
    wrong = (true < 0) | (true >= classes)
    if bool(wrong.any()):
        raise DataError(f"the class map has the value {int(true[wrong][0])}, expected 0 to {classes - 1} or {IGNORED}")
    counted = [torch.bincount(part, minlength=classes) for part in (true[true == given], given, true)]
    return torch.stack(counted).double().numpy()


class Curve:
    """Counts at every threshold of `THRESHOLDS`, summed over images."""

    def __init__(self, classes: int, background: int) -> None:
        self.background = background
        bins = len(THRESHOLDS) + 1
        self.hits, self.answered = np.zeros((classes, bins)), np.zeros((classes, bins))
        self.true, self.missed = np.zeros(classes), np.zeros(bins)

    def add(self, answer: Int[Tensor, "h w"], confidence: Float[Tensor, "h w"], truth: Int[Tensor, "h w"]) -> None:
        """Add an image: its answer without a threshold, and how sure it is."""
        valid = (truth != IGNORED).numpy()
        true, given = truth.numpy()[valid].astype(np.int64), answer.numpy()[valid].astype(np.int64)
        steps = np.asarray(THRESHOLDS, np.float32)
        level = np.searchsorted(steps, confidence.numpy()[valid], side="right")  # thresholds that it passes
        bins, classes = self.hits.shape[1], len(self.true)

        def by_class(of: np.ndarray, at: np.ndarray) -> np.ndarray:
            return np.bincount(of * bins + at, minlength=classes * bins).reshape(classes, bins)

        right = true == given
        self.hits += by_class(given[right], level[right])
        self.answered += by_class(given, level)
        self.true += np.bincount(true, minlength=classes)
        missed = (true == self.background) & (given != self.background)
        self.missed += np.bincount(level[missed], minlength=bins)

    def points(self) -> list[tuple[float, float]]:
        """Return each threshold with the mean intersection over union."""
        rows = []
        present = self.true > 0
        for step, threshold in enumerate(THRESHOLDS):
            hits, answered = self.hits[:, step + 1 :].sum(axis=1), self.answered[:, step + 1 :].sum(axis=1)
            dropped = self.answered[:, : step + 1].sum(axis=1)
            dropped[self.background] = 0
            hits[self.background] = self.hits[self.background].sum() + self.missed[: step + 1].sum()
            answered[self.background] = self.answered[self.background].sum() + dropped.sum()
            union = answered + self.true - hits
            rows.append((threshold, float(np.mean((hits / np.maximum(union, 1))[present]))))
        return rows

    def best(self) -> float:
        """Return the threshold of the highest value, the lowest of equal ones."""
        return max(self.points(), key=lambda point: (point[1], -point[0]))[0]


def present(counts: Float[np.ndarray, "n 3 k"]) -> np.ndarray:
    """Return counts in which classes without a true pixel are left out: their answers count nowhere but as misses."""
    absent = counts[:, 2].sum(axis=0) == 0
    columns = counts.copy()
    columns[:, :, absent] = 0
    return columns


def scores(
    counts: Float[np.ndarray, "n 3 k"],
    beside: Float[np.ndarray, "n 3 k"],
    metrics: Sequence[str],
    background: int | None,
    seed: int,
) -> tuple[Score, ...]:
    """Return every metric with its interval by image, and what the blind map scores.

    ``miou_things`` is the mean without the background.
    """
    rows = []
    for name in dict.fromkeys((*metrics, *(["miou_things"] if background is not None else []))):
        answered, blind = (_columns(part, name, background) for part in (counts, beside))
        metric = "miou" if name == "miou_things" else name
        estimate = score_outcomes(metric, answered, seed=seed)
        chance = score_outcomes(metric, blind, resamples=0).value
        rows.append(Score(name, "higher", estimate.value, estimate.low, estimate.high, chance))
    return tuple(rows)


def _columns(counts: np.ndarray, name: str, background: int | None) -> np.ndarray:
    columns = counts if name == "overall_acc" else present(counts)
    return np.delete(columns, background, axis=2) if name == "miou_things" and background is not None else columns


def interval(counts: Float[np.ndarray, "n 3 k"], seed: int, resamples: int = 1000) -> list[float]:
    """Return the mean intersection over union and the ends of its interval."""
    estimate = score_outcomes("miou", present(counts), seed=seed, resamples=resamples)
    return [estimate.value, estimate.low, estimate.high]


def by_class(counts: Float[np.ndarray, "n 3 k"], classes: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Return each class's intersection over union with its interval, and its true pixels; None for absent ones."""
    rows: list[dict[str, Any]] = []
    for label, name in enumerate(classes):
        true = int(counts[:, 2, label].sum())
        row: dict[str, Any] = {"class": name, "pixels": true, "images": int((counts[:, 2, label] > 0).sum())}
        try:
            row["iou"] = interval(counts[:, :, [label]], seed, 200) if true else None
        except UndefinedMetricError:
            row["iou"] = None
        rows.append(row)
    return rows


def of_images(counts: Float[np.ndarray, "n 3 k"]) -> Float[np.ndarray, " n"]:
    """Return each image's own mean over the classes that it shows; NaN where none of its pixels counts."""
    hits, answered, true = counts[:, 0], counts[:, 1], counts[:, 2]
    union = answered + true - hits
    ratio = np.where(union > 0, hits / np.maximum(union, 1), np.nan)
    with np.errstate(invalid="ignore"):
        shown = np.isfinite(ratio)
        total = np.where(shown, ratio, 0).sum(axis=1)
        return np.where(shown.any(axis=1), total / np.maximum(shown.sum(axis=1), 1), np.nan)

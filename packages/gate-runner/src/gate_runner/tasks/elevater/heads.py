"""Zero-shot, or a head on fixed features, chosen by validation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gate_runner.axes import FULL, Variant
from gate_runner.errors import NotApplicableError
from gate_runner.heads.kept import KeptHead

if TYPE_CHECKING:
    from gate_runner.tasks.elevater.features import Features
    from gate_runner.tasks.job import Job
    from vision_adapters.metrics import Score
    from vision_adapters.tuning import Tuned


@dataclass(frozen=True)
class Draw:
    """Which training images a unit sees.

    Args:
        rows: their indices, in the order drawn.
        sha256: of the indices.
        short: classes with fewer images than shots, of which all were taken.
    """

    rows: Tensor
    sha256: str
    short: int = 0


class Fitted(NamedTuple):
    """A head, or an encoder with its head, on the test split.

    Args:
        score: of the test split.
        scores: of each test image and class ``[m, k]``.
        training: what was drawn, chosen and validated.
        head: where heads are to be kept.
    """

    score: Score
    scores: Tensor
    training: dict[str, Any]
    head: KeptHead | None = None


def draw_shots(labels: Tensor, shots: int, seed: int, short_classes: str = "take") -> Draw:
    """ELEVATER's few-shot subset, or all training images."""
    from vision_adapters.fewshot import elevater_indices

    if shots == FULL:
        rows = torch.arange(len(labels))
        return Draw(rows, hashlib.sha256(",".join(map(str, rows.tolist())).encode()).hexdigest())
    try:
        drawn = elevater_indices(labels, shots, seed, short_classes="take" if short_classes == "take" else "refuse")
    except ValueError as error:
        raise NotApplicableError(f"{shots} shots: {error}") from error
    counts = torch.bincount(labels) if labels.ndim == 1 else labels.sum(0)
    return Draw(torch.from_numpy(drawn.indices), drawn.sha256, int((counts < shots).sum()))


def fit_frozen(
    job: Job, variant: Variant, features: Features, weights: Tensor | None, metric: str, probe: str
) -> Fitted:
    """Zero-shot, or a head on fixed features."""
    from vision_adapters.tuning import HeldOut, tune, tuning_data

    zero_shot = variant.shots == 0
    shots = FULL if zero_shot else variant.shots
    draw = draw_shots(features.train_labels, shots, job.seed, job.settings.short_classes)
    # the published search takes the backbone's own columns: its batch normalisation depends on them
    turned = weights is not None and not (probe == "elevater" and variant.projection == "1p")
    train, test = features.seen(variant.projection, anchored=turned)
    start = None
    if weights is not None:
        start = features.texts(weights, variant.projection) if turned else weights @ merged(features)
    with job.timed("train"):
        try:
            data = tuning_data(
                train[draw.rows],
                features.train_labels[draw.rows],
                classes=len(features.classes),
                class_embeddings=start,
                logit_scale=job.encoder.logit_scale or 100.0,
                metric=metric,
                class_weight=None if zero_shot else job.class_weight,
                validation="folds" if zero_shot else "toolkit" if probe == "elevater" else "auto",
                seed=job.seed,
            )
            tuned = tune(data, "zero_shot" if zero_shot else probe)
        except ValueError as error:
            raise NotApplicableError(str(error)) from error
    with job.timed("test"):
        score = HeldOut(test, features.test_labels).score(tuned, seed=job.seed, resamples=300)
        scores = scores_of(tuned, test)
    training = {
        "validated": tuned.validation,
        "trained_parameters": 0 if zero_shot else tuned.trained_parameters(),
        "chosen": {"method": tuned.method, **jsonable(tuned.best_params)},
        "draw": "" if zero_shot else draw.sha256,
        "short_classes": draw.short,
    }
    backbone = variant.projection == "1p" and features.projection is not None
    saved = KeptHead(tuned.head, "backbone" if backbone else "projected") if job.settings.save_heads else None
    return Fitted(score, scores, training, saved)


def merged(features: Features) -> Tensor:
    """The matrix from the texts' space to the backbone's."""
    assert features.projection is not None
    return features.projection.T


def scores_of(tuned: Tuned, test: Tensor) -> Tensor:
    """A head's scores, some thousands of images at a time."""
    return torch.cat([tuned.scores(part).float() for part in torch.split(test, 4096)])


def probabilities(scores: Tensor) -> np.ndarray:
    """What a submission holds: softmax over classes, also where several are true, as the toolkit writes it."""
    return scores.softmax(1).numpy().astype(np.float32)


def jsonable(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Infinite values as text, for JSON has none."""
    return {
        name: str(value) if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in chosen.items()
    }

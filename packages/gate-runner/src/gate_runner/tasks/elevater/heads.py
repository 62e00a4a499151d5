"""Features before and behind the projection; zero-shot, or a head on them, chosen by validation."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from gate_runner.errors import NotApplicableError
from gate_runner.settings.axes import FULL, Variant
from gate_runner.tasks.features import rows_of
from vision_adapters.tuning.projected import padded_texts, projected_features
from vision_features.heads.calibrating import calibrated
from vision_features.heads.saved import KeptHead

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job
    from paired_scores.metrics import Score
    from vision_adapters.calibration import Calibration
    from vision_adapters.tuning import Tuned, TuningData
    from vision_features.encoders.encoder import Encoder
    from vision_features.features import Kind


@dataclass(frozen=True)
class Features:
    """Two splits before the projection into the texts' space; pooled features where an encoder shows none."""

    train: Float[Tensor, "n b"]
    test: Float[Tensor, "m b"]
    train_labels: Tensor
    test_labels: Tensor
    projection: Float[Tensor, "b d"] | None
    classes: tuple[str, ...]

    def seen(self, projection: str, *, anchored: bool) -> tuple[Tensor, Tensor]:
        """Training and test features for a head of one projection or two."""
        return projected_features(self.train, self.test, self.projection, projection, anchored=anchored)

    def texts(self, weights: Tensor, projection: str) -> Tensor:
        """Class texts beside `seen`'s anchored features."""
        return padded_texts(weights, self.projection, projection)


def projection_of(encoder: Encoder) -> Tensor | None:
    """The matrix from the backbone's features to the projected ones, or None where the encoder shows none."""
    projection = encoder.projection
    return None if projection is None or encoder.backbone is None else projection.detach().float().cpu()


def features_of(job: Job) -> Features:
    """Features of a job's training and test images, in memory."""
    projection, data = projection_of(job.encoder), job.data
    kind: Kind = "pooled" if projection is None else "backbone"
    train, test = (rows_of(job, getattr(data, side), kind, side)[:].clone() for side in ("train", "test"))
    labels = data.train.targets.long(), data.test.targets.long()
    return Features(train, test, *labels, projection, data.classes)


class Draw(NamedTuple):
    """Which training images a unit sees; of ``short`` classes, with fewer images than shots, all were taken."""

    rows: Tensor
    sha256: str
    short: int = 0


class Fitted(NamedTuple):
    """A head, or an encoder with its head, on the test split; ``training`` says what was drawn and chosen."""

    score: Score
    scores: Tensor
    training: dict[str, Any]
    head: KeptHead | None = None


def draw_shots(labels: Tensor, shots: int, seed: int, short_classes: Literal["take", "skip"] = "take") -> Draw:
    """ELEVATER's few-shot subset, or all training images."""
    from vision_adapters.fewshot import elevater_indices

    if shots == FULL:
        rows = torch.arange(len(labels))
        return Draw(rows, hashlib.sha256(",".join(map(str, rows.tolist())).encode()).hexdigest())
    try:
        drawn = elevater_indices(labels, shots, seed, short_classes="refuse" if short_classes == "skip" else "take")
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
    if turned and weights is not None:
        start = features.texts(weights, variant.projection)
    elif weights is not None:
        assert features.projection is not None
        start = weights @ features.projection.T
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
            if job.settings.unlabelled:
                tuned = _transduced(data, train, None if zero_shot else draw.rows)
            else:
                tuned = tune(data, "zero_shot" if zero_shot else probe)
        except ValueError as error:
            limit = job.settings.limit
            hint = "" if limit is None else f"; a larger --limit than {limit} may have one"
            raise NotApplicableError(f"{error}{hint}") from error
    with job.timed("test"):
        score = HeldOut(test, features.test_labels).score(tuned, seed=job.seed, resamples=300)
        scores = torch.cat([tuned.scores(part).float() for part in torch.split(test, 4096)])
    training = {
        "validated": tuned.validation,
        "trained_parameters": 0 if zero_shot else tuned.trained_parameters(),
        "chosen": {"method": tuned.method, **jsonable(tuned.best_params)},
        "draw": "" if zero_shot else draw.sha256,
        "short_classes": draw.short,
    }
    backbone = variant.projection == "1p" and features.projection is not None
    saved = KeptHead(tuned.head, "backbone" if backbone else "projected") if job.settings.save_heads else None
    if saved is not None and not data.several:
        with job.timed("train"):
            fitted = _calibration(job, data, tuned, probe, shots=not zero_shot)
            record = calibrated(fitted, scores, features.test_labels, job.seed)
        training["calibration"] = record.training
        saved = replace(saved, calibration=record.card)
    return Fitted(score, scores, training, saved)


def _calibration(job: Job, data: TuningData, tuned: Tuned, probe: str, *, shots: bool) -> Calibration:
    """A temperature from labels that the head was not fitted on."""
    from vision_adapters.calibration import Calibration, calibrate

    if tuned.method == "zero_shot" or (job.settings.unlabelled and not shots):
        return calibrate(data, "zero_shot", tuned=tuned)
    if tuned.method == "anchored" and job.settings.unlabelled:  # fell back to the shots alone
        chosen = {name: value for name, value in tuned.best_params.items() if name not in ("unlabelled", "fallback")}
        return calibrate(data, tuned=replace(tuned, best_params=chosen))
    if job.settings.unlabelled:  # the shots are part of the mixture, and no fold of them can be left out cheaply
        return Calibration(1.0, 0, "none")
    return calibrate(data, probe, tuned=tuned)


def _transduced(data: TuningData, images: Tensor, shots: Tensor | None) -> Tuned:
    """A head of the class texts, the shots, and the other training images, whose labels nobody looks at."""
    from vision_adapters.tuning import Tuned, transduce, tune

    if data.several:
        raise NotApplicableError("images without labels are classified together where each has one class")
    if data.class_embeddings is None:
        raise NotApplicableError("images without labels need class texts, and this unit starts at random")
    others = torch.ones(len(images), dtype=torch.bool)
    if shots is not None:
        others[shots] = False
    chosen: dict[str, float | str] = {"unlabelled": float(others.sum())}
    if shots is not None:
        tuned = tune(data, unlabelled=images[others])
        return replace(tuned, best_params={**tuned.best_params, **chosen})
    done = transduce(images[others], data.class_embeddings, logit_scale=data.logit_scale)
    if done.fallback:
        chosen["fallback"] = done.fallback
    return Tuned(done.method, chosen, None, done.head, (), data.metric)


def jsonable(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Infinite values as text, for JSON has none."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in chosen.items()
    }

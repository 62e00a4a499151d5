"""One cell's numbers: a head on fixed features, chosen by validation, or the class texts alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gate_runner.icinw.cells import FULL, Cell, ShortClasses
from gate_runner.icinw.record import Record
from gate_runner.icinw.texts import ClassTexts, digest_of

if TYPE_CHECKING:
    from gate_runner.icinw.features import Features
    from vision_adapters.tuning import Tuned


class NotApplicableError(ValueError):
    """A cell that cannot be filled, for a reason that lies in the data or the encoder; the others can."""


@dataclass(frozen=True)
class Draw:
    """Which training images a cell sees.

    Args:
        rows: their indices, in the order drawn.
        sha256: of the indices.
        short: classes with fewer images than shots, of which all were taken.
    """

    rows: Tensor
    sha256: str
    short: int = 0


def draw_shots(labels: Tensor, shots: int, seed: int, short_classes: ShortClasses = "take") -> Draw:
    """ELEVATER's few-shot subset, or all training images.

    Args:
        labels: of the training images, in the order of the data set's list.
        shots: images per class, or -1 for all.
        seed: ELEVATER uses 0, 1 and 2.
        short_classes: ``"take"`` all images of a class that has fewer, as ELEVATER's toolkit does, or ``"skip"``.

    Raises:
        NotApplicableError: a class has fewer images, and such cells are skipped.
    """
    import hashlib

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


@dataclass(frozen=True)
class Filled:
    """A cell's record and the probabilities that it is about ``[m, k]``."""

    record: Record
    predictions: np.ndarray


def fill_frozen(
    cell: Cell,
    features: Features,
    texts: ClassTexts,
    metric: str,
    scale: float,
    probe: str,
    short_classes: ShortClasses = "take",
) -> Filled:
    """Zero-shot, or a head on fixed features.

    Args:
        cell: which.
        features: of its data set.
        texts: class texts; without them, the head starts from nothing.
        metric: ELEVATER's for the data set.
        scale: the encoder's factor on cosines.
        probe: a key of ``vision_adapters.tuning.METHODS``.
        short_classes: as for `draw_shots`.

    Returns:
        Value, interval, validation and probabilities.

    Raises:
        NotApplicableError: the draw, the labels or the method do not allow it.
    """
    from vision_adapters.tuning import HeldOut, tune, tuning_data

    start = time.perf_counter()
    language = cell.init == "language"
    shots = FULL if cell.shots == 0 else cell.shots
    draw = draw_shots(features.train_labels, shots, cell.seed, short_classes)
    # the published search takes the backbone's own columns: its batch normalisation depends on them
    turned = language and not (probe == "elevater" and cell.projection == "1p")
    train, test = features.seen(cell.projection, anchored=turned)
    weights = None
    if language:
        assert texts.weights is not None
        weights = features.texts(texts.weights, cell.projection) if turned else texts.weights @ _merged(features)
    method = "zero_shot" if cell.shots == 0 else probe
    held = HeldOut(test, features.test_labels)
    try:
        data = tuning_data(
            train[draw.rows],
            features.train_labels[draw.rows],
            classes=len(features.classes),
            class_embeddings=weights,
            logit_scale=scale,
            metric=metric,
            validation="folds" if cell.shots == 0 else "toolkit" if probe == "elevater" else "auto",
            seed=cell.seed,
        )
        tuned = tune(data, method)
    except ValueError as error:
        raise NotApplicableError(str(error)) from error
    score = held.score(tuned, seed=cell.seed, resamples=300)
    record = Record(
        cell,
        "ok",
        metric=metric,
        value=score.value,
        low=score.low,
        high=score.high,
        validation=tuned.validation,
        trained=0 if cell.shots == 0 else tuned.trained_parameters(),
        chosen={"method": tuned.method, **tuned.best_params},
        known=texts.known,
        draw="" if cell.shots == 0 else draw.sha256,
        short=draw.short,
        texts=digest_of(texts.weights if language else None),
        seconds=round(time.perf_counter() - start, 4),
    )
    return Filled(record, probabilities(tuned, test, scale))


def _merged(features: Features) -> Tensor:
    assert features.projection is not None
    return features.projection.T


def probabilities(tuned: Tuned, test: Tensor, scale: float) -> np.ndarray:
    """What a submission holds: softmax over classes, also where several are true, as the toolkit writes it."""
    del scale
    parts = [tuned.scores(part).float().softmax(1) for part in torch.split(test, 4096)]
    return torch.cat(parts).numpy().astype(np.float32)


def as_unit(x: Tensor) -> Tensor:
    """Rows of length 1."""
    return F.normalize(x, dim=1)


def jsonable(chosen: dict[str, Any]) -> dict[str, Any]:
    """Infinite values as text, for JSON has none."""
    return {
        name: str(value) if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in chosen.items()
    }

"""One unit of CoOp's protocol: a head on a few images of each class, or class texts alone, and the whole test split."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gate_data.coop import COOP, FewShotData
from gate_data.coop.protocols import SOURCE
from gate_data.ragged import Ragged
from gate_runner.errors import DataError, NotApplicableError
from gate_runner.tasks.coop.heads import Classes, Fitted, Seen, Shots, fit
from gate_runner.tasks.coop.points import CARRIED, PROJECTION, TOWERS, ZERO_SHOT, Point
from gate_runner.tasks.coop.towers import fit_towers
from gate_runner.tasks.coop.views import features_of
from gate_runner.tasks.features import Embedder
from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.predicted import best, confident
from gate_runner.tasks.scoring import outcome_of
from knowledge_prompts.class_words import ClassWords
from knowledge_prompts.encoding.distinct import indistinct_classes
from paired_scores.metrics import evaluate
from paired_scores.metrics.score import resamples_of

_LOG = logging.getLogger(__name__)
_RESAMPLES = 1000
Kept = TypeVar("Kept")


def run(job: Job) -> Outcome:
    """Accuracy among the tested classes; for base-to-new, of both halves and the harmonic mean of these two.

    Base images are classified among base classes, new images among new classes. Chance is one over the classes.
    """
    data, point = job.data, Point(**job.training["coop"])
    if not isinstance(data, FewShotData):
        raise DataError(f"{job.benchmark.id}: expected a set of CoOp's protocol, got {type(data).__name__}")
    fitted, training = _fitted(job, data, point)
    seen = fitted.seen or _seen(job, data, "test", before=point.method == PROJECTION)
    with job.timed("test"):
        if point.protocol == "base-to-new":
            return _halves(job, data, seen, fitted, training)
        trained = [column for column in data.columns if column >= 0]
        if trained:
            scores = fitted.trained(seen)[:, trained]
        else:
            texts = _texts(job, data.classes, job.training["templates"])
            assert texts is not None  # a method that carries over needs texts
            scores = fitted.others(seen, Classes(data.classes, texts))
        blind = torch.zeros(1, len(data.classes)).expand(len(data.test), -1)
        # cosines of texts have no probabilities; of heads, those of the predicted classes are kept
        outcome = outcome_of(job, scores, blind, training, best, cosines=True)
        confidence = None if point.method == ZERO_SHOT else confident(scores)
    return replace(outcome, confidence=confidence)


def harmonic(outcomes: Any, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """Return the harmonic mean of the accuracies on base and on new images, of which each counts by its weight."""
    right, new = outcomes.columns["right"], outcomes.columns["new"].astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        base_share = (weights @ (right * (1 - new))) / (weights @ (1 - new))
        new_share = (weights @ (right * new)) / (weights @ new)
        both = base_share + new_share
        shares: np.ndarray = np.where(both == 0, 0.0, 2 * base_share * new_share / both)
    return shares


def _harmonic_of(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second else 0.0


def _fitted(job: Job, data: FewShotData, point: Point) -> tuple[Fitted, dict[str, Any]]:
    """Return a fitted method, and what a result keeps of how it was made."""
    source = COOP[SOURCE].template if point.protocol == "cross" else None
    texts = _texts(job, data.trained_classes, job.training["templates"] if source is None else (source,))
    scale, classes = job.encoder.logit_scale or 100.0, len(data.trained_classes)
    training: dict[str, Any] = {"coop": point._asdict(), "steps": 0, "templates": list(job.training["templates"])}
    if point.shots == 0:
        fitted = fit(ZERO_SHOT, Shots(None, None, texts, scale, classes, names=data.trained_classes))
        assert texts is not None  # else it could not be fitted
        if unclear := indistinct_classes(texts.numpy(), data.trained_classes):
            _LOG.warning("%s: %s", job.benchmark.id, unclear)
            training["told_apart"] = unclear
        return fitted, training | fitted.about
    absent = sorted(set(range(classes)) - set(data.train.targets.tolist()))
    if absent and point.method not in CARRIED:
        raise NotApplicableError(
            f"{len(absent)} of {classes} classes have no training image, such as {data.trained_classes[absent[0]]!r}: "
            f"method {point.method} needs one of each; {', '.join(CARRIED)} do without"
        )
    validation = None
    if job.settings.choose_on == "validation":
        if not len(data.validation):
            raise NotApplicableError("choose_on=validation: the set has no list of validation images")
        validation = _seen(job, data, "validation").features, data.validation.targets
    if point.method in TOWERS:
        with job.timed("train"):
            fitted = fit_towers(point.method, job, data, max(1, point.shots), point.protocol)
        drawn = {"views": 1, "draw": data.drawn_digest(), "short_classes": len(data.drawn.short)}
        return fitted, training | fitted.about | drawn
    projection = job.encoder.projection
    shots = Shots(
        _seen(job, data, "train", before=point.method == PROJECTION),
        data.train.targets,
        texts,
        scale,
        classes,
        number=point.shots,
        projection=None if projection is None else projection.detach().float().cpu(),
        validation=validation,
        seed=job.seed,
        names=data.trained_classes,
        contexts=job.encoder.contexts,
        device=job.encoder.device,
    )
    with job.timed("train"):
        fitted = fit(point.method, shots)
    drawn = {"views": job.settings.views, "draw": data.drawn_digest(), "short_classes": len(data.drawn.short)}
    return fitted, training | fitted.about | drawn


def _halves(job: Job, data: FewShotData, seen: Seen, fitted: Fitted, training: dict[str, Any]) -> Outcome:
    """Score base and new images, each among the classes of their half."""
    targets, half = data.test.targets, data.base
    new = targets >= half
    if not bool(new.any()) or bool(new.all()):
        raise DataError(f"{job.benchmark.id}: the test images are all of one half of the classes; raise --limit")
    texts = _texts(job, data.classes[half:], job.training["templates"])
    if texts is None:
        raise NotApplicableError(f"encoder {job.encoder.spec!r} has no text side, so that new classes have no scores")
    others = Classes(data.classes[half:], texts)
    scores = {"base": fitted.trained(seen.where(~new)), "new": fitted.others(seen.where(new), others)}
    values: dict[str, Score] = {}
    right, predicted = np.empty(len(targets)), np.empty(len(targets), dtype=np.int32)
    for name, rows, first in (("base", ~new, 0), ("new", new, half)):
        estimate = evaluate("acc@1", scores[name], targets[rows] - first, seed=job.seed)
        chance = 1 / scores[name].shape[1]
        values[name] = Score(name, "higher", estimate.value, estimate.low, estimate.high, chance)
        right[rows.numpy()] = estimate.outcomes
        predicted[rows.numpy()] = scores[name].argmax(1).numpy() + first
    samples = Ragged({"right": right, "new": new.numpy()}, np.ones(len(targets), dtype=np.int64))
    drawn = resamples_of(len(targets), _RESAMPLES, np.random.default_rng(job.seed))
    low, high = np.nanquantile(np.concatenate([harmonic(samples, part) for part in drawn]), [0.025, 0.975])
    chances = values["base"].chance, values["new"].chance
    blind = _harmonic_of(*chances)
    value = float(harmonic(samples, np.ones((1, len(targets))))[0])
    if value in (0.0, 1.0):  # no resample differs where all images of a half are wrong, or all of both right
        low, high = (_harmonic_of(*(getattr(values[part], end) for part in ("base", "new"))) for end in ("low", "high"))
    values["harmonic"] = Score("harmonic", "higher", value, float(low), float(high), blind)
    training = {**training, "new_classes_by": "what was learned" if fitted.carries else "texts alone"}
    return Outcome(tuple(values[name] for name in job.benchmark.metrics), samples, training, predicted)


def _seen(job: Job, data: FewShotData, part: str, *, before: bool = False) -> Seen:
    """Return features of a split, kept for the other methods of the same draw; training images may have many views."""
    views, split = job.settings.views if part == "train" else 1, getattr(data, part)
    features = _kept(job, f"{part} features", lambda: features_of(job, split, "pooled", part, views))
    if not before or job.encoder.backbone is None or job.encoder.projection is None:
        return Seen(features)
    return Seen(features, _kept(job, f"{part} before", lambda: features_of(job, split, "backbone", part, views)))


def _texts(job: Job, classes: Sequence[str], templates: Sequence[str]) -> Float[Tensor, "k d"] | None:
    """Return a unit row for each class by the set's template, or None for an encoder without texts."""
    from knowledge_prompts import class_embeddings

    if job.encoder.text is None:
        return None
    embed = _kept(job, "embed", lambda: Embedder(job.encoder.encode_text))
    with job.timed("encode"):
        built = ClassWords(templates=tuple(templates)).built(classes)
        return torch.from_numpy(class_embeddings(embed, built).weights).float()


def _kept(job: Job, key: str, make: Callable[[], Kept]) -> Kept:
    if key not in job.shared:
        job.shared[key] = make()
    stored: Kept = job.shared[key]
    return stored

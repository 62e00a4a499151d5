"""One unit of a sweep: zero-shot, a head on few images or all, or the whole encoder, by ELEVATER's protocol."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from gate_runner.errors import NotApplicableError
from gate_runner.settings.axes import PROBES_WITHOUT_TEXTS, Variant
from gate_runner.tasks.elevater.heads import Features, features_of, fit_frozen, projection_of
from gate_runner.tasks.elevater.searched import fit_searched
from gate_runner.tasks.elevater.texts import ClassTexts, class_texts
from gate_runner.tasks.elevater.whole import fit_whole
from gate_runner.tasks.features import Embedder, cut_texts
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, confident, distributions, likely
from gate_runner.tasks.scoring import with_chance
from knowledge_prompts.class_words import plainly_read, words_in
from knowledge_prompts.encoding.distinct import indistinct_classes

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from gate_data.data import Data

_LOG = logging.getLogger(__name__)
Kept = TypeVar("Kept")


def run(job: Job) -> Outcome:
    """Score one variant. Chance: the training images' frequencies of classes, whatever the image.

    What depends on the data alone is kept in ``job.shared`` for the other variants; variants of one draw whose class
    texts are equal share their numbers.
    """
    values = dict(job.benchmark.training["variant"])
    candidates = values.pop("candidates")
    variant = Variant(**values)
    if variant.knowledge == "auto":
        return _chosen(job, variant, candidates)
    return _outcome(job, variant)


def _chosen(job: Job, variant: Variant, candidates: list[str]) -> Outcome:
    """The variant whose knowledge validates best; the first among equals, so that knowledge must be better than none.

    Source:
        ELEVATER's supplement, section H: train with each source, compare the validation accuracy, test the best. Where
        a method validates nothing (one image per class), texts without knowledge are kept.
    """
    if variant.shots == 0:
        raise NotApplicableError("zero-shot has no labels to choose knowledge by")
    outcomes: dict[str, Outcome] = {}
    for name in candidates:
        try:
            outcomes[name] = _outcome(job, variant._replace(knowledge=name))
        except NotApplicableError as error:
            if name == "none":
                raise NotApplicableError(f"without knowledge: {error}") from error
    knowledge = choose({name: outcome.training["validated"] for name, outcome in outcomes.items()})
    chosen: dict[str, Any] = {"knowledge": knowledge}
    if all(outcome.training["validated"] is None for outcome in outcomes.values()):
        chosen["reason"] = "nothing could be validated"
    best_outcome = outcomes[knowledge]
    training = {**best_outcome.training, "variant": variant._asdict(), "chosen": chosen, "shared": True}
    return replace(best_outcome, training=training)


def choose(validated: dict[str, float | None]) -> str:
    """The knowledge that validates best; ``none`` is the first of equals, and taken where it could not be validated."""
    scores = {name: value for name, value in validated.items() if value is not None}
    return max(scores, key=lambda name: scores[name]) if "none" in scores else "none"


def _outcome(job: Job, variant: Variant) -> Outcome:
    _check(job, variant)
    features = _kept(job, "features", lambda: features_of(job))
    texts = _texts(job, variant.knowledge) if variant.init == "language" else ClassTexts(None)
    if variant.init == "language" and texts.weights is None:
        raise NotApplicableError(texts.reason)
    draw = (variant.shots, variant.tune, job.seed)
    if job.shared.get("draw") != draw:
        job.shared["draw"], job.shared["outcomes"] = draw, {}
    equal: dict[tuple[str, str, str], Outcome] = job.shared["outcomes"]
    key = (variant.init, variant.projection, _digest(texts.weights))
    shared = key in equal
    if not shared:
        equal[key] = _fitted(job, variant, features, texts)
    training = {**equal[key].training, "variant": variant._asdict(), "known": texts.known, "shared": shared}
    training |= cut_texts(job, texts.different) | ({"unknown": list(texts.unknown)} if texts.unknown else {})
    if variant.shots == 0 and texts.weights is not None:
        unclear = indistinct_classes(texts.weights.numpy(), features.classes)
        if unclear:
            _LOG.warning("%s: %s", job.benchmark.id, unclear)
            training |= {"told_apart": unclear}
    if words_in(job.training) is not None:
        training |= {"prompts_encoded": texts.texts, "named": list(texts.named[:8])}
    return replace(equal[key], training=training)


def _fitted(job: Job, variant: Variant, features: Features, texts: ClassTexts) -> Outcome:
    metric, weights = job.benchmark.metrics[0], texts.weights
    if variant.tune == "full" and variant.shots != 0:
        fit = fit_searched if job.settings.probe == "elevater" else fit_whole
        fitted = fit(job, variant, features, weights, metric)
    else:
        probe = job.settings.probe
        alone = probe if weights is not None or probe in PROBES_WITHOUT_TEXTS else PROBES_WITHOUT_TEXTS[0]
        fitted = fit_frozen(job, variant, features, weights, metric, alone)
    score = fitted.score
    several = features.test_labels.ndim == 2
    return Outcome(
        (with_chance(score, _kept(job, "chance", lambda: _chance(job, features))),),
        score.outcomes,
        {**fitted.training, "texts": _digest(weights)},
        likely(fitted.scores.sigmoid()) if several else best(fitted.scores),
        # softmax over classes also where several are true, as the toolkit writes it
        fitted.scores.softmax(1).numpy().astype("float32") if job.settings.keep_predictions else None,
        None if fitted.head is None else replace(fitted.head, classes=features.classes, prompts=texts.prompts),
        None if several else confident(fitted.scores, fitted.training),
        None if several else distributions(fitted.scores, fitted.training),
    )


def _chance(job: Job, features: Features) -> float:
    """What the training images' frequencies of classes score."""
    from paired_scores.metrics import evaluate

    labels, truth = features.train_labels, features.test_labels
    frequencies = (
        labels.float().mean(0) if labels.ndim == 2 else torch.bincount(labels, minlength=len(features.classes))
    )
    blind = frequencies.float().expand(len(truth), -1)
    return evaluate(job.benchmark.metrics[0], blind, truth, resamples=0).value


def _texts(job: Job, knowledge: str) -> ClassTexts:
    embed = _kept(job, "embed", lambda: Embedder(job.encoder.encode_text))
    name = job.benchmark.id.partition("@")[0]

    def made() -> ClassTexts:
        words, classes = words_in(job.training), job.data.classes
        texts = class_texts(name, classes, knowledge, embed, job.settings.knowledge_folder, words)
        if texts.known and texts.unknown:
            source = "+".join(words.knowledge) if words is not None else knowledge
            _LOG.warning("%s: %s", name, plainly_read(source, texts.unknown, len(classes)))
        return texts

    with job.timed("encode"):
        return _kept(job, f"texts {knowledge}", made)


def _kept(job: Job, key: str, make: Callable[[], Kept]) -> Kept:
    if key not in job.shared:
        job.shared[key] = make()
    stored: Kept = job.shared[key]
    return stored


def _check(job: Job, variant: Variant) -> None:
    """Refuse what the encoder cannot do."""
    spec, texts, projected = job.encoder.spec, job.encoder.text is not None, projection_of(job.encoder) is not None
    if variant.init == "language" and not texts:
        raise NotApplicableError(f"encoder {spec!r} has no text side")
    if variant.projection == "1p" and variant.init == "language" and not projected:
        raise NotApplicableError(f"encoder {spec!r} shows no projection to merge")
    if variant.projection == "1p" and variant.init == "random" and not projected and texts:
        raise NotApplicableError(f"encoder {spec!r} shows no features before its projection")
    if job.settings.save_heads and variant.projection == "1p" and variant.init == "language":
        raise NotApplicableError("a head on 1p that starts at texts takes no features of the encoder's own: 2p is kept")


def _digest(weights: Tensor | None) -> str:
    """What tells class texts apart: two kinds of knowledge that say the same share their numbers."""
    return "none" if weights is None else hashlib.sha256(weights.contiguous().numpy().tobytes()).hexdigest()[:16]


def said(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The predicted class of an image, or its labels."""
    from gate_runner.tasks.predicted import a_class, labels

    return (labels if predicted.ndim else a_class)(data, predicted, index)

"""Zero-shot classification: class names in templates, embedded by the encoder's own text side."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gate_runner.tasks.features import Embedder, cut_texts, pooled
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, with_classes
from gate_runner.tasks.predicted import details as class_details
from gate_runner.tasks.scoring import outcome_of
from gate_runner.tasks.task import Details
from knowledge_prompts import class_embeddings
from knowledge_prompts.class_words import ClassWords, words_in
from knowledge_prompts.encoding.distinct import indistinct_classes
from paired_scores.metrics import METRICS, evaluate
from vision_adapters.rows.counting import log_frequencies

_LOG = logging.getLogger(__name__)
FEWEST_TEMPLATES = 3
"""From which on an interval over templates is told."""
MOST_IMAGES = 10_000
"""Of the test split, that the single templates are scored on."""


def run(job: Job) -> Outcome:
    """Cosine of each image with each class; nothing is trained. Chance: the classes by how frequent they are."""
    data = job.data
    wording = job.training
    words = words_in(wording) or ClassWords()
    prompts = words.built(data.classes)
    encode = Embedder(job.encoder.encode_text)
    with job.timed("encode"):
        embeddings = class_embeddings(encode, prompts)
    weights = torch.from_numpy(embeddings.weights).float()
    if unclear := indistinct_classes(embeddings.weights, data.classes):
        _LOG.warning("%s: %s", job.benchmark.id, unclear)
    features = F.normalize(pooled(job, data.test, "test")[:], dim=-1)
    about = {name: wording[name] for name in ("prompts", "knowledge") if wording.get(name)}
    training = {"steps": 0, "templates": list(words.templates), "prompts_encoded": embeddings.encoded, **about}
    training |= {"told_apart": unclear} if unclear else {}
    training |= cut_texts(job, prompts.unique_texts())
    with job.timed("test"):
        blind = log_frequencies(data.test.targets, len(data.classes)).expand(len(data.test), -1)
        outcome = outcome_of(job, features @ weights.T, blind, training, best, cosines=True)
        spread = _over_templates(job, words, encode, features)
    if spread:
        of_images = [outcome.scores[0].low, outcome.scores[0].high]
        outcome = replace(outcome, training={**training, "over_templates": {**spread, "over_images": of_images}})
    return with_classes(job, outcome)


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """Figures of each class, and the interval over templates beside that over images."""
    shown = class_details(training, encoder)
    spread = training.get("over_templates")
    if not spread:
        return shown
    low, high = spread["over_images"]
    scores = list(spread["each"].values())
    words = (
        f"{spread['metric']} by all {len(scores)} templates together: {low:.3f} to {high:.3f} over other images like "
        f"these. By one template like these: {spread['mean']:.3f} on average ({spread['low']:.3f} to "
        f"{spread['high']:.3f} over other templates), from {min(scores):.3f} to {max(scores):.3f} for single ones."
    )
    return shown._replace(notes=[words, *shown.notes])


def _over_templates(
    job: Job, words: ClassWords, encode: Callable[[Sequence[str]], np.ndarray], features: Tensor
) -> dict[str, Any]:
    """The headline score by each template alone, and the 95 % interval of their mean; empty where they are few."""
    prompts = words.by_template(job.data.classes)
    if len(prompts) < FEWEST_TEMPLATES:
        return {}
    metric, step = job.benchmark.metrics[0], -(-len(features) // MOST_IMAGES)
    images, targets = features[::step], job.data.test.targets[:][::step]
    by_template = {}
    for template, texts in prompts.items():
        weights = torch.from_numpy(class_embeddings(encode, texts).weights).float()
        by_template[template] = evaluate(metric, images @ weights.T, targets, resamples=0).value
    from scipy.special import stdtrit  # an import of 0.2 s, which a run without templates has no use for

    scores = np.array(list(by_template.values()))
    mean, half = scores.mean(), stdtrit(len(scores) - 1, 0.975) * scores.std(ddof=1) / len(scores) ** 0.5
    least, most = METRICS[metric].within
    return {
        "metric": metric,
        "each": by_template,
        "mean": float(mean),
        "low": float(max(least, mean - half)),
        "high": float(min(most, mean + half)),
    }

"""Zero-shot classification: class names in templates, embedded by the encoder's own text side."""

from __future__ import annotations

import logging

import torch
import torch.nn.functional as F

from gate_runner.class_words import ClassWords, told_apart, words_in
from gate_runner.tasks.features import pooled
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, with_classes
from gate_runner.tasks.training import score
from knowledge_prompts import class_embeddings
from vision_adapters.rows.counting import log_frequencies

_LOG = logging.getLogger(__name__)


def run(job: Job) -> Outcome:
    """Cosine of each image with each class; nothing is trained. Chance: one class for every image."""
    data = job.data
    wording = job.training
    words = words_in(wording) or ClassWords()
    prompts = words.built(data.classes)
    with job.timed("encode"):
        embeddings = class_embeddings(lambda texts: job.encoder.encode_text(texts).cpu().numpy(), prompts)
    weights = torch.from_numpy(embeddings.weights).float()
    if unclear := told_apart(weights, data.classes):
        _LOG.warning("%s: %s", job.benchmark.id, unclear)
    features = F.normalize(pooled(job, data.test, "test")[:], dim=-1)
    with job.timed("test"):
        blind = log_frequencies(data.test.targets[:0].new_zeros(1), len(data.classes)).expand(len(data.test), -1)
        similar = features @ weights.T
        scores = score(job, similar, data.test.targets, blind)
    about = {name: wording[name] for name in ("prompts", "knowledge") if wording.get(name)}
    training = {"steps": 0, "templates": list(words.templates), "prompts_encoded": embeddings.encoded, **about}
    training |= {"told_apart": unclear} if unclear else {}
    outcome = Outcome(tuple(scored for scored, _ in scores), scores[0][1].outcomes, training, best(similar))
    return with_classes(job, outcome)

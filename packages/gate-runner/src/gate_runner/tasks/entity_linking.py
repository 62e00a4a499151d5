"""Entity linking: an image and a question to one of all entities, by vectors, by the question's words, and by both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gate_data.data import Split
from gate_runner.errors import DataError
from gate_runner.tasks.features import different_texts, embedded, pooled
from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.task import Details
from oven_retrieval import KnowledgeBase, build_linker
from oven_retrieval.evaluation import Estimate, Prediction, Reference, accuracy, harmonic_mean, outcomes, split_scores
from oven_retrieval.models import Clip2Clip, Weights, grid_search
from oven_retrieval.vectors import rerank

_SEARCHED = 1000
"""Training questions that the weights are chosen on, at most."""
_CANDIDATES = 1000
"""Entities that the linker finds for a question, at most."""


def run(job: Job) -> Outcome:
    """Accuracy over all test questions, of seen and of unseen entities, and the harmonic mean of these two.

    An entity has the features of its name and of its image, a black one where there is none. The four weights are
    chosen on training questions, which only seen entities have. Chance: an entity drawn from those that share the
    question. ``training`` has what `clip` alone answers rightly, the `linker` by the question's words, and `both`.
    """
    data = job.data
    trained = torch.isin(data.test.targets, data.train.targets).numpy()
    if trained.all() or not trained.any():
        raise DataError(
            f"{job.benchmark.id}: expected test questions of seen and of unseen entities, got {int(trained.sum())} and "
            f"{int((~trained).sum())}; raise --limit"
        )
    template = str(job.training["template"])
    names = F.normalize(embedded(job, [template.format(name) for name in data.classes]), dim=-1)
    model = _knowledge_base(job, names)
    train, test = (_Asked.of(job, split, name) for split, name in ((data.train, "train"), (data.test, "test")))
    with job.timed("train"):
        chosen = np.linspace(0, len(train.truth) - 1, min(_SEARCHED, len(train.truth))).astype(int)
        weights = grid_search(model, train.image[chosen], train.text[chosen], train.truth[chosen]).weights
    with job.timed("test"):
        predicted_rows = model.search(test.image, test.text, weights, 1).rows[:, 0]
        plain = model.search(test.image, test.text, Weights(), 1).rows[:, 0]
        linked = build_linker(KnowledgeBase.from_names(data.classes)).link(data.test.texts or (), _CANDIDATES)
        similarity = model.scores(test.image, test.text, weights)
        both = rerank(linked, lambda query, rows: similarity[query, rows], 1).rows[:, 0]
        both = np.where(both < 0, predicted_rows, both)
        scores = _scores(job, predicted_rows, trained)
    shares = {"clip": plain, "vectors": predicted_rows, "linker": linked.rows[:, 0], "both": both}
    training = {"steps": 0, "weights": [float(w) for w in weights]} | {
        name: float(np.mean(rows == test.truth)) for name, rows in shares.items()
    }
    return Outcome(scores, (predicted_rows == test.truth).astype(float), training, predicted_rows.astype(np.int32))


def ways(training: Mapping[str, Any], encoder: str) -> Details:
    """What answers how many questions rightly, beside the scores, which are of the vectors."""
    names = {
        "clip": "CLIP: image and name",
        "vectors": "vectors: four cosines (CLIP2CLIP)",
        "linker": "linker: the question's words",
        "both": "both: vectors among what the linker finds",
    }
    rows = [[label, f"{training[name]:.3f}"] for name, label in names.items() if name in training]
    return Details([], ["Way from a question to an entity", "accuracy"], rows)


class _Asked:
    """Features of a split's questions, and the right entities."""

    def __init__(self, image: Float[np.ndarray, "q d"], text: Float[np.ndarray, "q d"], truth: np.ndarray) -> None:
        self.image, self.text, self.truth = image, text, truth

    @classmethod
    def of(cls, job: Job, split: Split, name: str) -> _Asked:
        """Encode the images, and each different text once."""
        different, rows = different_texts(split)
        return cls(pooled(job, split, name)[:].numpy(), embedded(job, different)[rows].numpy(), split.targets.numpy())


def _knowledge_base(job: Job, names: Float[Tensor, "n d"]) -> Clip2Clip:
    """The entities: their names, and the images in the validation split."""
    pictures = job.data.validation
    has_image = np.zeros(len(names), dtype=bool)
    has_image[pictures.targets.numpy()] = True
    order = torch.argsort(pictures.targets)
    image = pooled(job, pictures, "pictures")[:][order] if len(pictures) else names[:0]
    with job.timed("encode"):
        black = job.encoder.encode_image(torch.zeros(1, *job.encoder.shape, dtype=torch.uint8)).cpu()[0]
    return Clip2Clip(names.numpy(), image.numpy(), has_image, black.numpy())


def _scores(job: Job, predicted_rows: np.ndarray, trained: np.ndarray) -> tuple[Score, ...]:
    """Return scores in order of the benchmark's metrics; questions of one entity do not count as independent."""
    test = job.data.test
    truth = test.targets.numpy()
    references = [
        Reference(str(i), str(entity), "test_seen" if is_seen else "test_unseen")
        for i, (entity, is_seen) in enumerate(zip(truth.tolist(), trained.tolist(), strict=True))
    ]
    answers = [Prediction(str(i), str(entity)) for i, entity in enumerate(predicted_rows.tolist())]
    split = split_scores(outcomes(references, answers), seed=job.seed)
    blind = _blind(job)
    values: dict[str, tuple[Estimate, float]] = {
        "accuracy": (
            accuracy(predicted_rows == truth, [str(entity) for entity in truth.tolist()]),
            float(blind.mean()),
        ),
        "seen": (split.seen, float(blind[trained].mean())),
        "unseen": (split.unseen, float(blind[~trained].mean())),
        "harmonic": (split.harmonic, harmonic_mean(float(blind[trained].mean()), float(blind[~trained].mean()))),
    }
    scores = []
    for name in job.benchmark.metrics:
        (value, low, high), chance = values[name]
        scores.append(Score(name, "higher", value / 100, low / 100, high / 100, chance))
    return tuple(scores)


def _blind(job: Job) -> Float[np.ndarray, " q"]:
    """For each question, one over the number of entities that are asked for with its words."""
    test = job.data.test
    sharing: dict[str, set[int]] = {}
    for question, entity in zip(test.texts or (), test.targets.tolist(), strict=True):
        sharing.setdefault(question, set()).add(entity)
    return np.array([1 / len(sharing[question]) for question in test.texts or ()])

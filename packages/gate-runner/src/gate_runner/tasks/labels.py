"""Several labels of one image by one linear layer: questions with classes of their own, or findings."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, heads_of, likely
from gate_runner.tasks.scoring import hits
from gate_runner.tasks.training import Measured, train_and_test
from paired_scores.metrics import METRICS
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import binary_cross_entropy, cross_entropy

_LOG = logging.getLogger(__name__)


def run_heads(job: Job) -> Outcome:
    """``acc@1`` is the mean over heads; of each head its own acc@1 and acc@5. Chance: the most frequent classes."""
    heads = heads_of(job.data.classes)
    sizes = [len(names) for names in heads.values()]
    backbone = make_backbone(job, "pooled")
    learnt = job.data.train.targets

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        parts = zip(torch.split(logits, sizes, dim=1), targets.unbind(dim=1), strict=True)
        return torch.stack([cross_entropy(logits_of, truth) for logits_of, truth in parts]).mean()

    def measure(logits: Tensor, split: Split) -> dict[str, np.ndarray]:
        outcomes = {
            f"{name}_acc@{k}": hits(logits_of, truth, k)
            for name, logits_of, truth in zip(
                heads, torch.split(logits, sizes, dim=1), split.targets.unbind(dim=1), strict=True
            )
            for k in (1, 5)
        }
        outcomes["acc@1"] = np.mean([outcomes[f"{name}_acc@1"] for name in heads], axis=0)
        return outcomes

    def answer(logits: Tensor) -> np.ndarray:
        return np.stack([best(logits_of) for logits_of in torch.split(logits, sizes, dim=1)], axis=1)

    def of_head(index: int) -> Loss:
        return lambda logits, targets: cross_entropy(torch.split(logits, sizes, dim=1)[index], targets[:, index])

    terms = {f"{name}_loss": of_head(index) for index, name in enumerate(heads)}
    often = [torch.bincount(column, minlength=size) for column, size in zip(learnt.unbind(dim=1), sizes, strict=True)]
    blind = torch.cat(often).double().expand(len(job.data.test), -1)
    chance = {name: float(values.mean()) for name, values in measure(blind, job.data.test).items()}
    head = seeded(lambda: LinearHead(backbone.width, sum(sizes)), job.seed)
    return train_and_test(job, backbone, head, loss, Measured(measure, chance), answer=answer, terms=terms)


def run_findings(job: Job) -> Outcome:
    """Area under the ROC curve, average precision and Brier score, macro over classes, and of each class.

    Chance: each class as often as in training, whatever the image.
    """
    backbone = make_backbone(job, "pooled")
    labels = job.data.train.targets
    blind = labels.mean(dim=0).expand(len(job.data.test), -1)
    head = seeded(lambda: LinearHead(backbone.width, labels.shape[1]), job.seed)
    outcome = train_and_test(job, backbone, head, binary_cross_entropy, blind, read=torch.sigmoid, answer=likely)
    by_class = _per_class(job, np.asarray(outcome.samples))
    bare = [name for name, row in by_class.items() if row["roc_auc"] is None]
    if bare:
        _LOG.warning(
            "%s: labels without a positive, or without a negative, among the %d tested samples are left out of the "
            "metrics: %s", job.benchmark.id, len(job.data.test), ", ".join(bare)
        )  # fmt: skip
    return replace(outcome, training={**outcome.training, "per_class": by_class, "left_out": bare})


def _per_class(job: Job, ranked: np.ndarray) -> dict[str, dict[str, float | None]]:
    """The three metrics of each class, from the scores and truths ``[n, 2, k]`` that the headline keeps."""
    weights = np.ones((1, len(ranked)))
    by_class: dict[str, dict[str, float | None]] = {}
    for column, name in enumerate(job.data.classes):
        own = ranked[:, :, column : column + 1]
        values = {name: METRICS[name].aggregate(own, weights)[0] for name in ("roc_auc", "average_precision")}
        ranks = {metric: None if np.isnan(value) else float(value) for metric, value in values.items()}
        by_class[name] = {**ranks, "brier": float(np.square(own[:, 0] - own[:, 1]).mean())}
    return by_class

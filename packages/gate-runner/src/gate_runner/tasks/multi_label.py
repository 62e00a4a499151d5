"""Several findings in one image: a linear head, a sigmoid for each."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import torch

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import likely
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import binary_cross_entropy
from vision_adapters.metrics import METRICS

_LOG = logging.getLogger(__name__)


def run(job: Job) -> Outcome:
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

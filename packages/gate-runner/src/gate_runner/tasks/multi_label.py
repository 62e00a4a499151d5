"""Several findings in one image: a linear head, a sigmoid for each."""

from __future__ import annotations

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


def run(job: Job) -> Outcome:
    """Area under the ROC curve, average precision and Brier score, macro over classes, and of each class.

    Chance: each class as often as in training, whatever the image.
    """
    backbone = make_backbone(job, "pooled")
    labels = job.data.train.targets
    blind = labels.mean(dim=0).expand(len(job.data.test), -1)
    head = seeded(lambda: LinearHead(backbone.width, labels.shape[1]), job.seed)
    outcome = train_and_test(job, backbone, head, binary_cross_entropy, blind, read=torch.sigmoid, answer=likely)
    return replace(outcome, training={**outcome.training, "per_class": _per_class(job, np.asarray(outcome.samples))})


def _per_class(job: Job, ranked: np.ndarray) -> dict[str, dict[str, float]]:
    """The three metrics of each class, from the scores and truths ``[n, 2, k]`` that the headline keeps."""
    ones = np.ones((1, len(ranked)))
    found = {}
    for place, name in enumerate(job.data.classes):
        own = ranked[:, :, place : place + 1]
        ranks = {metric: float(METRICS[metric].aggregate(own, ones)[0]) for metric in ("roc_auc", "average_precision")}
        found[name] = {**ranks, "brier": float(np.square(own[:, 0] - own[:, 1]).mean())}
    return found

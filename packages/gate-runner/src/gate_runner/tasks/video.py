"""Clips: a transformer over the pooled features of the frames, for numbers and for actions."""

from __future__ import annotations

from functools import partial

import torch

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, values, with_classes
from gate_runner.tasks.regression import Standardised
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import TemporalHead, seeded
from vision_adapters.losses import cross_entropy, l1
from vision_adapters.rows.counting import log_frequencies

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """Chance: the median of the training targets, which no other constant beats in absolute error."""
    data = job.data
    backbone = make_backbone(job, "pooled")
    blind = data.train.targets.median().expand(len(data.test))
    frames = data.train.images.shape[1]
    head = seeded(partial(TemporalHead, backbone.width, 1, frames=frames, width=_WIDTH, depth=_DEPTH), job.seed)
    return train_and_test(
        job, backbone, Standardised(head, data.train.targets.mean(), torch.ones(())), l1, blind, answer=values
    )


def run_classification(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the clip."""
    backbone = make_backbone(job, "pooled")
    classes, frames = len(job.data.classes), job.data.train.images.shape[1]
    blind = log_frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
    head = seeded(partial(TemporalHead, backbone.width, classes, frames=frames, width=_WIDTH, depth=_DEPTH), job.seed)
    return with_classes(job, train_and_test(job, backbone, head, cross_entropy, blind, answer=best))

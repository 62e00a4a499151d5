"""Clips: a transformer over the pooled features of the frames, for numbers and for actions."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, values, with_classes
from gate_runner.tasks.recipes import head_size
from gate_runner.tasks.scoring import most_frequent
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import TemporalHead, seeded
from vision_adapters.heads.linear import Standardised
from vision_adapters.losses import cross_entropy, l1
from vision_adapters.training import Backbone


def _head(job: Job, backbone: Backbone, outputs: int) -> TemporalHead:
    frames = job.data.train.images.shape[1]
    how = head_size(job.settings, job.benchmark.task)._asdict()
    form = partial(TemporalHead, backbone.width, outputs, frames=frames, **how)
    return seeded(form, job.seed)


def run(job: Job) -> Outcome:
    """Chance: the median of the training targets, which no other constant beats in absolute error."""
    backbone, targets = make_backbone(job, "pooled"), job.data.train.targets
    head = Standardised(_head(job, backbone, 1), targets.mean(), torch.ones(()))
    blind = targets.median().expand(len(job.data.test))
    return train_and_test(job, backbone, head, l1, blind, answer=values, terms={"mse_loss": F.mse_loss})


def run_classification(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the clip."""
    backbone = make_backbone(job, "pooled")
    head = _head(job, backbone, len(job.data.classes))
    return with_classes(job, train_and_test(job, backbone, head, cross_entropy, most_frequent(job), answer=best))

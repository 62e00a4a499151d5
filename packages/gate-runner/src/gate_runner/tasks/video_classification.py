"""Actions in clips: a transformer over the pooled features of the frames."""

from __future__ import annotations

from functools import partial

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.classes import with_classes
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.targets import frequencies
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import TemporalHead, seeded
from vision_adapters.losses import cross_entropy

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the clip."""
    backbone = make_backbone(job, "pooled")
    classes, frames = len(job.data.classes), job.data.train.images.shape[1]
    blind = frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
    head = seeded(partial(TemporalHead, backbone.width, classes, frames=frames, width=_WIDTH, depth=_DEPTH), job.seed)
    return with_classes(job, train_and_test(job, backbone, head, cross_entropy, blind, answer=best))

"""Image classification: a linear head on pooled features, solved where the encoder is frozen."""

from __future__ import annotations

from torch import nn

from gate_runner.tasks.backbone import Backbone, make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.probing import solvable, solve_and_test
from gate_runner.tasks.recipes import starts_at_probe
from gate_runner.tasks.started import solved_head, starts_at_texts, text_head
from gate_runner.tasks.targets import frequencies
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image."""
    classes = len(job.data.classes)
    blind = frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
    if job.settings.tune == "frozen" and solvable(job):
        return solve_and_test(job, blind)
    backbone = make_backbone(job, "pooled")
    return train_and_test(job, backbone, _head(job, backbone, classes), cross_entropy, blind, answer=best)


def _head(job: Job, backbone: Backbone, classes: int) -> nn.Module:
    """At the class prompts, at the probe of the frozen features, or at random, as the settings have it."""
    if starts_at_texts(job):
        return text_head(job, backbone.scale)
    if job.settings.tune != "frozen" and starts_at_probe(job.settings) and solvable(job):
        return solved_head(job, backbone.scale)
    return seeded(lambda: LinearHead(backbone.width, classes), job.seed)

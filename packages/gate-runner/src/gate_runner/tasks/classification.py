"""Image classification: a linear head on pooled features, solved where the encoder is frozen."""

from __future__ import annotations

from dataclasses import replace

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.probing import solvable, solve_and_test
from gate_runner.tasks.started import solved_probe, starts_at_solved, starts_at_texts, text_head
from gate_runner.tasks.targets import frequencies
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image.

    The head of an encoder that is trained starts at the class prompts, at the probe of the frozen features, or at
    random, as the settings have it.
    """
    classes = len(job.data.classes)
    blind = frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
    if job.settings.tune == "frozen" and solvable(job):
        return solve_and_test(job, blind)
    if starts_at_solved(job):
        probe = solved_probe(job)
        backbone = make_backbone(job, probe.kind)
        found = train_and_test(job, backbone, probe.head(backbone.scale), cross_entropy, blind, answer=best)
        return replace(found, training={**found.training, "features": probe.features})
    backbone = make_backbone(job, "pooled")
    prompts, width = starts_at_texts(job), backbone.width
    head = text_head(job, backbone.scale) if prompts else seeded(lambda: LinearHead(width, classes), job.seed)
    return train_and_test(job, backbone, head, cross_entropy, blind, answer=best)

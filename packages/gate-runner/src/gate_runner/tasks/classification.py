"""Image classification: a linear head on pooled features."""

from __future__ import annotations

from gate_runner.tasks.features import pooled
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.scaling import scaled_splits
from gate_runner.tasks.training import frequencies, train_and_test
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image."""
    data = job.data
    train, validation, test = scaled_splits(job, pooled)
    targets = (data.train.targets, data.validation.targets, data.test.targets)
    classes = len(data.classes)
    blind = frequencies(data.train.targets, classes).expand(len(data.test), -1)
    head = seeded(lambda: LinearHead(train.shape[-1], classes), job.seed)
    return train_and_test(job, head, cross_entropy, ((train,), (validation,), (test,)), targets, blind)

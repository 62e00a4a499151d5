"""Where the heads of trained encoders start: at the class prompts, or at the probe of the frozen features."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gate_runner.tasks.features import kinds_to_probe, rows_of, solvable
from gate_runner.tasks.recipes import starts_at_probe
from gate_runner.tasks.retention import class_weights
from vision_adapters.heads import InitializedHead
from vision_adapters.tuning import linear_probe
from vision_features.features import Kind

if TYPE_CHECKING:
    from gate_runner.settings import Settings
    from gate_runner.tasks.job import Job
    from vision_adapters.training import Scale

_SCALE = 100.0
"""Factor on cosines, of an encoder that does not say its own: CLIP's."""


def text_head(job: Job, scale: Scale) -> InitializedHead:
    """The head that starts at a job's class prompts, so that it scores as zero-shot does."""
    texts = class_weights(job, job.benchmark, job.data.classes)
    return InitializedHead(texts, torch.zeros(len(texts)), scale.mean, scale.std, job.encoder.logit_scale or _SCALE)


class SolvedProbe(NamedTuple):
    """A probe of the features as they are before the training: what results call them, their kind, and its weights."""

    features: str
    kind: Kind
    weight: Tensor
    bias: Tensor

    def head(self, scale: Scale) -> InitializedHead:
        """The head that starts at it, for features that come on a scale."""
        return InitializedHead(self.weight, self.bias, scale.mean, scale.std, 1.0)


def solved_probe(job: Job) -> SolvedProbe:
    """The probe at which a head starts: of the features before or behind the projection, whichever it does better on.

    The validation split chooses among the training's steps, the start included: the probe does not see it, and chooses
    its strength, and the features, on a fifth of the training split. The job has one class per image.
    """
    train, probes = job.data.train, []
    for name, kind in kinds_to_probe(job).items():
        features = rows_of(job, train, kind, f"train-{name}")[:].float()
        with job.timed("train"):
            metric = job.benchmark.metrics[0]
            probe = linear_probe(
                features,
                train.targets,
                len(job.data.classes),
                metric=metric,
                class_weight=job.class_weight,
                seed=job.seed,
            )
            probes.append((probe.validation, SolvedProbe(name, kind, probe.weight, probe.bias)))
    return max(probes, key=lambda scored: scored[0])[1]


def starts_at_solved(job: Job) -> bool:
    """Whether the head of a trained encoder starts at a probe that is solved."""
    return (
        job.benchmark.task == "image-classification"
        and job.settings.tune != "frozen"
        and starts_at_probe(job.settings)
        and not starts_at_texts(job)
        and solvable(job)
    )


def head_first(job: Job) -> bool:
    """Whether a head is trained on the frozen features before the encoder is: all but those that start otherwise.

    Those are the heads of whole detectors, the ones that start at class prompts, and the ones that are solved.
    """
    if job.encoder.detector is not None or not starts_at_probe(job.settings):
        return False
    return job.benchmark.task != "image-classification" or not (starts_at_texts(job) or solvable(job))


def head_settings(settings: Settings) -> Settings:
    """Those by which the head is trained before the encoder is: as if the encoder stayed frozen."""
    return settings.changed(
        tune="frozen", recipe="quick", recipe_fields={}, wise_ft=None, keep_zero_shot=(), num_processes=1,
        checkpoint_blocks=False, transform="square",
    )  # fmt: skip


def starts_at_texts(job: Job) -> bool:
    """Whether a head starts at the class prompts: where it will be mixed with its start, and there is a text side."""
    return job.settings.wise_ft is not None and job.encoder.text is not None

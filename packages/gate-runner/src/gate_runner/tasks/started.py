"""Heads of trained encoders that start at something: at the class prompts, or at the probe of the frozen features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gate_runner.features import Kind
from gate_runner.tasks.after_training import class_weights
from gate_runner.tasks.features import kinds_to_probe, rows_of
from gate_runner.tasks.fitting import HeadTrained
from gate_runner.tasks.job import StartedAt, alone
from gate_runner.tasks.probing import solvable
from gate_runner.tasks.recipes import starts_at_probe
from vision_adapters.heads import LinearHead
from vision_adapters.tuning import tuning_data
from vision_adapters.tuning.anchored import tune_anchored

if TYPE_CHECKING:
    from gate_runner.settings import Settings
    from gate_runner.tasks.job import Job
    from gate_runner.tasks.scaling import Scale
    from gate_runner.tasks.task import Run

_SCALE = 100.0
"""Factor on cosines, of an encoder that does not say its own: CLIP's."""


class StartedHead(nn.Module):
    """A linear layer on unit features whose weights are given: untrained, it scores as what they are from does.

    Args:
        weight: one row per class ``[k, d]``.
        bias: one number per class.
        scale: that the features come on, which is undone first.
        factor: on the products.
    """

    starts_somewhere = True

    def __init__(self, weight: Float[Tensor, "k d"], bias: Float[Tensor, " k"], scale: Scale, factor: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
        self.scale, self.factor = scale, factor

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class."""
        raw = features * self.scale.std + self.scale.mean
        return self.factor * F.normalize(raw, dim=-1) @ self.weight.T + self.bias


def text_head(job: Job, scale: Scale) -> StartedHead:
    """The head that starts at a job's class prompts, so that it scores as zero-shot does.

    Raises:
        MissingCapabilityError: the encoder has no text side.
    """
    texts = class_weights(job, job.benchmark, job.data.classes)
    return StartedHead(texts, torch.zeros(len(texts)), scale, job.encoder.logit_scale or _SCALE)


class SolvedProbe(NamedTuple):
    """A probe of the features as they are before the training.

    Attributes:
        features: what results call them.
        kind: of them.
        weight: one row per class ``[k, d]``, on unit features.
        bias: one number per class.
    """

    features: str
    kind: Kind
    weight: Tensor
    bias: Tensor

    def head(self, scale: Scale) -> StartedHead:
        """The head that starts at it, for features that come on a scale."""
        return StartedHead(self.weight, self.bias, scale, 1.0)


def solved_probe(job: Job) -> SolvedProbe:
    """The probe at which a head starts: of the features before or behind the projection, whichever it does better on.

    The validation split chooses among the training's steps, the start included: the probe does not see it, and chooses
    its strength, and the features, on a fifth of the training split.

    Args:
        job: of a task with one class per image, whose probe can be solved.

    Returns:
        The probe. A class without a training image starts below all others.

    Source:
        Kumar et al., Fine-tuning can distort pretrained features and underperform out-of-distribution (2022): linear
        probing, then fine-tuning. A random head's first gradients change the encoder before they mean anything.
    """
    train, found = job.data.train, []
    present = torch.unique(train.targets)
    labels, metric = torch.searchsorted(present, train.targets), job.benchmark.metrics[0]
    for name, kind in kinds_to_probe(job).items():
        features = rows_of(job, train, kind, f"train-{name}")[:].float()
        with job.timed("train"):
            data = tuning_data(features, labels, metric=metric, seed=job.seed)
            found.append((name, kind, tune_anchored(data, linear=True)))
    name, kind, best = max(found, key=lambda one: one[2].validation or 0.0)
    assert isinstance(best.head, LinearHead)
    with torch.no_grad():
        bias = best.head.bias.new_full((len(job.data.classes),), float(best.head.bias.min()) - 1.0)
        weight = best.head.weight.new_zeros(len(bias), best.head.weight.shape[1])
        weight[present], bias[present] = best.head.weight, best.head.bias
    return SolvedProbe(name, kind, weight, bias)


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


def trained_head(job: Job, run: Run) -> StartedAt | None:
    """The head that the same job's frozen encoder gets, at its benchmark's own numbers.

    Args:
        job: whose encoder will be trained; its images are encoded once before.
        run: of its task type.

    Returns:
        The head's weights; None for a task type that trains no head.

    Source: see `solved_probe`.
    """

    def progress(phase: str, done: int, total: int) -> None:
        job.progress(phase if phase.startswith("encode") else f"{phase} head", done, total)

    path = None if job.checkpoint is None else job.checkpoint.with_name(f"{job.checkpoint.name}.head")
    try:
        run(replace(job, settings=head_settings(job.settings), checkpoint=path, progress=progress, together=alone,
                    head_only=True))  # fmt: skip
    except HeadTrained as found:
        return found.start
    return None

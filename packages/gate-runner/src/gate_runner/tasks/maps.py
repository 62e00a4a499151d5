"""Maps from patch features by a transformer: classes of scenes and of volumes slice by slice, and metres of pixels."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from gate_data.data import Split
from gate_runner.errors import DataError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import mistaken
from gate_runner.tasks.recipes import head_size
from gate_runner.tasks.training import Measured, targets_of, train_and_test
from vision_adapters.heads import SegmentationHead, seeded
from vision_adapters.losses import IGNORED, acdc_loss, cross_entropy, focal_loss, segmentation_loss, soft_dice_loss
from vision_adapters.rows.counting import log_frequencies, positive_median
from vision_adapters.training import Backbone

_TOKENS = 64
"""Rows and columns of GATE's tokens."""
SEGMENTATION_TERMS = {"ce_loss": cross_entropy, "focal_loss": focal_loss, "dice_loss": soft_dice_loss}
"""Losses of GATE's table 3, over all pixels that count."""
_LEAST = 1e-3
"""Metres: predictions are at least this."""


def _head(job: Job, backbone: Backbone, channels: int) -> SegmentationHead:
    high, wide = job.data.test.targets.shape[1:]
    size, grid = (int(high), int(wide)), backbone.grid
    how = head_size(job.settings, job.benchmark.task)
    at_gates_size = job.settings.recipe == "gate" and job.benchmark.task != "depth"
    tokens = (min(_TOKENS, size[0]), min(_TOKENS, size[1])) if at_gates_size else None
    named = how._asdict()
    form = partial(SegmentationHead, backbone.width, channels, grid=grid, size=size, tokens=tokens, **named)
    return seeded(form, job.seed)


def run(job: Job) -> Outcome:
    """Classes of pixels. Chance: at each pixel, the class that training shows there most often.

    Of scenes one image is one sample; of volumes slices are segmented, and a whole volume is scored and resampled.
    """
    medical = job.benchmark.task == "medical-segmentation"
    classes, targets = len(job.data.classes), targets_of(job)
    blind = log_frequencies(targets["train"], classes).argmax(dim=0).expand(len(job.data.test), -1, -1)
    backbone = make_backbone(job, "patches")
    return train_and_test(
        job,
        backbone,
        _head(job, backbone, classes),
        acdc_loss if medical else segmentation_loss,
        blind,
        terms={"dice_loss": soft_dice_loss} if medical else SEGMENTATION_TERMS,
        targets=targets,
        read=lambda logits: logits.argmax(dim=1).to(torch.int16),
        gather=to_volumes if medical else None,
        beside=partial(mistaken, classes=classes),
    )


def to_volumes(maps: Shaped[Tensor, "n h w"], split: Split) -> Shaped[Tensor, "v sh w"]:
    """The pixels of all slices of a volume as one tall map; shorter volumes end in pixels that count nowhere."""
    assert split.groups is not None
    _, counts = torch.unique_consecutive(split.groups, return_counts=True)
    gathered = maps.new_full((len(counts), int(counts.max()), *maps.shape[1:]), IGNORED)
    for volume, slices in zip(gathered, torch.split(maps, counts.tolist()), strict=True):
        volume[: len(slices)] = slices
    return gathered.flatten(1, 2)


def run_depth(job: Job) -> Outcome:
    """Root mean squared error and absolute relative error, and the share of pixels within 1.25 times the truth.

    All are means over images; pixels whose depth was not measured (0) do not count. Chance: everywhere the median of
    the training depths.
    """
    targets = targets_of(job)
    typical = positive_median(targets["train"])
    backbone = make_backbone(job, "patches")

    def metres(output: Tensor) -> Tensor:
        # The head starts at the training median and learns differences from it.
        return typical * torch.exp(output[:, 0].clamp(-6, 6))

    def loss(output: Tensor, truth: Tensor) -> Tensor:
        measured = truth > 0
        wrong = (output[:, 0].clamp(-6, 6) + np.log(typical) - truth.clamp_min(_LEAST).log()).abs()
        total: Tensor = (wrong * measured).sum() / measured.sum().clamp_min(1)
        return total

    def measure(predicted: Tensor, split: Split) -> dict[str, np.ndarray]:
        errors: dict[str, list[float]] = {"rmse": [], "abs_rel": [], "delta_1.25": []}
        truths = targets["test" if split is job.data.test else "validation"]
        for index, guess in enumerate(predicted):
            guess, truth = guess.double(), truths[index : index + 1][0].double()
            measured = truth > 0
            if not bool(measured.any()):
                raise DataError(f"{job.benchmark.id}: no depth was measured in sample {index}")
            guess, truth = guess[measured].clamp_min(_LEAST), truth[measured]
            errors["rmse"].append(float((guess - truth).square().mean().sqrt()))
            errors["abs_rel"].append(float(((guess - truth).abs() / truth).mean()))
            errors["delta_1.25"].append(float((torch.maximum(guess / truth, truth / guess) < 1.25).double().mean()))
        return {name: np.array(values) for name, values in errors.items()}

    blind = measure(torch.tensor(typical).expand(job.data.test.targets.shape), job.data.test)
    chance = {name: float(values.mean()) for name, values in blind.items()}
    measured = Measured(measure, chance, lower=("rmse", "abs_rel"))
    return train_and_test(job, backbone, _head(job, backbone, 1), loss, measured, targets=targets, read=metres)

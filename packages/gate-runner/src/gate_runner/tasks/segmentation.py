"""Segmentation of scenes, and of volumes slice by slice: a transformer on patch features."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.tasks.features import patches
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.training import frequencies, train_and_test
from vision_adapters.heads import SegmentationHead, seeded
from vision_adapters.losses import acdc_loss, segmentation_loss

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """Scenes: one image is one sample. Chance: at each pixel, the class that training shows there most often."""
    return _segment(job, medical=False)


def run_medical(job: Job) -> Outcome:
    """Volumes: slices are segmented, a whole volume is scored and resampled."""
    return _segment(job, medical=True)


def _segment(job: Job, *, medical: bool) -> Outcome:
    data = job.data
    train, grid = patches(job, data.train, "train")
    scale = Scale(train)
    inputs = (
        (scale(train),),
        (scale(patches(job, data.validation, "validation")[0]),),
        (scale(patches(job, data.test, "test")[0]),),
    )
    targets = (data.train.targets, data.validation.targets, data.test.targets)
    high, wide = data.train.targets.shape[1:]
    classes = len(data.classes)
    blind = frequencies(data.train.targets, classes).argmax(dim=0).expand(len(data.test), -1, -1)
    head = seeded(
        partial(SegmentationHead, train.shape[-1], classes, grid=grid, size=(high, wide), width=_WIDTH, depth=_DEPTH),
        job.seed,
    )
    slices = _slices(data.test) if medical else 1

    def to_volumes(maps: Tensor) -> Tensor:
        return maps.reshape(-1, slices * high, wide)  # the pixels of all slices as one tall map

    return train_and_test(
        job,
        head,
        acdc_loss if medical else segmentation_loss,
        inputs,
        targets,
        blind,
        read=lambda logits: logits.argmax(dim=1),
        gather=to_volumes,
    )


def _slices(split: Split) -> int:
    """Slices per volume, which all have the same number."""
    assert split.groups is not None
    counts = torch.bincount(split.groups)
    counts = counts[counts > 0]
    if not bool((counts == counts[0]).all()):
        raise ValueError(f"volumes have {int(counts.min())} to {int(counts.max())} slices, expected one number")
    return int(counts[0])

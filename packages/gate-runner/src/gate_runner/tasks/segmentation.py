"""Segmentation of scenes, and of volumes slice by slice: a transformer on patch features."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Shaped
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import mistaken
from gate_runner.tasks.training import targets_of, train_and_test
from vision_adapters.heads import SegmentationHead, seeded
from vision_adapters.losses import IGNORED, acdc_loss, segmentation_loss
from vision_adapters.rows.counting import log_frequencies

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """Scenes: one image is one sample. Chance: at each pixel, the class that training shows there most often."""
    return _segment(job, medical=False)


def run_medical(job: Job) -> Outcome:
    """Volumes: slices are segmented, a whole volume is scored and resampled."""
    return _segment(job, medical=True)


def _segment(job: Job, *, medical: bool) -> Outcome:
    data = job.data
    high, wide = data.train.targets.shape[1:]
    classes = len(data.classes)
    targets = targets_of(job)
    blind = log_frequencies(targets["train"], classes).argmax(dim=0).expand(len(data.test), -1, -1)
    backbone = make_backbone(job, "patches")
    size = (high, wide)
    head = seeded(
        partial(SegmentationHead, backbone.width, classes, grid=backbone.grid, size=size, width=_WIDTH, depth=_DEPTH),
        job.seed,
    )
    return train_and_test(
        job,
        backbone,
        head,
        acdc_loss if medical else segmentation_loss,
        blind,
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

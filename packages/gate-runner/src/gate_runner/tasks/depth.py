"""Metres of each pixel: a transformer on patch features."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.errors import DataError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.training import Measured, targets_of, train_and_test
from vision_adapters.heads import SegmentationHead, seeded
from vision_adapters.rows.counting import positive_median

_WIDTH, _DEPTH = 128, 2
_LEAST = 1e-3
"""Metres: predictions are at least this."""


def run(job: Job) -> Outcome:
    """Root mean squared error and absolute relative error, and the share of pixels within 1.25 times the truth.

    All are means over images; pixels whose depth was not measured (0) do not count. Chance: everywhere the median of
    the training depths.
    """
    shape = job.data.test.targets.shape
    size = (int(shape[1]), int(shape[2]))
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

    blind = measure(torch.tensor(typical).expand(shape), job.data.test)
    form = partial(SegmentationHead, backbone.width, 1, grid=backbone.grid, size=size, width=_WIDTH, depth=_DEPTH)
    head = seeded(form, job.seed)
    chance = {name: float(values.mean()) for name, values in blind.items()}
    measured = Measured(measure, chance, lower=("rmse", "abs_rel"))
    return train_and_test(job, backbone, head, loss, measured, targets=targets, read=metres)

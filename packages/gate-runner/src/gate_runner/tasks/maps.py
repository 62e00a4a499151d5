"""Maps from patch features: classes of scenes and of volumes slice by slice, and metres of pixels.

Heads are transformers, but for classes on the stand-ins and where one's own data ask for ridge regression: those heads
are solved, see `recipes.is_solved`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gate_data.data import Split
from gate_runner.errors import DataError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import mistaken
from gate_runner.tasks.recipes import head_size, is_solved
from gate_runner.tasks.training import Measured, Solved, targets_of, train_and_test
from vision_adapters.depth import depth_errors, depth_loss, metres
from vision_adapters.heads import SegmentationHead, seeded
from vision_adapters.losses import acdc_loss, cross_entropy, focal_loss, segmentation_loss, soft_dice_loss
from vision_adapters.patch_ridge import LIFTS, PENALTIES, PatchRidgeHead, fit_patch_ridge
from vision_adapters.rows import Rows
from vision_adapters.rows.counting import log_frequencies, positive_median
from vision_adapters.rows.volumes import tall_maps
from vision_adapters.training import Backbone

_TOKENS = 64
"""Rows and columns of GATE's tokens."""
SEGMENTATION_TERMS = {"ce_loss": cross_entropy, "focal_loss": focal_loss, "dice_loss": soft_dice_loss}
"""Losses of GATE's table 3, over all pixels that count."""


def _head(job: Job, backbone: Backbone, channels: int) -> SegmentationHead:
    high, wide = job.data.test.targets.shape[1:]
    size, grid = (int(high), int(wide)), backbone.grid
    how = head_size(job.settings, job.benchmark.task)
    at_gates_size = job.settings.recipe == "gate" and job.benchmark.task != "depth"
    tokens = (min(_TOKENS, size[0]), min(_TOKENS, size[1])) if at_gates_size else None
    named = how._asdict()
    form = partial(SegmentationHead, backbone.width, channels, grid=grid, size=size, tokens=tokens, **named)
    return seeded(form, job.seed)


def _solved(job: Job, backbone: Backbone, targets: Rows, validate: Callable[[nn.Module], float]) -> Solved:
    high, wide = job.data.test.targets.shape[1:]
    done = count(1)

    def attached(head: PatchRidgeHead) -> nn.Module:
        return backbone.attach(head).to(job.encoder.device).eval()

    def judge(head: PatchRidgeHead) -> float:
        score = validate(attached(head))
        job.progress("train", next(done), len(PENALTIES) + len(LIFTS) - 1)
        return score

    try:
        solved = fit_patch_ridge(
            backbone.rows("train"),
            targets,
            classes=len(job.data.classes),
            grid=backbone.grid,
            size=(int(high), int(wide)),
            scale=backbone.scale,
            validate=judge,
            device=job.encoder.device,
        )
    except ValueError as error:
        raise DataError(f"{job.benchmark.id}: training split: {error}") from error
    return Solved(attached(solved.head), solved.chosen.score, [row._asdict() for row in solved.tried])


def run(job: Job) -> Outcome:
    """Classes of pixels. Chance: at each pixel, the class that training shows there most often.

    Of scenes one image is one sample; of volumes slices are segmented, and a whole volume is scored and resampled.
    """
    medical = job.benchmark.task == "medical-segmentation"
    classes, targets = len(job.data.classes), targets_of(job)
    blind = log_frequencies(targets["train"], classes).argmax(dim=0).expand(len(job.data.test), -1, -1)
    backbone = make_backbone(job, "patches")
    solved = is_solved(job.settings, job.training)
    return train_and_test(
        job,
        backbone,
        nn.Identity() if solved else _head(job, backbone, classes),
        acdc_loss if medical else segmentation_loss,
        blind,
        terms={"dice_loss": soft_dice_loss} if medical else SEGMENTATION_TERMS,
        targets=targets,
        read=lambda logits: logits.argmax(dim=1).to(torch.int16),
        gather=_to_volumes if medical else None,
        beside=partial(mistaken, classes=classes),
        solve=partial(_solved, job, backbone, targets["train"]) if solved else None,
    )


def _to_volumes(maps: Shaped[Tensor, "n h w"], split: Split) -> Shaped[Tensor, "v sh w"]:
    assert split.groups is not None
    return tall_maps(maps, split.groups)


def mean_over_images(outcomes: Float[np.ndarray, " n"], weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The mean of one number per image, of images that are weighted."""
    return np.asarray(weights @ outcomes / weights.sum(axis=1))


def run_depth(job: Job) -> Outcome:
    """Root mean squared error and absolute relative error, and the share of pixels within 1.25 times the truth.

    All are means over images; pixels whose depth was not measured (0) do not count. Chance: everywhere the median of
    the training depths.
    """
    targets = targets_of(job)
    typical = positive_median(targets["train"])
    backbone = make_backbone(job, "patches")

    def measure(predicted: Tensor, split: Split) -> dict[str, np.ndarray]:
        try:
            return depth_errors(predicted, targets["test" if split is job.data.test else "validation"])
        except ValueError as error:
            raise DataError(f"{job.benchmark.id}: {error}") from error

    blind = measure(torch.tensor(typical).expand(job.data.test.targets.shape), job.data.test)
    chance = {name: float(values.mean()) for name, values in blind.items()}
    measured = Measured(measure, chance, lower=("rmse", "abs_rel"))
    loss, read = partial(depth_loss, typical=typical), partial(metres, typical=typical)
    return train_and_test(job, backbone, _head(job, backbone, 1), loss, measured, targets=targets, read=read)

"""A result's scores on shifted test images: the same head, paired with its scores on the images as they are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gate_data.near_splits import NEAR
from gate_data.original_files import GROUP
from gate_data.pictures import Pictures
from gate_data.ragged import taken
from gate_data.readers.decode import open_picture
from gate_runner.errors import DataError
from gate_runner.shifts import Shift, named_shifts
from gate_runner.shifts.applied import LEAST
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.registry import known_task_type, run_task
from paired_scores.clusters import cluster_interval
from paired_scores.paired import paired_test

_LOG = logging.getLogger(__name__)
_LEAST = 5
"""Samples of a slice that has a difference."""


def with_shifts(job: Job, outcome: Outcome) -> Outcome:
    """Score every shift at every strength, and add its rows to the outcome's training.

    A row has the headline's value with its interval, and the paired difference from the images as they are; of samples
    in groups, both draw whole groups. Each slice of at least 5 samples has its value and difference. The head is fitted
    on images that are not shifted; what the encoder gives is kept for each shift.

    Raises:
        DataError: test images that are videos, or smaller than 16 pixels; shows the file or the size.
    """
    images = job.data.test.images
    _check(images)
    shifts = named_shifts(job.settings.shift)
    plain = outcome.scores[0]
    kind = known_task_type(job.benchmark.task)
    statistic = kind.statistic(plain.metric)
    settings = job.settings.changed(save_heads=False, keep_predictions=False, shift=())
    groups = job.data.test.columns.get(GROUP)
    groups = groups if groups is not None and len(groups) == len(outcome.samples) and len(set(groups)) > 1 else None
    solved: dict[str, Any] = {}
    rows = []
    for number, shift in enumerate(shifts):
        job.progress("shifts", number, len(shifts))
        test = replace(job.data.test, images=_shifted(images, shift))
        data = replace(job.data, test=test)
        again = run_task(replace(job, data=data, settings=settings, shared={"solved": solved}, checkpoint=None))
        score = again.scores[0]
        low, high = score.low, score.high
        if groups is not None:
            within = kind.within(score.metric, score.direction, again.samples)
            how: dict[str, Any] = {"seed": job.seed, "statistic": statistic, "within": within}
            _, *ends = cluster_interval(score.metric, again.samples, groups, **how)
            low, high = min(low, ends[0]), max(high, ends[1])
        pair = paired_test(
            plain.metric,
            [outcome.samples],
            [again.samples],
            seed=job.seed,
            resamples=1000,
            permutations=99,
            most=99,
            statistic=statistic,
            clusters=groups,
        )
        unit = score.value / pair.second if pair.second else 1.0  # a score in per cent, or as a share
        sliced = _by_slice(job, outcome, again, groups, unit)
        rows.append(
            {
                "shift": shift.name,
                "strength": shift.strength,
                "metric": score.metric,
                "value": score.value,
                "low": low,
                "high": high,
                "change": [pair.difference * unit, pair.low * unit, pair.high * unit],
                **({"slices": sliced} if sliced else {}),
            }
        )
    job.progress("shifts", len(shifts), len(shifts))
    return replace(outcome, training={**outcome.training, "shifts": rows})


def _by_slice(
    job: Job, plain: Outcome, shifted: Outcome, groups: Sequence[str] | None, unit: float
) -> list[dict[str, Any]]:
    """Value under the shift, and paired difference from the images as they are, of each slice of enough samples."""
    metric = plain.scores[0].metric
    statistic = known_task_type(job.benchmark.task).statistic(metric)
    rows: list[dict[str, Any]] = []
    for by, values in job.data.test.columns.items():
        if by in (GROUP, NEAR) or len(values) != len(plain.samples):
            continue
        for name in sorted(set(values)):
            places = np.array([at for at, value in enumerate(values) if value == name])
            inside = None if groups is None else [groups[at] for at in places]
            if len(places) < _LEAST or (inside is not None and len(set(inside)) < 2):
                continue
            pair = paired_test(
                metric,
                [taken(plain.samples, places)],
                [taken(shifted.samples, places)],
                seed=job.seed,
                resamples=1000,
                permutations=99,
                most=99,
                statistic=statistic,
                clusters=inside,
            )
            change = [pair.difference * unit, pair.low * unit, pair.high * unit]
            rows.append(
                {"by": by, "slice": name, "samples": len(places), "value": pair.second * unit, "change": change}
            )
    return rows


def _shifted(images: Tensor | Pictures, shift: Shift) -> Tensor | Pictures:
    if isinstance(images, Pictures):
        return replace(images, after=shift)
    return torch.from_numpy(np.stack([shift(image) for image in images.numpy()]))


def _check(images: Tensor | Pictures) -> None:
    """Refuse what cannot be shifted: videos, and images that are smaller in their files than a shift needs."""
    if len(images.shape) != 4:
        raise DataError(f"setting shift: test samples have the shape {tuple(images.shape[1:])}; expected still images")
    if isinstance(images, Pictures):
        for (source,) in images.files:
            if isinstance(source, str):
                with open_picture(source) as image:  # of every kind that is read, DICOM and HEIC among them
                    size = image.size
                if min(size) < LEAST:
                    raise DataError(
                        f"{source} has {size[0]} x {size[1]} pixels and cannot be shifted: expected at least {LEAST} a "
                        "side; take the file out, or leave out --setting shift"
                    )

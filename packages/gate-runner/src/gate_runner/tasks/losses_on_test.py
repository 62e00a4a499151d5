"""Losses on the test split as metrics: GATE's table 3 has 48, by term, answer type and direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gate_runner.tasks.job import Job, Score
from paired_scores.metrics import score_outcomes
from paired_scores.metrics.score import resamples_of
from vision_adapters.rows import Rows
from vision_adapters.training.head import Inputs
from vision_adapters.training.outcome import Kept
from vision_adapters.training.predictions import averaged

if TYPE_CHECKING:
    from gate_runner.tasks.fitting import Loss

_RESAMPLES = 1000

Blind = Callable[[Tensor], Tensor]


def mean_output(output: Tensor) -> Tensor:
    """Give each sample of a batch its mean output, which shows no image."""
    return output.mean(dim=0, keepdim=True).expand_as(output)


def alike(output: Tensor) -> Tensor:
    """Give every class that there is the same score."""
    return torch.where(torch.isfinite(output), torch.zeros_like(output), output)


def losses_on_test(
    job: Job,
    module: nn.Module,
    best: Sequence[Kept],
    test: Inputs,
    truth: Rows,
    losses: Mapping[str, Loss],
    *,
    side_by_side: bool = False,
) -> tuple[Score, ...]:
    """Return losses on the test split, means over its batches, each with its interval over batches.

    Args:
        job: its seed resamples batches.
        module: with the first checkpoint's weights.
        best: checkpoints, whose mean output is scored.
        test: inputs of the module.
        truth: a target for each sample.
        losses: of output and targets, by metric; one that a batch has no sample for is NaN there, and left out.
        side_by_side: how checkpoints are averaged, see `averaged`.
    """
    batches = averaged(module, best, test, lambda output: output, job.predict_size, side_by_side=side_by_side)
    return losses_of(job, (batch[len(best)] for batch in batches), truth, losses)


def losses_of(
    job: Job, outputs: Iterable[Tensor], truth: Rows, losses: Mapping[str, Loss], *, blind: Blind = mean_output
) -> tuple[Score, ...]:
    """Return losses of outputs that come batch by batch; see `losses_on_test`.

    ``blind`` turns a batch's output into one that shows no image, whose loss is chance.
    """
    values: dict[str, list[tuple[float, float, int]]] = {name: [] for name in losses}
    start = 0
    for batch in outputs:
        output = batch.float().cpu()
        targets = truth[start : start + len(output)]
        start += len(output)
        for name, loss in losses.items():
            values[name].append((_number(loss(output, targets)), _number(loss(blind(output), targets)), len(output)))
    return tuple(_score(name, rows, job.seed) for name, rows in values.items())


def _score(name: str, rows: Sequence[tuple[float, float, int]], seed: int) -> Score:
    known = np.array([row for row in rows if not math.isnan(row[0])] or [(math.nan, math.nan, 1)])
    weights = known[:, 2] / known[:, 2].sum()
    score_outcomes("mae", known[:, 0], resamples=0)  # refuses a loss that no batch has
    drawn = np.concatenate(list(resamples_of(len(known), _RESAMPLES, np.random.default_rng(seed))))
    low, high = np.quantile((drawn @ (weights * known[:, 0])) / (drawn @ weights), [0.025, 0.975])
    return Score(name, "lower", float(weights @ known[:, 0]), float(low), float(high), float(weights @ known[:, 1]))


def _number(value: Tensor | Mapping[str, Tensor]) -> float:
    return float(value if isinstance(value, Tensor) else sum(value.values()))

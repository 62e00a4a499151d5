"""Heads whose metrics are means of one number per sample: fit, choose on validation, score the test split once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.request import SplitName
from gate_runner.tasks.fitting import Loss, fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.score import Score
from gate_runner.tasks.training import Extra, ensemble_rows, predict
from vision_adapters.metrics import score_outcomes
from vision_adapters.rows import Rows
from vision_adapters.training import Backbone, Scale
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import averaged, most_averaged

Measure = Callable[[Tensor, Split], Mapping[str, np.ndarray]]
"""Predictions for a split's samples to one number per sample and metric; NaN where a sample does not count."""


def train_and_measure(
    job: Job,
    backbone: Backbone,
    head: nn.Module,
    loss: Loss,
    measure: Measure,
    chance: Mapping[str, float],
    *,
    extras: Sequence[Extra] = (),
    inputs: Callable[[Backbone, SplitName], Inputs] | None = None,
    scales: Sequence[Scale | None] = (),
    targets: Rows | None = None,
    lower: Sequence[str] = (),
    read: Callable[[Tensor], Tensor] = lambda output: output,
    answer: Callable[[Tensor, Split], np.ndarray] | None = None,
    side_by_side: bool = False,
) -> Outcome:
    """Train a head on a backbone; as `train_and_test`, for metrics that the task itself defines.

    Args:
        job: benchmark, encoder and seed.
        backbone: of the job.
        head: called as ``head(features, *extras)``.
        loss: of its output and targets.
        measure: predictions to numbers per sample; the first metric of the benchmark chooses.
        chance: of each metric, what the best prediction scores that never looks at the image.
        extras: further inputs of the head.
        inputs: a backbone and a split to what the head gets instead of the backbone's rows and the extras.
        scales: of these inputs but the first.
        targets: of training, instead of the data's.
        lower: metrics that are better when lower.
        read: output to predictions, batch by batch.
        answer: predictions for a split's samples to what is kept of them beside the outcomes; None keeps nothing.
        side_by_side: how checkpoints are averaged, see `averaged`.
    """
    data = job.data
    headline = job.benchmark.metrics[0]

    def rows(of: Backbone, name: SplitName) -> Inputs:
        return inputs(of, name) if inputs else (of.rows(name), *(extra.rows[name] for extra in extras))

    tested = rows(backbone, "test")

    def validate(module: nn.Module, held: Inputs) -> float:
        return float(np.nanmean(measure(predict(module, held, read, job.predict_size), data.validation)[headline]))

    directions: dict[str, Literal["higher", "lower"]] = {
        name: "lower" if name in lower else "higher" for name in job.benchmark.metrics
    }
    learnt = data.train.targets if targets is None else targets
    scales = [*(extra.scale for extra in extras), *scales]
    fitted = fit_head(job, backbone, head, learnt, loss, validate, directions[headline], inputs=rows, scales=scales)
    tuned = job.settings.tune != "frozen"
    with job.timed("test"):
        checkpoints = most_averaged(fitted.kept) if tuned else fitted.kept[:1]
        batches = list(averaged(fitted.module, checkpoints, tested, read, job.predict_size, side_by_side=side_by_side))
        predictions = {size: torch.cat([batch[size] for batch in batches]) for size in batches[0]}
        measured = {size: measure(values, data.test) for size, values in predictions.items()}
        scores = {
            size: [mean_score(name, own[name], directions[name], chance[name], job.seed) for name in directions]
            for size, own in measured.items()
        }
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters() if p.requires_grad),
        **fitted.about(headline),
        **({"ensembles": ensemble_rows(headline, {size: own[0] for size, own in scores.items()})} if tuned else {}),
    }
    predicted = answer(predictions[1], data.test) if answer else None
    return Outcome(tuple(scores[1]), measured[1][headline], training, predicted)


def mean_score(
    name: str, outcomes: np.ndarray, direction: Literal["higher", "lower"], chance: float, seed: int
) -> Score:
    """The mean of one number per sample with its interval; samples that are NaN do not count."""
    estimate = score_outcomes("mae", outcomes[~np.isnan(outcomes)].astype(np.float64), seed=seed)
    return Score(name, direction, estimate.value, estimate.low, estimate.high, chance)


def hits(scores: Tensor, truth: Tensor, k: int = 1) -> Any:
    """For each row, the chance that the true column is among the k best, ties sharing their places.

    Example:
        >>> import torch
        >>> hits(torch.tensor([[1.0, 2.0], [3.0, 3.0]]), torch.tensor([0, 0])).tolist()
        [0.0, 0.5]
    """
    own = scores.gather(1, truth[:, None])
    ahead, tied = (scores > own).sum(dim=1), (scores == own).sum(dim=1)
    return ((k - ahead).double() / tied).clamp(0, 1).numpy()

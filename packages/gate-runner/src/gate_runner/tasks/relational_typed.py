"""Questions whose answers are of several types (colour, count, …): the head knows the type, as GATE's does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.measured import hits, train_and_measure
from gate_runner.tasks.predicted import best
from gate_runner.tasks.relational import PooledAsToken, question_inputs
from vision_adapters.heads import RelationalHead, seeded
from vision_adapters.losses import cross_entropy

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """``acc@1`` is the mean over types; each type's own accuracy stands beside it.

    Answers are named like ``colour: blue``; only those of the true answer's type can be given. Chance: of each type,
    the answer that training has most often.
    """
    classes = job.data.classes
    types = list(dict.fromkeys(name.partition(": ")[0] for name in classes))
    of_class = torch.tensor([types.index(name.partition(": ")[0]) for name in classes])

    def within(logits: Tensor, truth: Tensor) -> Tensor:
        other = of_class.to(truth.device)[truth][:, None] != of_class.to(truth.device)[None]
        return logits.masked_fill(other, float("-inf"))

    def measure(logits: Tensor, split: Split) -> dict[str, np.ndarray]:
        right = hits(within(logits, split.targets), split.targets)
        kind = of_class[split.targets].numpy()
        asked = np.bincount(kind, minlength=len(types))
        found = {name: np.where(kind == place, right, np.nan) for place, name in enumerate(types)}
        # Each sample weighs as much as the mean over types gives it.
        return {**found, "acc@1": right * len(right) / ((asked > 0).sum() * asked[kind])}

    def answer(logits: Tensor, split: Split) -> np.ndarray:
        return best(within(logits, split.targets))

    loss: Callable[[Tensor, Tensor], Tensor] = lambda logits, truth: cross_entropy(within(logits, truth), truth)  # noqa: E731
    backbone, extras, width = question_inputs(job)
    often = torch.bincount(job.data.train.targets, minlength=len(classes)).double()
    blind = measure(often.expand(len(job.data.test), -1), job.data.test)
    chance = {name: float(np.nanmean(values)) if not np.isnan(values).all() else 0.0 for name, values in blind.items()}
    form = PooledAsToken if job.encoder.patches is None else RelationalHead
    head = seeded(partial(form, backbone.width, width, len(classes), width=_WIDTH, depth=_DEPTH), job.seed)
    return train_and_measure(job, backbone, head, loss, measure, chance, extras=extras, answer=answer)

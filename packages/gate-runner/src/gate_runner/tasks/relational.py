"""Questions about images: a transformer over image and text tokens, one class per answer, or per answer of a type."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_data.request import SplitName
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.features import Words, words
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.recipes import head_size
from gate_runner.tasks.scoring import hits, most_frequent
from gate_runner.tasks.training import Measured, train_and_test
from vision_adapters.heads import RelationalHead, seeded
from vision_adapters.heads.sequences import PooledAsToken
from vision_adapters.losses import cross_entropy
from vision_adapters.training import Backbone, Scale
from vision_adapters.training.head import Inputs
from vision_features.features import IndexedRows

_AT_ONCE = 100_000_000
"""Numbers of the training questions' tokens up to which their scale is measured on all of them together."""


def _trained(job: Job, loss: Loss, scorer: Tensor | Measured, **how: Any) -> Outcome:
    """Train and test a head on images and questions."""
    data = job.data
    backbone = make_backbone(job, "pooled" if job.encoder.patches is None else "patches")
    names: tuple[SplitName, ...] = ("train", "validation", "test")
    texts: dict[SplitName, Words] = {name: words(job, getattr(data, name), name) for name in names}
    train = IndexedRows(texts["train"].tokens, texts["train"].sample)
    mask = texts["train"].mask[texts["train"].sample]
    at_once = len(train) * texts["train"].tokens[:1].numel() <= _AT_ONCE
    scale = Scale.of(train[:] if at_once else train, mask)
    longest = max(encoded.mask.shape[1] for encoded in texts.values())
    padded = {name: encoded.padded(longest) for name, encoded in texts.items()}

    def inputs(of: Backbone, name: SplitName) -> Inputs:
        tokens, mask, sample = padded[name]
        return of.rows(name), IndexedRows(tokens, sample), IndexedRows(mask, sample)

    form = PooledAsToken if job.encoder.patches is None else RelationalHead
    width, answers = texts["train"].tokens[:1].shape[-1], len(data.classes)
    size = head_size(job.settings, job.benchmark.task)._asdict()
    head = seeded(partial(form, backbone.width, width, answers, **size), job.seed)
    return train_and_test(job, backbone, head, loss, scorer, inputs=inputs, scales=(scale, None), **how)


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent answer, whatever image and question."""
    return _trained(job, cross_entropy, most_frequent(job), answer=best)


def run_typed(job: Job) -> Outcome:
    """``acc@1`` is the mean over types; each type's own accuracy stands beside it.

    Answers are named like ``colour: blue``; only those of the true answer's type can be given. Chance: of each type,
    the answer that training has most often.
    """
    classes = job.data.classes
    types = list(dict.fromkeys(name.partition(": ")[0] for name in classes))
    of_class = torch.tensor([types.index(name.partition(": ")[0]) for name in classes])

    def within(logits: Tensor, truth: Tensor) -> Tensor:
        of_another = of_class.to(truth.device)[truth][:, None] != of_class.to(truth.device)[None]
        return logits.masked_fill(of_another, float("-inf"))

    def measure(logits: Tensor, split: Split) -> dict[str, np.ndarray]:
        right = hits(within(logits, split.targets), split.targets)
        kind = of_class[split.targets].numpy()
        totals = np.bincount(kind, minlength=len(types))
        outcomes = {name: np.where(kind == index, right, np.nan) for index, name in enumerate(types)}
        # Each sample weighs as much as the mean over types gives it.
        return {**outcomes, "acc@1": right * len(right) / ((totals > 0).sum() * totals[kind])}

    def answer(logits: Tensor, truth: Tensor) -> np.ndarray:
        return best(within(logits, truth))

    def loss(logits: Tensor, truth: Tensor) -> Tensor:
        return cross_entropy(within(logits, truth), truth)

    def of_type(index: int) -> Loss:
        def own(logits: Tensor, truth: Tensor) -> Tensor:
            rows = of_class.to(truth.device)[truth] == index
            return loss(logits[rows], truth[rows]) if bool(rows.any()) else torch.tensor(float("nan"))

        return own

    terms = {f"{name}_loss": of_type(index) for index, name in enumerate(types)}
    often = torch.bincount(job.data.train.targets, minlength=len(classes)).double()
    blind = measure(often.expand(len(job.data.test), -1), job.data.test)
    chance = {name: float(np.nanmean(values)) if not np.isnan(values).all() else 0.0 for name, values in blind.items()}
    return _trained(job, loss, Measured(measure, chance), beside=answer, terms=terms)

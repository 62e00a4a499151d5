"""Several questions about every image, each with its own classes: one linear layer for all of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.measured import hits, train_and_measure
from gate_runner.tasks.predicted import best
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy


def heads_of(classes: tuple[str, ...]) -> dict[str, int]:
    """Heads and their numbers of classes, from names like ``species/beluga``.

    Example:
        >>> heads_of(("species/beluga", "species/orca", "individual/a"))
        {'species': 2, 'individual': 1}
    """
    sizes: dict[str, int] = {}
    for name in classes:
        head = name.partition("/")[0]
        sizes[head] = sizes.get(head, 0) + 1
    return sizes


def run(job: Job) -> Outcome:
    """``acc@1`` is the mean over heads; of each head its own acc@1 and acc@5. Chance: the most frequent classes."""
    heads = heads_of(job.data.classes)
    sizes = list(heads.values())
    backbone = make_backbone(job, "pooled")
    learnt = job.data.train.targets

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        parts = zip(torch.split(logits, sizes, dim=1), targets.unbind(dim=1), strict=True)
        return torch.stack([cross_entropy(logits_of, truth) for logits_of, truth in parts]).mean()

    def measure(logits: Tensor, split: Split) -> dict[str, np.ndarray]:
        outcomes = {
            f"{name}_acc@{k}": hits(logits_of, truth, k)
            for name, logits_of, truth in zip(
                heads, torch.split(logits, sizes, dim=1), split.targets.unbind(dim=1), strict=True
            )
            for k in (1, 5)
        }
        outcomes["acc@1"] = np.mean([outcomes[f"{name}_acc@1"] for name in heads], axis=0)
        return outcomes

    def answer(logits: Tensor, split: Split) -> np.ndarray:
        return np.stack([best(logits_of) for logits_of in torch.split(logits, sizes, dim=1)], axis=1)

    often = [torch.bincount(column, minlength=size) for column, size in zip(learnt.unbind(dim=1), sizes, strict=True)]
    blind = torch.cat(often).double().expand(len(job.data.test), -1)
    chance = {name: float(values.mean()) for name, values in measure(blind, job.data.test).items()}
    head = seeded(lambda: LinearHead(backbone.width, sum(sizes)), job.seed)
    return train_and_measure(job, backbone, head, loss, measure, chance, answer=answer)

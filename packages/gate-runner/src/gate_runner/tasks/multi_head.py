"""Several questions about every image, each with its own classes: one linear layer for all of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, heads_of
from gate_runner.tasks.training import Measured, hits, train_and_test
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy


def run(job: Job) -> Outcome:
    """``acc@1`` is the mean over heads; of each head its own acc@1 and acc@5. Chance: the most frequent classes."""
    heads = heads_of(job.data.classes)
    sizes = [len(names) for names in heads.values()]
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

    def answer(logits: Tensor) -> np.ndarray:
        return np.stack([best(logits_of) for logits_of in torch.split(logits, sizes, dim=1)], axis=1)

    often = [torch.bincount(column, minlength=size) for column, size in zip(learnt.unbind(dim=1), sizes, strict=True)]
    blind = torch.cat(often).double().expand(len(job.data.test), -1)
    chance = {name: float(values.mean()) for name, values in measure(blind, job.data.test).items()}
    head = seeded(lambda: LinearHead(backbone.width, sum(sizes)), job.seed)
    return train_and_test(job, backbone, head, loss, Measured(measure, chance), answer=answer)

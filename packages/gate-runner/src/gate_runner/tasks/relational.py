"""Questions about images: a transformer over image and text tokens, one class per answer."""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.tasks.features import patches, pooled, words
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.training import frequencies, train_and_test
from vision_adapters.heads import RelationalHead, seeded
from vision_adapters.losses import cross_entropy

_WIDTH, _DEPTH = 128, 2


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent answer, whatever image and question."""
    data = job.data

    def tokens(split: Split, name: str) -> Tensor:
        if job.encoder.patches is None:
            return pooled(job, split, name)[:, None]
        return patches(job, split, name)[0]

    images = [tokens(split, name) for split, name in _splits(job)]
    texts = [words(job, split) for split, _ in _splits(job)]
    scale, text_scale = Scale(images[0]), Scale(texts[0][0][texts[0][1]])
    longest = max(found.shape[1] for found, _ in texts)
    inputs = [
        (scale(image), *_padded(text_scale(text), mask, longest))
        for image, (text, mask) in zip(images, texts, strict=True)
    ]
    targets = (data.train.targets, data.validation.targets, data.test.targets)
    answers = len(data.classes)
    blind = frequencies(data.train.targets, answers).expand(len(data.test), -1)
    head = seeded(
        partial(RelationalHead, images[0].shape[-1], texts[0][0].shape[-1], answers, width=_WIDTH, depth=_DEPTH),
        job.seed,
    )
    return train_and_test(job, head, cross_entropy, (inputs[0], inputs[1], inputs[2]), targets, blind)


def _splits(job: Job) -> list[tuple[Split, str]]:
    return [(job.data.train, "train"), (job.data.validation, "validation"), (job.data.test, "test")]


def _padded(tokens: Tensor, mask: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    missing = longest - tokens.shape[1]
    return F.pad(tokens, (0, 0, 0, missing)), F.pad(mask, (0, missing))

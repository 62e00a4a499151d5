"""One run: its batches, training with one loss at one weight, and what comes out on pairs that nobody trained on."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

import torch
from data import TRAINED, Evaluation, Samples, Training, join
from methods import FALSE_TEXTS, METHODS, TRANSFER, Features
from towers import Towers

BATCH, KNOWN, WARMUP = 128, 32, 10
"""Samples of a batch, and how many known pairs are among them."""


def batches(data: Training, steps: int, seed: int) -> list[Samples]:
    """The same for every method: the first rows are whole pairs, the others single scenes."""
    generator = torch.Generator().manual_seed(seed)
    pairs = join(list(data.pairs.values()))
    singles = BATCH - 2 * KNOWN
    pair_order = _epochs(len(pairs) // 2, KNOWN * steps, generator)
    scene_order = _epochs(len(data.scenes), singles * steps, generator)
    drawn = []
    for step in range(steps):
        picked = pair_order[step * KNOWN : (step + 1) * KNOWN]
        rows = torch.stack([2 * picked, 2 * picked + 1], dim=1).flatten()
        drawn.append(join([pairs.take(rows), data.scenes.take(scene_order[step * singles : (step + 1) * singles])]))
    return drawn


def _epochs(size: int, wanted: int, generator: torch.Generator) -> torch.Tensor:
    orders = [torch.randperm(size, generator=generator) for _ in range(-(-wanted // size))]
    return torch.cat(orders)[:wanted]


def train(encoder: Any, drawn: list[Samples], seed: int, method: str, weight: float) -> tuple[Towers, float]:
    """Train towers from the seed's own start; returns them and the processor seconds of the steps."""
    towers = encoder.start(seed).train()
    decayed = [value for value in towers.parameters() if value.ndim >= 2]
    plain = [value for value in towers.parameters() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=encoder.lr, betas=(0.9, 0.98))
    pairs = torch.arange(2 * KNOWN).view(-1, 2)
    start = time.process_time()
    for step, batch in enumerate(drawn):
        for group in optimiser.param_groups:
            group["lr"] = encoder.lr * min(1.0, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / len(drawn))) / 2
        image, text = towers.images(batch.tokens), towers.texts(batch.words, batch.ends)
        false = None
        if rule := FALSE_TEXTS.get(method):
            words, ends = getattr(batch, f"{rule}_words"), getattr(batch, f"{rule}_ends")
            false = towers.texts(words[2 * KNOWN :], ends[2 * KNOWN :])
        features = Features(image, text, towers.scale(), pairs, false, (step + 1) / len(drawn))
        loss = (METHODS | TRANSFER)[method](features, weight)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return towers, time.process_time() - start


@torch.no_grad()
def evaluate(towers: Towers, data: Evaluation) -> dict[str, float]:
    """Group, text and image score by kind, their mean over the trained kinds, and recall at 1 both ways."""
    towers.eval()
    scores: dict[str, float] = {}
    for kind, samples in data.pairs.items():
        image, text = towers.images(samples.tokens), towers.texts(samples.words, samples.ends)
        two = torch.einsum("pid,pjd->pij", image.view(-1, 2, image.shape[1]), text.view(-1, 2, text.shape[1]))
        text_right = (two[:, 0, 0] > two[:, 0, 1]) & (two[:, 1, 1] > two[:, 1, 0])
        image_right = (two[:, 0, 0] > two[:, 1, 0]) & (two[:, 1, 1] > two[:, 0, 1])
        scores[f"text/{kind}"] = float(text_right.float().mean())
        scores[f"image/{kind}"] = float(image_right.float().mean())
        scores[f"group/{kind}"] = float((text_right & image_right).float().mean())
    samples = data.retrieval
    similar = towers.images(samples.tokens) @ towers.texts(samples.words, samples.ends).T
    rows = torch.arange(len(similar))
    to_text = data.same[rows, similar.argmax(dim=1)].float().mean()
    to_image = data.same[similar.argmax(dim=0), rows].float().mean()
    scores["r1"] = float(to_text + to_image) / 2
    scores["group"] = statistics.fmean(scores[f"group/{kind}"] for kind in TRAINED)
    return scores

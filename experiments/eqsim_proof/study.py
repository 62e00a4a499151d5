"""One run: which batches, which terms at which strengths, training, and what comes out on fresh pairs."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any, NamedTuple

import torch
from data import Evaluation, Samples, Training
from methods import ABSOLUTE, TERMS, base_of, contrastive
from towers import Towers

from eqsim.residuals import pair_differences

STEPS, BATCH, LR, WARMUP = 150, 128, 1e-3, 10


class Setting(NamedTuple):
    """How many pairs a batch holds, and of which kinds; the rest are random scenes."""

    pairs: int
    kinds: tuple[str, ...]


SETTINGS = {
    "main": Setting(32, ("attribute", "count")),
    "few": Setting(4, ("attribute", "count")),
    "none": Setting(0, ()),
    "attribute-only": Setting(32, ("attribute",)),
    "count-only": Setting(32, ("count",)),
}


def batches(data: Training, setting: Setting, seed: int) -> list[Samples]:
    """150 batches, the same for every method: the first rows are whole pairs, the others scenes."""
    generator = torch.Generator().manual_seed(seed)
    pools = [data.pairs[kind] for kind in setting.kinds]
    known = _join(pools) if pools else None
    singles = BATCH - 2 * setting.pairs
    pair_order = _epochs(0 if known is None else len(known) // 2, setting.pairs * STEPS, generator)
    scene_order = _epochs(len(data.scenes), singles * STEPS, generator)
    made = []
    for step in range(STEPS):
        scenes = data.scenes.take(scene_order[step * singles : (step + 1) * singles])
        if known is None:
            made.append(scenes)
            continue
        picked = pair_order[step * setting.pairs : (step + 1) * setting.pairs]
        rows = torch.stack([2 * picked, 2 * picked + 1], dim=1).flatten()
        made.append(_join([known.take(rows), scenes]))
    return made


def _join(parts: list[Samples]) -> Samples:
    return Samples(*(torch.cat([getattr(part, name) for part in parts]) for name in ("tokens", "words", "ends")))


def _epochs(size: int, wanted: int, generator: torch.Generator) -> torch.Tensor:
    rounds = -(-wanted // size) if size else 0
    orders = [torch.randperm(size, generator=generator) for _ in range(rounds)]
    return torch.cat(orders)[:wanted] if orders else torch.empty(0, dtype=torch.long)


def gradient_norm(loss: torch.Tensor, features: tuple[torch.Tensor, ...]) -> float:
    grads = torch.autograd.grad(loss, features, retain_graph=True)
    return float(torch.stack([grad.square().sum() for grad in grads]).sum().sqrt())


def train(
    model: Any, drawn: list[Samples], pairs: int, terms: dict[str, float]
) -> tuple[Towers, dict[str, float], float]:
    """Train fresh towers; returns them, the weight of each term, and the processor seconds of the steps."""
    torch.manual_seed(0)
    towers = Towers(model).train()
    decayed = [value for value in towers.parameters() if value.ndim >= 2]
    plain = [value for value in towers.parameters() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.98))
    known = torch.arange(2 * pairs).view(-1, 2)
    weights: dict[str, float] = {}
    start = time.process_time()
    for step, batch in enumerate(drawn):
        for group in optimiser.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / STEPS)) / 2
        image, text, scale = towers(batch)
        loss = contrastive(image, text, scale)
        for name, strength in terms.items():
            extra = TERMS[name](image, text, scale, known)
            if name not in weights:
                unit = 1.0
                if base_of(name) not in ABSOLUTE:
                    unit = gradient_norm(contrastive(image, text, scale), (image, text)) / gradient_norm(
                        extra, (image, text)
                    )
                weights[name] = strength * unit
            loss = loss + weights[name] * extra
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return towers, weights, time.process_time() - start


@torch.no_grad()
def evaluate(towers: Towers, data: Evaluation) -> dict[str, float]:
    """Group, text and image score by kind, |d|, |a| and M of the pairs, and recall at 1 both ways."""
    towers.eval()
    scores: dict[str, float] = {}
    for kind, samples in data.pairs.items():
        image, text, _ = towers(samples)
        known = torch.arange(len(samples)).view(-1, 2)
        two = torch.einsum("pid,pjd->pij", image.view(-1, 2, image.shape[1]), text.view(-1, 2, text.shape[1]))
        text_right = (two[:, 0, 0] > two[:, 0, 1]) & (two[:, 1, 1] > two[:, 1, 0])
        image_right = (two[:, 0, 0] > two[:, 1, 0]) & (two[:, 1, 1] > two[:, 0, 1])
        scores[f"text/{kind}"] = float(text_right.float().mean())
        scores[f"image/{kind}"] = float(image_right.float().mean())
        scores[f"group/{kind}"] = float((text_right & image_right).float().mean())
        d, a, twice_m = pair_differences(image @ text.T, known)
        scores[f"M/{kind}"] = float((twice_m / 2).median())
        scores[f"M>0/{kind}"] = float((twice_m > 0).float().mean())
        scores[f"d/{kind}"], scores[f"a/{kind}"] = float(d.abs().median()), float(a.abs().median())
    image, text, scale = towers(data.retrieval)
    similar = image @ text.T
    rows = torch.arange(len(similar))
    to_text = data.same[rows, similar.argmax(dim=1)].float().mean()
    to_image = data.same[similar.argmax(dim=0), rows].float().mean()
    scores["r1/to text"], scores["r1/to image"] = float(to_text), float(to_image)
    scores["r1"] = float(to_text + to_image) / 2
    scores["scale"] = float(scale)
    scores["group"] = statistics.fmean(scores[f"group/{kind}"] for kind in ("attribute", "count"))
    return scores

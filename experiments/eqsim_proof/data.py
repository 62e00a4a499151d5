"""Scenes, captions and certified pairs of the micro world, and what micro-clip's fixed blocks make of the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eqben_builder.micro import caption, generator_at, minimal_pair, render, scene_at

SCENES, PAIRS = 4800, 2400
TEST_KINDS = ("attribute", "count", "relation")
TEST_PAIRS, RETRIEVAL = 300, 400


@dataclass
class Samples:
    """Image tokens as they enter the last block, token ids cut after the longest text, and where each text ends."""

    tokens: torch.Tensor
    words: torch.Tensor
    ends: torch.Tensor

    def take(self, rows: Any) -> Samples:
        """Return some rows."""
        return Samples(self.tokens[rows], self.words[rows], self.ends[rows])

    def __len__(self) -> int:
        return len(self.ends)


@torch.no_grad()
def encode(model: Any, tokenizer: Any, images: np.ndarray, texts: list[str], batch: int = 128) -> Samples:
    """Run the image blocks below the last; the text tower is trained whole, so texts stay token ids."""
    caught: list[torch.Tensor] = []
    hook = model.visual.transformer.resblocks[-1].register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    mean, std = (torch.tensor(getattr(model.visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
    kept = []
    for start in range(0, len(images), batch):
        pixels = torch.from_numpy(images[start : start + batch]).permute(0, 3, 1, 2).float() / 255
        with torch.autocast("cpu", torch.bfloat16):
            model.encode_image((pixels - mean) / std)
        kept.append(caught.pop().to(torch.bfloat16))
    hook.remove()
    words = tokenizer(texts)
    ends = (words == tokenizer.end_id).int().argmax(dim=1)
    return Samples(torch.cat(kept), words, ends)


def draw_scenes(seed: int, count: int, kind: str | None = None) -> tuple[np.ndarray, list[str]]:
    scenes = [scene_at(seed, index, (1, 4)) for index in range(count)]
    texts = [caption(scene, generator_at(seed + 1, index), kind=kind) for index, scene in enumerate(scenes)]
    images = np.concatenate([render(scenes[start : start + 256]).images for start in range(0, count, 256)])
    return images, texts


def draw_pairs(seed: int, count: int, kind: str) -> tuple[np.ndarray, list[str]]:
    """Pictures and captions, two rows for each pair."""
    drawn = [minimal_pair(generator_at(seed, index), kind) for index in range(count)]
    images = render([scene for pair in drawn for scene in (pair.scene0, pair.scene1)]).images
    return images, [text for pair in drawn for text in (pair.caption0, pair.caption1)]


@dataclass
class Training:
    """Random scenes, and pairs (rows 2k and 2k + 1) of two kinds, half each."""

    scenes: Samples
    pairs: dict[str, Samples]


@dataclass
class Evaluation:
    """Fresh pairs of each kind, and scenes with captions for retrieval; `same` marks captions that read alike."""

    pairs: dict[str, Samples]
    retrieval: Samples
    same: torch.Tensor


def training_data(model: Any, tokenizer: Any, seed: int) -> Training:
    scenes = encode(model, tokenizer, *draw_scenes(seed, SCENES))
    kinds = {kind: draw_pairs(seed + 10 + number, PAIRS // 2, kind) for number, kind in enumerate(TEST_KINDS[:2])}
    return Training(scenes, {kind: encode(model, tokenizer, *drawn) for kind, drawn in kinds.items()})


def evaluation_data(model: Any, tokenizer: Any, seed: int) -> Evaluation:
    pairs = {
        kind: encode(model, tokenizer, *draw_pairs(seed + 20 + number, TEST_PAIRS, kind))
        for number, kind in enumerate(TEST_KINDS)
    }
    images, texts = draw_scenes(seed + 30, RETRIEVAL, "exists")
    same = torch.tensor([[left == right for right in texts] for left in texts])
    return Evaluation(pairs, encode(model, tokenizer, images, texts), same)

"""The encoders: heads on frozen micro-clip, and its last blocks."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from data import Drawn, Samples, tokenise
from torch import nn

from vision_features.encoders.micro_clip import load_micro_clip

NOISE = 0.05
"""Of each weight tensor's standard deviation, added to micro-clip: seeds share no start."""


class Towers(nn.Module):
    """Unit features of pictures and of texts, and the scale."""

    log_scale: nn.Parameter

    def scale(self) -> torch.Tensor:
        """The number that logits are multiplied by, 100 at most."""
        return self.log_scale.clamp(max=math.log(100)).exp()


class MicroTowers(Towers):
    """The last image block with its norm and projection, the text tower and the scale of micro-clip."""

    def __init__(self, model: Any, seed: int) -> None:
        super().__init__()
        self.block = copy.deepcopy(model.visual.transformer.resblocks[-1])
        self.norm = copy.deepcopy(model.visual.ln_post)
        self.projection = nn.Parameter(model.visual.proj.detach().clone())
        self.words = copy.deepcopy(model.token_embedding)
        self.places = nn.Parameter(model.positional_embedding.detach().clone())
        self.text = copy.deepcopy(model.transformer)
        self.text_norm = copy.deepcopy(model.ln_final)
        self.text_projection = nn.Parameter(model.text_projection.detach().clone())
        self.log_scale = nn.Parameter(model.logit_scale.detach().clone())
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in self.parameters():
                if weight.ndim >= 2:
                    weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)

    def images(self, tokens: torch.Tensor) -> torch.Tensor:
        """The last block, for the class token, which is all that is pooled."""
        x = block_at(self.block, tokens.float(), torch.zeros(len(tokens), dtype=torch.long), None)
        return nn.functional.normalize(self.norm(x) @ self.projection, dim=1)

    def texts(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Texts of about one length at a time: the end token sees nothing behind it."""
        order = ends.argsort()
        texts = [self._texts(words[rows], ends[rows]) for rows in order.split(32)]
        return torch.cat(texts)[order.argsort()]

    def _texts(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        length = int(ends.max()) + 1
        x = self.words(words[:, :length]) + self.places[:length]
        later = torch.full((length, length), float("-inf")).triu_(1)
        *blocks, last = self.text.resblocks
        for block in blocks:
            x = block(x, attn_mask=later)
        x = block_at(last, x, ends, torch.arange(length)[None] > ends[:, None])
        return nn.functional.normalize(self.text_norm(x) @ self.text_projection, dim=1)


class HeadTowers(Towers):
    """Frozen features of micro-clip through a residual layer on each side, whose random weights are the seed's."""

    def __init__(self, scale: torch.Tensor, seed: int, width: int = 128, hidden: int = 256) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.image, self.text = (
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)) for _ in range(2)
        )
        self.log_scale = nn.Parameter(scale.detach().clone())

    def images(self, tokens: torch.Tensor) -> torch.Tensor:
        """Unit features from unit features."""
        return nn.functional.normalize(tokens + self.image(tokens), dim=1)

    def texts(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Unit features from unit features."""
        return nn.functional.normalize(words + self.text(words), dim=1)


def block_at(block: Any, x: torch.Tensor, at: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
    """A residual attention block's output at one position of each row.

    One query needs no keys and values of every token: q . (W x) = (W^T q) . x, and the mean of W x is W times the mean.
    """
    rows, heads, width = torch.arange(len(x)), block.attn.num_heads, x.shape[2]
    normed = block.ln_1(x)
    to_query, to_key, to_value = block.attn.in_proj_weight.view(3, heads, width // heads, width)
    bias_query, _, bias_value = block.attn.in_proj_bias.view(3, heads, width // heads)
    query = torch.einsum("bd,hed->bhe", normed[rows, at], to_query) + bias_query
    scores = torch.einsum("bhe,hed->bhd", query, to_key) @ normed.mT / (width // heads) ** 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden[:, None], float("-inf"))
    attended = torch.einsum("bhd,hed->bhe", scores.softmax(dim=2) @ normed, to_value) + bias_value
    x = x[rows, at] + block.ls_1(block.attn.out_proj(attended.flatten(1)))
    return x + block.ls_2(block.mlp(block.ln_2(x)))


class MicroClip:
    """micro-clip, fine-tuned: 150 steps at 1e-3."""

    steps, lr = 150, 1e-3

    def __init__(self) -> None:
        self.model, self.tokenizer = load_micro_clip()

    def start(self, seed: int) -> Towers:
        """Fresh towers."""
        return MicroTowers(self.model, seed)

    @torch.no_grad()
    def encode(self, drawn: Drawn, batch: int = 128) -> Samples:
        """Run the image blocks below the last, which are not trained."""
        images, texts = drawn
        visual = self.model.visual
        caught: list[torch.Tensor] = []
        hook = visual.transformer.resblocks[-1].register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
        mean, std = (torch.tensor(getattr(visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
        tokens = []
        for start in range(0, len(images), batch):
            pixels = torch.from_numpy(images[start : start + batch]).permute(0, 3, 1, 2).float() / 255
            with torch.autocast("cpu", torch.bfloat16):
                self.model.encode_image((pixels - mean) / std)
            tokens.append(caught.pop().to(torch.bfloat16))
        hook.remove()
        return tokenise(self.tokenizer, torch.cat(tokens), texts)


class Heads(MicroClip):
    """Heads on frozen micro-clip: 300 steps at 1e-3."""

    steps, lr = 300, 1e-3

    def start(self, seed: int) -> Towers:
        """Fresh heads."""
        return HeadTowers(self.model.logit_scale, seed)

    @torch.no_grad()
    def encode(self, drawn: Drawn, batch: int = 256) -> Samples:
        """Encode pictures, captions and false captions by the whole model."""
        images, texts = drawn
        visual = self.model.visual
        mean, std = (torch.tensor(getattr(visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
        rows = []
        for start in range(0, len(images), batch):
            pixels = torch.from_numpy(images[start : start + batch]).permute(0, 3, 1, 2).float() / 255
            with torch.autocast("cpu", torch.bfloat16):
                rows.append(self.model.encode_image((pixels - mean) / std, normalize=True).float())
        samples = tokenise(self.tokenizer, torch.cat(rows), texts)
        for name in ("words", "false_words", "swapped_words"):
            parts = getattr(samples, name).split(batch)
            setattr(samples, name, torch.cat([self.model.encode_text(part, normalize=True) for part in parts]))
        return samples


ENCODERS = {"heads": Heads, "micro-clip": MicroClip}

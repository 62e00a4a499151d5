"""The trained part of micro-clip: the last image block with its norm and projection, the text tower, the scale."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from data import Samples, draw_scenes, encode
from torch import nn


class Towers(nn.Module):
    """Unit features of images that the blocks below the last have seen, and of texts."""

    def __init__(self, model: Any) -> None:
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

    def forward(self, samples: Samples) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return unit image features, unit text features and the scale."""
        scale = self.log_scale.clamp(max=math.log(100)).exp()
        return self.images(samples.tokens.float()), self.texts(samples.words, samples.ends), scale

    def images(self, tokens: torch.Tensor) -> torch.Tensor:
        """The last block, for the class token, which is all that is pooled."""
        x = block_at(self.block, tokens, torch.zeros(len(tokens), dtype=torch.long), None)
        return nn.functional.normalize(self.norm(x) @ self.projection, dim=1)

    def texts(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """The text tower on texts of about one length at a time: the end token sees nothing behind it."""
        order = ends.argsort()
        found = [self._texts(words[rows], ends[rows]) for rows in order.split(32)]
        return torch.cat(found)[order.argsort()]

    def _texts(self, words: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        length = int(ends.max()) + 1
        x = self.words(words[:, :length]) + self.places[:length]
        later = torch.full((length, length), float("-inf")).triu_(1)
        *blocks, last = self.text.resblocks
        for block in blocks:
            x = block(x, attn_mask=later)
        x = block_at(last, x, ends, torch.arange(length)[None] > ends[:, None])
        return nn.functional.normalize(self.text_norm(x) @ self.text_projection, dim=1)


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
    seen = torch.einsum("bhd,hed->bhe", scores.softmax(dim=2) @ normed, to_value) + bias_value
    x = x[rows, at] + block.ls_1(block.attn.out_proj(seen.flatten(1)))
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def check_towers(model: Any, tokenizer: Any) -> None:
    """Stop unless the towers are the model itself (up to the bfloat16 of the blocks below)."""
    images, texts = draw_scenes(1, 8)
    with torch.no_grad():
        ours = Towers(model).eval()(encode(model, tokenizer, images, texts))
        mean, std = (torch.tensor(getattr(model.visual, name)).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
        pixels = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - mean) / std
        theirs = model.encode_image(pixels, normalize=True), model.encode_text(tokenizer(texts), normalize=True)
    for name, mine, whole, allowed in zip(("image", "text"), ours, theirs, (0.1, 1e-4), strict=False):
        distance = float((mine - whole).norm(dim=1).max())
        if distance > allowed:
            raise RuntimeError(f"{name} features differ from the model's by {distance:.3g}, expected < {allowed}")

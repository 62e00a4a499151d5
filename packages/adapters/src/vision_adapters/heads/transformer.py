"""A small pre-norm transformer over tokens, shared by the heads for masks, questions and clips.

`torch.nn.TransformerEncoderLayer(norm_first=True)` is the same function from another random start: heads of one seed
would end with other weights.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


def sinusoidal_positions(length: int, width: int, device: torch.device | None = None) -> Float[Tensor, "length width"]:
    r"""Fixed positions: $\sin(p\,\omega_i)$, then $\cos(p\,\omega_i)$, with $\omega_i = 10000^{-2i/\text{width}}$.

    Source: Vaswani et al. (2017), section 3.5, with the columns reordered.
    """
    rates = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2, device=device) / width)
    angles = torch.arange(length, device=device)[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Block(nn.Module):
    """Self-attention and a two-layer perceptron, each after a layer norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width < 2 or heads < 1 or width % heads or width % 2:
            raise ValueError(f"width must be even and a multiple of heads, got width={width}, heads={heads}")
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Float[Tensor, "n t w"], keep: Bool[Tensor, "n t"] | None = None) -> Float[Tensor, "n t w"]:
        """Mix the tokens; those where `keep` is False are not attended to."""
        n, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mask = None if keep is None else keep[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, w))
        added: Tensor = self.mlp(self.norm2(x))
        return x + added

    def first(self, x: Float[Tensor, "n t w"], keep: Bool[Tensor, "n t"] | None = None) -> Float[Tensor, "n w"]:
        """Return the first token of `forward`; of the others, keys and values alone are computed."""
        n, t, w = x.shape
        normed, weight, bias = self.norm1(x), self.qkv.weight, self.qkv.bias
        q = F.linear(normed[:, :1], weight[:w], bias[:w]).view(n, 1, self.heads, -1).transpose(1, 2)
        k, v = F.linear(normed, weight[w:], bias[w:]).view(n, t, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = None if keep is None else keep[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        read: Tensor = x[:, 0] + self.out(mixed.reshape(n, w))
        added: Tensor = self.mlp(self.norm2(read))
        return read + added


class Transformer(nn.Module):
    """`depth` blocks and a final layer norm."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth must be at least 1, got {depth}")
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Float[Tensor, "n t w"], keep: Bool[Tensor, "n t"] | None = None) -> Float[Tensor, "n t w"]:
        """Mix the tokens through every block."""
        for block in self.blocks:
            x = block(x, keep)
        normed: Tensor = self.norm(x)
        return normed

    def first(self, x: Float[Tensor, "n t w"], keep: Bool[Tensor, "n t"] | None = None) -> Float[Tensor, "n w"]:
        """Return the first token of `forward`, for heads that read no other: the last block computes it alone."""
        for block in self.blocks[:-1]:
            x = block(x, keep)
        normed: Tensor = self.norm(cast("Block", self.blocks[-1]).first(x, keep))
        return normed

"""A read-out that learns which places of an image to look at."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class AttentiveHead(nn.Module):
    r"""Scores from patch tokens: one learned query attends to them, and a linear layer reads what it gathers.

    With z the tokens on the scale that they come on, and each of h queries $q_j$ of the model's width over h,
    $a_j = \mathrm{softmax}(q_j \cdot K_j z / \sqrt{d/h})$; scores are $W\,\mathrm{norm}([a_1^\top V_1 z, \dots]) + b$.
    Queries start at 0, so that every place counts the same: at the start the head is a linear one on the mean.

    Args:
        dim: numbers per token, a multiple of `heads`.
        outputs: classes or regressed numbers, k >= 1.
        heads: queries, each with a share of the channels.

    Example:
        >>> AttentiveHead(8, 3)(torch.randn(2, 49, 8)).shape
        torch.Size([2, 3])

    Source:
        The attentive probe of Yu et al., CoCa (2022), and Bardes et al., V-JEPA (2024), without their perceptron.
    """

    def __init__(self, dim: int, outputs: int, *, heads: int = 4) -> None:
        super().__init__()
        if dim < 1 or outputs < 1 or heads < 1 or dim % heads:
            raise ValueError(f"dim must be a multiple of heads, got dim={dim}, heads={heads}, outputs={outputs}")
        self.queries = nn.Parameter(torch.zeros(heads, dim // heads))
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)
        self.last = nn.Linear(dim, outputs)

    def attention(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n h t"]:
        """How much each query looks at each place; of each query, they sum to 1."""
        heads, width = self.queries.shape
        keys = self.key(tokens).unflatten(2, (heads, width))
        weights: Tensor = torch.einsum("nthw,hw->nht", keys, self.queries).div(math.sqrt(width)).softmax(2)
        return weights

    def forward(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n k"]:
        """Scores of each image."""
        values = self.value(tokens).unflatten(2, self.queries.shape)
        gathered = torch.einsum("nht,nthw->nhw", self.attention(tokens), values).flatten(1)
        scores: Tensor = self.last(self.norm(gathered))
        return scores

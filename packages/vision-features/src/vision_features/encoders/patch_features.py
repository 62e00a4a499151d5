"""Patch features in the texts' space, by named variants: what the last block of a tower attends to decides them.

An encoder that was trained on one vector an image gives poor features of single patches. Each variant here changes the
attention of the last block, and takes each patch through the rest of the tower as if it were the whole image: the norm,
the pooling (class token, mean or attention) and the projection. No model is copied, and no weight changes: two methods
of the last block are replaced while a batch passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vision_features.encoders.attention import Heads, weighted
from vision_features.encoders.encoder import PatchFeatures
from wary_files.errors import unknown

if TYPE_CHECKING:
    from jaxtyping import Float

Attend = Callable[[Heads, tuple[int, int], int], "Float[Tensor, 'n h t d']"]
"""Of heads, the grid of patches and the number of tokens before them, to what each token gathers."""


def values_alone(heads: Heads, grid: tuple[int, int], prefix: int) -> Float[Tensor, "n h t d"]:
    """Let each token attend to itself alone: ``v``.

    Source: Zhou, Loy and Dai, Extract Free Dense Labels from CLIP (MaskCLIP), ECCV 2022.
    """
    return heads.values


def correlative(heads: Heads, grid: tuple[int, int], prefix: int) -> Float[Tensor, "n h t d"]:
    """Attend by queries to queries and by keys to keys: ``(softmax(q q) + softmax(k k)) v``; the weights add up to 2.

    Source: Wang, Mei and Yuille, SCLIP: Rethinking Self-Attention for Dense Vision-Language Inference, ECCV 2024.
    """
    attend = F.scaled_dot_product_attention
    by_queries = attend(heads.queries, heads.queries, heads.values)
    return by_queries + attend(heads.keys, heads.keys, heads.values)


def query_query(heads: Heads, grid: tuple[int, int], prefix: int) -> Float[Tensor, "n h t d"]:
    """Attend by queries to queries: ``softmax(q q) v``.

    Source: Lan et al., ClearCLIP: Decomposing CLIP Representations for Dense Vision-Language Inference, ECCV 2024.
    """
    return F.scaled_dot_product_attention(heads.queries, heads.queries, heads.values)


NEIGHBOURHOOD = 5.0
"""Standard deviation of NACLIP's window, in patches."""


def neighbourhood(
    grid: tuple[int, int], prefix: int, deviation: float = NEIGHBOURHOOD, **like: Any
) -> Float[Tensor, "t t"]:
    """Return ``exp(-distance^2 / (2 deviation^2))`` between patches, in patches; 0 for tokens before them."""
    rows, columns = (torch.arange(side, **like) for side in grid)
    down = (rows[:, None] - rows).square()
    across = (columns[:, None] - columns).square()
    squared = (down[:, None, :, None] + across[None, :, None, :]).flatten(2).flatten(0, 1)
    return F.pad(torch.exp(-squared / (2 * deviation**2)), (prefix, 0, prefix, 0))


def key_key_near(heads: Heads, grid: tuple[int, int], prefix: int) -> Float[Tensor, "n h t d"]:
    """Attend by keys to keys, the nearer the more: ``softmax(k k + window) v``, see `neighbourhood`.

    Source: Hajimiri, Ben Ayed and Dolz, Pay Attention to Your Neighbours (NACLIP), WACV 2025.
    """
    window = neighbourhood(grid, prefix, dtype=heads.keys.dtype, device=heads.keys.device)
    return F.scaled_dot_product_attention(heads.keys, heads.keys, heads.values, attn_mask=window)


BETA, GAMMA = 1.2, 3.0
"""ProxyCLIP's share of the mean similarity that is taken off, and the factor behind it."""


def proxy_weights(features: Float[Tensor, "n t e"], beta: float = BETA, gamma: float = GAMMA) -> Float[Tensor, "n t t"]:
    """Return ``softmax(gamma (s - beta mean(s)))`` of the cosines ``s`` of an image; nothing attends below 0.

    The mean is over one image. The published code takes it over a batch, which holds one window there.
    """
    unit = F.normalize(features.float(), dim=-1)
    cosines = unit @ unit.transpose(1, 2)
    scores = gamma * (cosines - beta * cosines.mean(dim=(1, 2), keepdim=True))
    return scores.masked_fill(scores < 0, float("-inf")).softmax(dim=-1)


def by_proxy(proxy: PatchFeatures) -> Attend:
    """Attend as a second encoder's patches are alike: its similarities over this encoder's values, on its grid.

    Source: Lan et al., ProxyCLIP: Proxy Attention Improves CLIP for Open-Vocabulary Segmentation, ECCV 2024.
    """

    def attend(heads: Heads, grid: tuple[int, int], prefix: int) -> Tensor:
        count, number, _, width = heads.values.shape
        places = heads.values[:, :, prefix:].transpose(2, 3).reshape(count, number * width, *grid)
        if grid != proxy.grid:
            places = F.interpolate(places, proxy.grid, mode="bilinear", align_corners=False)
        on_grid = places.reshape(count, number, width, -1).transpose(2, 3)
        return weighted(proxy_weights(proxy.tokens), on_grid)

    return attend


@dataclass(frozen=True)
class Variant:
    """A way to patch features.

    Args:
        name: on the command line.
        attend: of the last block's heads; None leaves the block as it is.
        whole: whether the block's residual and MLP follow, or its attention alone is what a patch is.
        source: paper and code.
        proxy: whether a second encoder's patches are needed.
    """

    name: str
    attend: Attend | None
    whole: bool
    source: str
    proxy: bool = False


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("class-token", None, True, "CLIP as it is: each patch through the projection of the class token"),
        Variant("maskclip", values_alone, True, "MaskCLIP, ECCV 2022; chongzhou96/MaskCLIP 245d31f"),
        Variant("value", values_alone, False, "MaskCLIP without residual and MLP, as ClearCLIP compares; ad68a40"),
        Variant("sclip", correlative, True, "SCLIP, ECCV 2024; wangf3014/SCLIP b56bd30"),
        Variant("clearclip", query_query, False, "ClearCLIP, ECCV 2024; mc-lan/ClearCLIP ad68a40"),
        Variant("naclip", key_key_near, False, "NACLIP, WACV 2025; sinahmr/NACLIP 0cac3a6"),
        Variant("proxyclip", None, False, "ProxyCLIP, ECCV 2024; mc-lan/ProxyCLIP e7b767f", proxy=True),
    )
}
"""Every variant by its name, in the order in which tables show them."""


def find_variant(name: str) -> Variant:
    """Return the variant of a name.

    Raises:
        UsageError: there is none; the message shows the nearest.
    """
    if name not in VARIANTS:
        raise unknown("patch features", name, VARIANTS)
    return VARIANTS[name]

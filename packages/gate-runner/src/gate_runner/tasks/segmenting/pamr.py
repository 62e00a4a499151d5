"""Pixel-adaptive refinement (PAMR): scores flow to neighbours whose colours are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

DILATIONS, STEPS = (8, 16), 10
"""Distances of neighbours in pixels, and how often scores flow, as SCLIP and NACLIP have them."""
_AROUND = tuple((down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across)
_SHARPNESS = 0.1


def _shifted(maps: Float[Tensor, "k h w"], down: int, across: int, by: int) -> Float[Tensor, "k h w"]:
    """Return the neighbour at a distance of each pixel; pixels beyond an edge are those of the edge."""
    high, wide = maps.shape[-2:]
    rows = (torch.arange(high, device=maps.device) + down * by).clamp(0, high - 1)
    columns = (torch.arange(wide, device=maps.device) + across * by).clamp(0, wide - 1)
    return maps[:, rows][:, :, columns]


def affinities(image: Float[Tensor, "3 h w"], dilations: tuple[int, ...] = DILATIONS) -> Float[Tensor, "p h w"]:
    r"""Return how much each pixel takes of each of its 8 neighbours at each distance.

    ``softmax_p(mean_c(-|x - x_p| / (0.1 std)))``, where ``std`` is that of a channel over a pixel and its neighbours at
    all distances (the pixel once for each distance).

    Source: Araslanov and Roth, Single-Stage Semantic Segmentation from Image Labels, CVPR 2020.
    """
    shifts = [(down, across, by) for by in dilations for down, across in _AROUND]
    count = len(shifts) + len(dilations)
    total, squares = len(dilations) * image, len(dilations) * image.square()
    for shift in shifts:
        neighbour = _shifted(image, *shift)
        total = total + neighbour
        squares = squares + neighbour.square()
    variance = ((squares - total.square() / count) / (count - 1)).clamp_min(0)
    width = 1e-8 + _SHARPNESS * variance.sqrt()
    alike = torch.stack([(-(image - _shifted(image, *shift)).abs() / width).mean(dim=0) for shift in shifts])
    return F.softmax(alike, dim=0)


def refined(
    maps: Float[Tensor, "k h w"],
    weights: Float[Tensor, "p h w"],
    dilations: tuple[int, ...] = DILATIONS,
    steps: int = STEPS,
) -> Float[Tensor, "k h w"]:
    """Return maps after some steps, in each of which a pixel is the weighted mean of its neighbours."""
    shifts = [(down, across, by) for by in dilations for down, across in _AROUND]
    for _ in range(steps):
        following = torch.zeros_like(maps)
        for weight, shift in zip(weights, shifts, strict=True):
            following += weight * _shifted(maps, *shift)
        maps = following
    return maps

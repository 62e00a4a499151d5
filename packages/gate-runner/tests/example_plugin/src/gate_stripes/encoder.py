"""``edges:N``: differences between neighbouring pixels, averaged over an N x N grid."""

from __future__ import annotations

import torch
from torch import nn


class Edges(nn.Module):
    """Mean absolute differences across and down.

    Args:
        cells: of the grid, along each side.
    """

    image_size = 32

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.cells = cells

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features ``[n, 6 * cells * cells]``."""
        across = images.diff(dim=3).abs()
        down = images.diff(dim=2).abs()
        pooled = [nn.functional.adaptive_avg_pool2d(gradient, self.cells).flatten(1) for gradient in (across, down)]
        return torch.cat(pooled, dim=1)


def edges(text: str) -> Edges:
    """Make the encoder from what stands behind the colon."""
    return Edges(int(text))

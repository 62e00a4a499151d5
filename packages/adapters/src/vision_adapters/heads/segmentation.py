"""Masks from patch tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.heads.transformer import Transformer

DETAIL = 16  # channels of the full-resolution map
LARGEST_BLOCK = 16  # pixels along a side that one token draws; above, the map is enlarged


class SegmentationHead(nn.Module):
    """Class scores for each pixel from a grid of tokens.

    The tokens pass a transformer. Each then draws its own block of pixels (a linear map to DETAIL channels per pixel),
    which keeps the position that the token knows inside its patch; the smooth enlargement of the tokens is added, and
    two 3x3 convolutions join the blocks. On CUDA the backward pass of the enlargement adds in no fixed order.

    Args:
        dim: numbers per token, d.
        classes: k, background included.
        grid: (h, w), rows and columns of tokens, row-major.
        size: (H, W) of the masks in pixels, at least the grid.
        tokens: rows and columns to which tokens are enlarged before the transformer; by default the grid.
        width: of the transformer.
        depth: of the transformer.
        heads: of the transformer.

    Example:
        >>> SegmentationHead(12, 3, grid=(2, 2), size=(10, 8), width=16)(torch.randn(5, 4, 12)).shape
        torch.Size([5, 3, 10, 8])

    Source:
        GATE uses 8 blocks of width 1024 on 64 x 64 tokens and a bicubic enlargement by 4; its tokens are 16 pixels at
        1024. Drawing the block from the token, and tokens of a coarser grid enlarged to 64 x 64, are ours.
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        grid: tuple[int, int],
        size: tuple[int, int],
        tokens: tuple[int, int] | None = None,
        width: int = 256,
        depth: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__()
        if dim < 1 or classes < 1 or min(grid) < 1:
            raise ValueError(f"dim, classes and grid must be at least 1, got dim={dim}, classes={classes}, grid={grid}")
        self.given = grid
        grid = tokens or grid
        if size[0] < grid[0] or size[1] < grid[1]:
            raise ValueError(f"size must be at least the grid, got size={size}, grid={grid}")
        self.grid, self.size = grid, size
        self.block = tuple(min(LARGEST_BLOCK, -(-pixels // cells)) for pixels, cells in zip(size, grid, strict=True))
        self.enter = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width))
        self.position = nn.Parameter(torch.randn(1, grid[0] * grid[1], width) * 0.02)
        self.mix = Transformer(width, depth, heads)
        self.draw = nn.Linear(width, DETAIL * self.block[0] * self.block[1])
        self.smooth = nn.Linear(width, DETAIL)
        self.join = nn.Sequential(
            nn.Conv2d(DETAIL, 2 * DETAIL, 3, padding=1), nn.GELU(),
            nn.Conv2d(2 * DETAIL, 2 * DETAIL, 3, padding=1), nn.GELU(),
            nn.Conv2d(2 * DETAIL, classes, 1),
        )  # fmt: skip

    def forward(self, tokens: Float[Tensor, "n t d"]) -> Float[Tensor, "n k H W"]:
        """Scores of each class at each pixel."""
        (h, w), (bh, bw), (rows, columns) = self.grid, self.block, self.given
        if tokens.ndim != 3 or tokens.shape[1] != rows * columns:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}, expected [n, {rows * columns}, d] for a grid of "
                f"{rows} x {columns}"
            )
        entered = self.enter(tokens)
        if self.grid != self.given:
            entered = entered.transpose(1, 2).reshape(len(tokens), -1, rows, columns)
            entered = F.interpolate(entered, (h, w), mode="bicubic", align_corners=False).flatten(2).transpose(1, 2)
        x = self.mix(entered + self.position)
        drawn = self.draw(x).view(-1, h, w, DETAIL, bh, bw).permute(0, 3, 1, 4, 2, 5)
        drawn = drawn.reshape(-1, DETAIL, h * bh, w * bw)
        if drawn.shape[-2:] != self.size:
            drawn = F.interpolate(drawn, self.size, mode="bilinear", align_corners=False)
        smooth = self.smooth(x).transpose(1, 2).reshape(-1, DETAIL, h, w)
        smooth = F.interpolate(smooth, self.size, mode="bilinear", align_corners=False)
        scores: Tensor = self.join(drawn + smooth)
        return scores

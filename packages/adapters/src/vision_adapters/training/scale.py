"""Features on one scale, whatever the encoder's own."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.rows import Rows
from vision_adapters.rows.counting import blocks_of

_CHUNK = 4_000_000
"""Numbers that are looked at together where rows are not all in memory."""
_FLAT, _LEAST = 1e-6, 1e-6
"""Of a channel's largest magnitude: one that varies by less holds nothing; and the least deviation."""


class Scale(nn.Module):
    """Mean 0 and standard deviation 1 in every channel, as measured on the training split.

    Example:
        >>> Scale.of(torch.tensor([[1.0], [3.0]]))(torch.tensor([[5.0]]))
        tensor([[3.]])
    """

    def __init__(self, mean: Float[Tensor, " d"], std: Float[Tensor, " d"]) -> None:
        super().__init__()
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)
        self.mean: Tensor
        self.std: Tensor

    @classmethod
    def of(cls, rows: Rows, mask: Tensor | None = None) -> Scale:
        """Measured on rows whose last axis is the channel, where a mask ``[n, l]`` is True."""
        if isinstance(rows, Tensor):
            flat = rows.reshape(-1, rows.shape[-1]) if mask is None else rows[mask]
            flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat  # sums of halves overflow
            return cls(flat.mean(dim=0), _spread(flat.std(dim=0, correction=0), flat.abs().amax(dim=0)))
        count, total, square = 0, torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        largest = torch.zeros(1, dtype=torch.float64)
        centre: Tensor | None = None
        for numbers in blocks_of(rows, _CHUNK):
            part = rows[numbers]
            flat = (part.reshape(-1, part.shape[-1]) if mask is None else part[mask[numbers]]).double()
            centre = flat.mean(dim=0) if centre is None else centre  # near the mean, so that squares do not cancel
            moved, largest = flat - centre, torch.maximum(largest, flat.abs().amax(dim=0))
            count, total, square = count + len(flat), total + moved.sum(dim=0), square + moved.square().sum(dim=0)
        assert centre is not None
        mean = total / count
        std = (square / count - mean.square()).clamp_min(0).sqrt()
        return cls((centre + mean).float(), _spread(std, largest).float())

    def forward(self, features: Float[Tensor, "n *places d"]) -> Float[Tensor, "n *places d"]:
        """The same features, centred and scaled."""
        return (features - self.mean) / self.std


def _spread(std: Float[Tensor, " d"], largest: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
    """The deviations to divide by: 1 for a channel that never varies, whose mean in float32 is not its value."""
    return torch.where(std > _FLAT * largest, std.clamp_min(_LEAST), torch.ones_like(std))

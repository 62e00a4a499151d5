"""Two trained projections that bring images and texts into one space."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_MOST_SCALE = 100.0


class Projections(nn.Module):
    """Image and text side by side: unit vectors of both, and the scale of their cosines, at most 100.

    Args:
        image_dim: numbers of an image's features.
        text_dim: numbers of a text's features.
        width: of the common space.

    Example:
        >>> Projections(4, 6, 8)(torch.zeros(2, 4), torch.zeros(2, 5, 6)).shape
        torch.Size([2, 6, 8])
    """

    def __init__(self, image_dim: int, text_dim: int, width: int) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(image_dim, width), nn.Linear(text_dim, width)
        self.log_scale = nn.Parameter(torch.tensor(float(np.log(1 / 0.07))))

    def forward(self, image: Float[Tensor, "n d"], texts: Float[Tensor, "n t e"]) -> Float[Tensor, "n 1+t width"]:
        """Images first, then the texts of each, times the scale."""
        scale = self.log_scale.exp().clamp_max(_MOST_SCALE)
        texts = F.normalize(self.text(texts), dim=-1) * scale
        return torch.cat([F.normalize(self.image(image), dim=-1)[:, None], texts], dim=1)

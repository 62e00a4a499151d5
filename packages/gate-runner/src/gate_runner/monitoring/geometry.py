"""What features look like without any labels: effective rank, alignment, uniformity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def effective_rank(features: Float[Tensor, "n d"]) -> float:
    """RankMe: the exponential of the entropy of the singular values, 1 to min(n, d).

    Example:
        >>> round(effective_rank(torch.eye(4)), 3)
        4.0

    Source:
        Garrido et al., RankMe (2023), equation 1.
    """
    values = torch.linalg.svdvals(features.double())
    shares = values / values.sum().clamp_min(1e-30) + 1e-7
    return float((-(shares * shares.log()).sum()).exp())


def alignment(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> float:
    """Mean squared distance of two views' unit features, 0 to 4; lower is better.

    Example:
        >>> alignment(torch.eye(2), 3 * torch.eye(2))
        0.0

    Source:
        Wang and Isola (2020), equation 2 with alpha = 2.
    """
    return float((F.normalize(first, dim=1) - F.normalize(second, dim=1)).square().sum(dim=1).mean())


def uniformity(features: Float[Tensor, "n d"]) -> float:
    """Log of the mean Gaussian potential between unit features, at most 0; lower is better.

    Example:
        >>> uniformity(torch.ones(3, 2))
        0.0

    Source:
        Wang and Isola (2020), equation 3 with t = 2.
    """
    squared = torch.pdist(F.normalize(features.double(), dim=1)).square()
    return float((-2 * squared).exp().mean().log()) if len(squared) else 0.0

"""Losses that detection heads share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def focal_loss(
    logits: Float[Tensor, "*n"], truth: Float[Tensor, "*n"], *, alpha: float = 0.25, gamma: float = 2.0
) -> Float[Tensor, "*n"]:
    r"""Sigmoid focal loss $-\alpha_t (1 - p_t)^\gamma \log p_t$, one value per logit.

    Args:
        logits: any shape.
        truth: 0 or 1, likewise.
        alpha: weight of the ones; that of the zeros is 1 - alpha.
        gamma: how far easy ones are left aside.

    Example:
        >>> import torch
        >>> bool(focal_loss(torch.tensor(4.0), torch.tensor(1.0)) < focal_loss(torch.tensor(0.0), torch.tensor(1.0)))
        True

    Source:
        Lin et al., Focal Loss for Dense Object Detection, ICCV 2017.
    """
    chance = logits.sigmoid()
    right = chance * truth + (1 - chance) * (1 - truth)
    weight = alpha * truth + (1 - alpha) * (1 - truth)
    return weight * (1 - right) ** gamma * F.binary_cross_entropy_with_logits(logits, truth, reduction="none")

"""Contrastive losses with EqSim in the same pass over the batch; drop-in for open_clip's losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqsim.loss import EqSimLoss

if TYPE_CHECKING:
    from eqsim.settings import Contrast


class ClipEqSimLoss(EqSimLoss):
    """CLIP's symmetric cross-entropy plus EqSim, from one pass over the scores.

    mean over i of -log softmax(L_i.)_i / 2 - log softmax(L_.i)_i / 2, L = logit_scale * scores; plus weight * EqSim.

    Args:
        *args: as `EqSimLoss`, and so are the keyword arguments. With score="cosine" the features are normalised
            for both terms, which changes nothing for features that are unit rows already, as open_clip's are.

    Shapes:
        As `EqSimLoss`; `logit_scale` is always needed.

    Returns:
        The sum, or with output_dict=True {"contrastive_loss": ..., "eqsim_loss": ...}, whose values a trainer adds up;
        "eqsim_loss" is left out with mode="none", and "pair_loss" comes along with a pair_weight.

    Numerics: for large batches the pass is tiled: O(n d) memory, and less time than the contrastive loss alone takes in
        its usual n x n form (figures in the README).

    Example:
        >>> import torch
        >>> from eqsim import ClipEqSimLoss
        >>> loss = ClipEqSimLoss(mode="v1", weight=0.5)
        >>> round(float(loss(torch.eye(3), torch.eye(3), 10.0)), 6)
        9.1e-05

    Source: "EqSim/EqBen" section 3: the fine-tuning objective plus the balancing factor times EqSim.
    """

    _contrast: Contrast | None = "clip"


class SigLipEqSimLoss(ClipEqSimLoss):
    """SigLIP's pairwise sigmoid loss plus EqSim, from one pass over the scores.

    sum over i, j of log(1 + exp(-z_ij L_ij)) / n with z_ii = 1, z_ij = -1 otherwise, and L = logit_scale * scores +
    logit_bias; plus weight * EqSim. Over several processes n is the whole batch, so the value is the mean of what each
    rank of open_clip's SigLipLoss reports.

    Args:
        *args: as `EqSimLoss`, and so are the keyword arguments; see `ClipEqSimLoss`.

    Returns:
        As `ClipEqSimLoss`.

    Example:
        >>> import torch
        >>> from eqsim import SigLipEqSimLoss
        >>> loss = SigLipEqSimLoss(mode="v1")
        >>> round(float(loss(torch.eye(2), torch.eye(2), 10.0, -5.0)), 4)
        0.0134

    Source: Zhai et al., "Sigmoid Loss for Language Image Pre-Training", for the contrastive part.
    """

    _contrast: Contrast | None = "sigmoid"

"""CyCLIP's two consistency terms, for comparison: its cross-modal term is EqSim's v1 over all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import nn

from eqsim.backends.gram import gram_pair_sums
from eqsim.checks import check_choice, check_features, check_non_negative
from eqsim.distributed import check_process_group, rows_of_ranks
from eqsim.features import at_least_float32, unit_rows, without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class CyclicLoss(nn.Module):
    r"""CyCLIP's in-modal and cross-modal consistency.

    in-modal  sum over i, j of (image_i . image_j - text_i . text_j)^2,
    cross     sum over i, j of (image_i . text_j - image_j . text_i)^2, features normalised;
    loss = in_modal * in-modal / n + cross_modal * cross / n  (reduction "reference"), or / n^2 ("mean").

    Computed from D x D matrices: with P = I + T, M = I - T the in-modal sum is (<M^T M, P^T P> + <G, G^T>) / 2,
    G = P^T M; for the cross-modal sum see `eqsim.backends.gram`.

    Args:
        in_modal: >= 0, weight of the in-modal term; 0.25 in CyCLIP.
        cross_modal: >= 0, weight of the cross-modal term; 0.25 in CyCLIP.
        reduction: "reference" divides by n, as CyCLIP's code does (its mean over n^2 entries times n), so the terms
            grow with the batch; "mean" divides by n^2.
        rank: this process's rank.
        world_size: number of processes; the loss is that of the whole batch (see `eqsim.distributed`).

    Shapes:
        image_features, text_features: (n, d) of this rank.

    Returns:
        A scalar, or {"in_modal_loss": ..., "cross_modal_loss": ...} with output_dict=True.

    Raises:
        ValueError: a negative weight, an unknown reduction, features that differ in shape, dtype or device.

    Example:
        >>> import torch
        >>> image, text = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> [round(float(x), 4) for x in CyclicLoss()(image, text, output_dict=True).values()]
        [0.09, 0.09]

    Source: Goel et al., "CyCLIP: Cyclic Contrastive Language-Image Pretraining", section 3.
    """

    def __init__(
        self,
        in_modal: float = 0.25,
        cross_modal: float = 0.25,
        reduction: Literal["reference", "mean"] = "reference",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__()
        check_non_negative(in_modal=in_modal, cross_modal=cross_modal)
        check_choice("reduction", reduction, ("reference", "mean"))
        self.in_modal, self.cross_modal, self.reduction = in_modal, cross_modal, reduction
        self.rank, self.world_size = rank, world_size

    def forward(
        self, image_features: Float[Tensor, "n d"], text_features: Float[Tensor, "n d"], *, output_dict: bool = False
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of a batch; see the class."""
        check_features(image_features, text_features)
        check_process_group(self.rank, self.world_size)
        n = sum(rows for rows, _ in rows_of_ranks(image_features, text_features, self.world_size))
        divisor = n if self.reduction == "reference" else n * n
        with torch.autocast(image_features.device.type, enabled=False):
            image, text = at_least_float32(image_features), at_least_float32(text_features)
            cross = gram_pair_sums(image, text, None, unit=True, n=n, world_size=self.world_size).v1
            inside: Tensor = _InModalSum.apply(unit_rows(image), unit_rows(text), self.world_size)
        losses = {
            "in_modal_loss": self.in_modal * inside / divisor,
            "cross_modal_loss": self.cross_modal * cross / divisor,
        }
        return losses if output_dict else losses["in_modal_loss"] + losses["cross_modal_loss"]


class _InModalSum(torch.autograd.Function):
    """Sum over all pairs of (image_i . image_j - text_i . text_j)^2, of the batch of all ranks."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor, world_size: int) -> Tensor:
        p_rows, m_rows = image + text, image - text
        grams = torch.stack([m_rows.T @ m_rows, p_rows.T @ p_rows, p_rows.T @ m_rows])
        if world_size > 1:
            dist.all_reduce(grams)
        ctx.save_for_backward(p_rows, m_rows, grams)
        ctx.world_size = world_size
        k, h, g = grams.unbind(0)
        total: Tensor = ((k * h).sum() + (g * g.T).sum()) / 2
        return total

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        p_rows, m_rows, grams = ctx.saved_tensors
        k, h, g = grams.unbind(0)
        grad = grads[0] * ctx.world_size  # see `eqsim.distributed`
        grad_m = torch.mm(m_rows, h).addmm_(p_rows, g.T).mul_(grad)
        grad_p = torch.mm(p_rows, k).addmm_(m_rows, g).mul_(grad)
        return grad_p + grad_m, grad_p - grad_m, None

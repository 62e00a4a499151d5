"""`PairLoss`: what is asked of a known close pair, four comparisons, as one cross-entropy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from eqsim.checks import check_choice, check_positive
from eqsim.loss import BatchLoss
from eqsim.settings import Settings

if TYPE_CHECKING:
    import torch

    from eqsim.close_pairs import Miner


class PairLoss(BatchLoss):
    r"""Cross-entropy of the four comparisons that make a known close pair right.

    With L_ij = logit_scale * score(image i, text j), the mean over known pairs (i, j) of

        softplus(L_ij - L_ii),  softplus(L_ji - L_ii),  softplus(L_ij - L_jj),  softplus(L_ji - L_jj).

    Args:
        weight: > 0, multiplies the loss.
        score: "cosine" (features are normalised here) or "logits" (dot products of the features as given).
        close: None for pairs from the call alone, or a rule that picks near samples (`eqsim.TopK`,
            `eqsim.Multinomial`) where the call has none; such neighbours may mean the same, and then the loss is wrong.
        backend: as in `eqsim.EqSimLoss`, and so are the arguments below.
        rank: of this process.
        world_size: number of processes.
        distributed: take both from torch.distributed where it is initialised.
        equal_batches: every process holds as many rows; nothing then waits for the device.
        generator: source of the draws of `Multinomial`.

    Shapes:
        As `eqsim.EqSimLoss`; `logit_scale` is needed. `close_pairs` (p, 2): (i, j) and (j, i) give the same, and every
        row counts.

    Returns:
        A scalar, or {"pair_loss": scalar} with output_dict=True.

    Raises:
        ValueError: no pairs and no rule, no scale, and whatever `eqsim.EqSimLoss` refuses; shows the wrong value.

    Numerics: together with a contrastive loss in one pass it is `ClipEqSimLoss(mode="none", pair_weight=1.0)`, and with
        any mode of EqSim the sum of all three. It costs O(p d) on top.

    Example:
        >>> import torch
        >>> from eqsim import PairLoss
        >>> image, text = torch.eye(4), torch.eye(4)
        >>> round(float(PairLoss()(image, text, 2.0, close_pairs=torch.tensor([[0, 1], [2, 3]]))), 4)
        0.1269

    Source: ours. In `experiments/eqsim_proof` it is compared with EqSim and others on the same batches.
    """

    def __init__(
        self,
        weight: float = 1.0,
        score: Literal["cosine", "logits"] = "cosine",
        *,
        close: Miner | None = None,
        backend: str = "auto",
        rank: int = 0,
        world_size: int = 1,
        distributed: bool = False,
        equal_batches: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        check_positive(weight=weight)
        check_choice("score", score, ("cosine", "logits"))
        super().__init__(
            Settings(
                mode="none",
                score=score,
                close=close,
                pair_weight=weight,
                backend=backend,
                rank=rank,
                world_size=world_size,
                distributed=distributed,
                equal_batches=equal_batches,
                generator=generator,
            )
        )

    @property
    def weight(self) -> float:
        """What multiplies the loss; may be set between steps."""
        return self.settings.pair_weight

    @weight.setter
    def weight(self, value: float) -> None:
        check_positive(weight=value)
        self.settings = replace(self.settings, pair_weight=value)

"""EqSim for fusion encoders, which score one image with one text at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from eqsim.checks import check_choice
from eqsim.features import at_least_float32
from eqsim.functional import quad_terms
from eqsim.settings import MarginMode, Settings, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from torch import Tensor

Activation = Literal["sigmoid", "softmax", "identity"]


class EqSimITMLoss(nn.Module):
    r"""EqSim from an image-text-matching head: four scores for each pair of samples.

    With f the activation, d = f(s_ii) - f(s_jj), a = f(s_ij) - f(s_ji): v1 = mean a^2, and
    v2 = mean (d - a)^2 [text] + mean (d + a)^2 [image].

    Args:
        mode: "v2" for close pairs (hard negatives, minimal changes), "v1" for distant ones.
        activation: what turns the head's output into a score: "sigmoid" of one logit, "softmax" of two logits in the
            last axis (the second is "matched"), or "identity".
        sides: sides of v2.
        margin: >= 0, squared score units.
        margin_mode: "mean" or "pair"; see `eqsim.EqSimLoss`.
        weight: >= 0.

    Shapes:
        s_ii, s_ij, s_ji, s_jj: any one shape; (..., 2) with "softmax". s_ij is the head's output for image i, text j.

    Returns:
        A scalar. Over several processes each averages over its own pairs, and DDP's mean of gradients is that of all,
        if every process holds equally many and no margin is set.

    Raises:
        ValueError: settings out of range, shapes that differ, a last axis that is not 2 with "softmax".

    Example:
        >>> import torch
        >>> loss = EqSimITMLoss(activation="identity")
        >>> loss(*(torch.tensor([x]) for x in (0.9, 0.2, 0.4, 0.9)))
        tensor(0.0800)

    Source: "EqSim/EqBen" section 3 and appendix B: scores of METER's matching head through a sigmoid; two-class heads
        through a softmax, as in the authors' code for FIBER.
    """

    def __init__(
        self,
        mode: Literal["v1", "v2"] = "v2",
        activation: Activation = "sigmoid",
        sides: Sequence[Side] = ("text", "image"),
        margin: float = 0.0,
        margin_mode: MarginMode = "mean",
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice("mode", mode, ("v1", "v2"))
        check_choice("activation", activation, ("sigmoid", "softmax", "identity"))
        self.mode, self.activation, self.sides = mode, activation, sides
        self.margin, self.margin_mode, self.weight = margin, margin_mode, weight
        self.sides = self._settings().sides

    def _settings(self) -> Settings:
        """Return the settings of now, for a weight or a margin may be set between steps; raise for wrong ones."""
        return Settings(
            self.mode,
            sides=self.sides,
            margin=self.margin,
            margin_v1=self.margin,
            margin_mode=self.margin_mode,
            weight=self.weight,
        )

    def forward(
        self,
        s_ii: Float[Tensor, "*p"],
        s_ij: Float[Tensor, "*p"],
        s_ji: Float[Tensor, "*p"],
        s_jj: Float[Tensor, "*p"],
    ) -> Float[Tensor, ""]:
        """Compute the loss of given pairs; see the class."""
        scores = [self._score(head) for head in (s_ii, s_ij, s_ji, s_jj)]
        return self.weight * quad_terms(self._settings(), *scores).total()

    def _score(self, head: Tensor) -> Tensor:
        if self.activation == "identity":
            return head
        if self.activation == "sigmoid":
            return torch.sigmoid(at_least_float32(head))
        if head.ndim == 0 or head.shape[-1] != 2:
            msg = f"a head's output has shape {tuple(head.shape)}: expected (..., 2) with activation='softmax'"
            raise ValueError(msg)
        difference = head[..., 1] - head[..., 0]
        return torch.sigmoid(at_least_float32(difference))

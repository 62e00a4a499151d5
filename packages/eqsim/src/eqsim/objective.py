"""What is to be minimised: the mode, the score, the sides and the margins, checked once at construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from eqsim.checks import check_choice, check_non_negative, check_positive, check_sides
from eqsim.known_pairs import EPSILON

if TYPE_CHECKING:
    from torch import Tensor

    from eqsim.residuals import DistantReduction, MarginMode, Side, Terms

Mode = Literal["v1", "v2", "hybrid", "relative", "none"]
Score = Literal["cosine", "logits", "softmax"]
Contrast = Literal["clip", "sigmoid"]


@dataclass(frozen=True)
class Objective:
    """The settings that define the loss, whatever computes it; see `eqsim.EqSimLoss` for their meaning."""

    mode: Mode = "hybrid"
    score: Score = "cosine"
    sides: tuple[Side, ...] = ("text", "image")
    margin: float = 0.0
    margin_v1: float = 0.0
    margin_mode: MarginMode = "mean"
    distant_reduction: DistantReduction = "mean"
    epsilon: float = EPSILON
    pair: bool = False

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("v1", "v2", "hybrid", "relative", "none"))
        check_choice("score", self.score, ("cosine", "logits", "softmax"))
        check_choice("margin_mode", self.margin_mode, ("mean", "pair"))
        check_choice("distant_reduction", self.distant_reduction, ("mean", "reference"))
        check_sides(self.sides)
        check_non_negative(margin=self.margin, margin_v1=self.margin_v1)
        check_positive(epsilon=self.epsilon)

    @property
    def needs_known_pairs(self) -> bool:
        """Whether a term runs over close pairs alone, and has no meaning over all."""
        return self.mode == "relative" or self.pair

    @property
    def pairwise_margin(self) -> bool:
        """Whether a margin is taken off every single pair, so that sums over pairs do not suffice."""
        return self.margin_mode == "pair" and (self.margin > 0 or self.margin_v1 > 0)

    def runs_over_all_pairs(self, *, listed: bool) -> bool:
        """Return whether a sum over all n^2 pairs is needed, given whether there is a list of close pairs."""
        return self.mode == "hybrid" or (self.mode in ("v1", "v2") and not listed)


class Parts(NamedTuple):
    """What one pass over the batch gives: the terms of EqSim, and where asked for the contrastive and the pair loss."""

    contrastive: Tensor | None
    terms: Terms
    pair: Tensor | None = None

"""All settings of a loss in one record: what is minimised, and how it is computed. Checked once, at construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from eqsim.checks import check_choice, check_hard, check_non_negative, check_positive, check_sides
from eqsim.close_pairs import Miner, Multinomial, TopK

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

Side = Literal["text", "image"]
DistantReduction = Literal["mean", "reference"]
MarginMode = Literal["mean", "pair"]
Mode = Literal["v1", "v2", "hybrid", "relative", "none"]
Score = Literal["cosine", "logits", "softmax"]
Contrast = Literal["clip", "sigmoid"]
Keep = Literal["kl", "squares"]


EPSILON = 1e-2
"""e of the relative form: cosines of a pair differ by some hundredths."""


@dataclass(frozen=True)
class Settings:
    """See `eqsim.EqSimLoss` for the meaning of each; `contrast` is the contrastive loss that is computed along."""

    mode: Mode = "hybrid"
    score: Score = "cosine"
    sides: Sequence[Side] = ("text", "image")
    margin: float = 0.0
    margin_v1: float = 0.0
    margin_mode: MarginMode = "mean"
    close: Miner | None = None
    distant_reduction: DistantReduction = "mean"
    epsilon: float = EPSILON
    weight: float = 1.0
    pair_weight: float = 0.0
    contrast: Contrast | None = None
    backend: str = "auto"
    rank: int = 0
    world_size: int = 1
    distributed: bool = False
    equal_batches: bool = False
    generator: torch.Generator | None = None
    keep: Keep = "kl"
    keep_weight: float = 0.0
    hard_weight: float = 0.0
    focus: float = 2.0
    smoothing: float = 0.02
    score_memory: int = 0

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("v1", "v2", "hybrid", "relative", "none"))
        check_choice("score", self.score, ("cosine", "logits", "softmax"))
        check_choice("margin_mode", self.margin_mode, ("mean", "pair"))
        check_choice("distant_reduction", self.distant_reduction, ("mean", "reference"))
        check_sides(self.sides)
        object.__setattr__(self, "sides", tuple(self.sides))
        check_non_negative(
            margin=self.margin,
            margin_v1=self.margin_v1,
            weight=self.weight,
            pair_weight=self.pair_weight,
            keep_weight=self.keep_weight,
            hard_weight=self.hard_weight,
            score_memory=self.score_memory,
        )
        check_choice("keep", self.keep, ("kl", "squares"))
        check_hard(self.focus, self.smoothing)
        check_positive(epsilon=self.epsilon)
        if self.close is not None and not callable(self.close):
            msg = f"close={self.close!r}: expected TopK(...), Multinomial(...), a callable of your own or None"
            raise TypeError(msg)
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            msg = f"rank={self.rank}, world_size={self.world_size}: expected world_size >= 1 and 0 <= rank < world_size"
            raise ValueError(msg)

    @property
    def miner(self) -> Miner | None:
        """What gives the close pairs where a call gives none."""
        return TopK(k=4) if self.close is None and self.mode == "hybrid" else self.close

    @property
    def needs_known_pairs(self) -> bool:
        """Whether a term runs over close pairs alone, and has no meaning over all."""
        return self.mode == "relative" or self.pair_weight > 0

    @property
    def beside(self) -> bool:
        """Whether a loss over negatives or a teacher's scores is asked for."""
        return self.keep_weight > 0 or self.hard_weight > 0

    @property
    def uses_negatives(self) -> bool:
        """Whether a caption without an image changes anything."""
        return self.beside or self.contrast is not None or self.score == "softmax"

    @property
    def keeps_kl(self) -> bool:
        """Whether log-sum-exps are needed for a teacher."""
        return self.keep_weight > 0 and self.keep == "kl"

    @property
    def draws_by_temperature(self) -> bool:
        """Whether close pairs are drawn by a temperature of the rule's own, not by the logits' scale."""
        return isinstance(self.miner, Multinomial) and self.miner.temperature is not None

    @property
    def term_names(self) -> tuple[str, ...]:
        """The terms that the mode and the sides have, of "v1", "v2_text", "v2_image" and "relative"."""
        v2 = tuple(f"v2_{side}" for side in ("text", "image") if side in self.sides)
        terms: dict[str, tuple[str, ...]] = {"v1": ("v1",), "v2": v2, "hybrid": ("v1", *v2), "relative": ("relative",)}
        return terms.get(self.mode, ())

    def margin_of(self, term: str) -> float:
        """Return the margin of a term, of `term_names`."""
        return self.margin_v1 if term == "v1" else self.margin

    def margin_of_pairs(self, term: str) -> float:
        """Return what is taken off each pair's square of a term: nothing where margins are taken off means."""
        return self.margin_of(term) if self.margin_mode == "pair" else 0.0

    @property
    def pairwise_margin(self) -> bool:
        """Whether a term of the mode has a margin for each pair, so that sums over pairs do not suffice."""
        return any(self.margin_of_pairs(term) > 0 for term in self.term_names if term != "relative")

    def runs_over_all_pairs(self, *, listed: bool) -> bool:
        """Return whether a sum over all n^2 pairs is needed, given whether there is a list of close pairs."""
        return self.mode == "hybrid" or (self.mode in ("v1", "v2") and not listed)

    def distant_divisor(self, n: int, number: Tensor) -> Tensor | int:
        """Return what a sum over so many distant pairs of a batch of n is divided by."""
        return number if self.distant_reduction == "mean" else n * n

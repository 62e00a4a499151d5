"""`EqSimLoss`: the regulariser alone, to be added to whatever loss the training already has."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

import torch
from torch import nn

from eqsim.backends import Need, Work, choose_backend, compute_parts
from eqsim.checks import (
    check_features,
    check_finite,
    check_non_negative,
    check_pairs,
    check_scale,
    check_sides,
)
from eqsim.close_pairs import Multinomial, TopK
from eqsim.distributed import check_even_batches, check_process_group
from eqsim.known_pairs import EPSILON
from eqsim.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.backends import BackendChoice
    from eqsim.close_pairs import ClosePairs
    from eqsim.objective import Contrast, Mode, Parts, Score
    from eqsim.residuals import DistantReduction, MarginMode, Side, Terms


class EqSimLoss(nn.Module):
    r"""EqSim: score changes between two image-text pairs should be equal, whichever side is changed.

    With s_ij = score(image i, text j), d = s_ii - s_jj, a = s_ij - s_ji:

        v1 = mean a^2,     v2 = mean (d - a)^2 [text] + mean (d + a)^2 [image],
        hybrid = v2 over close pairs + v1 over distant pairs;     loss = weight * that.

    Args:
        mode: "v1", "v2" or "hybrid" (the paper's best); "relative" (experimental), the mean over known close pairs of
            log(1 + (|d| + |a| + e) / (2 max(M, 0) + e)), M = (s_ii + s_jj - s_ij - s_ji) / 2: EqSim's residuals against
            how far the pair is told apart, so that shrinking the scores wins nothing (its gradients are in
            `eqsim.functional.eqsim_relative`); "none" for the pair loss alone.
        score: "cosine" (features are normalised here), "logits" (logit_scale * dot product of the features as given)
            or "softmax" (of those logits over texts, the published run's).
        sides: sides of v2, "text", "image" or both.
        margin: >= 0, squared score units, taken off each side of v2.
        margin_v1: >= 0, taken off v1.
        margin_mode: "mean" gives max(mean - margin, 0), "pair" the mean of max(square - margin, 0).
        close: which pairs are close, `TopK` or `Multinomial`. None means all pairs for "v1" and "v2", and TopK(k=4)
            for "hybrid". With "v1" and "v2" a rule restricts the mean to the close pairs. `close_pairs` given in the
            call take its place. "relative" and the pair loss want pairs that differ in meaning, so they choose none by
            themselves: give them in the call, or a rule here.
        distant_reduction: "mean" over the distant pairs, or "reference", which divides by n^2.
        weight: >= 0, multiplies EqSim's terms.
        backend: "auto" or a name of `eqsim.backends.BACKENDS`; `explain` says what "auto" picks, and why.
        rank: this process's rank, where the batch is spread over processes.
        world_size: number of processes; the loss is that of the whole batch, on every rank (see `eqsim.distributed`).
        generator: source of the draws of `Multinomial`.
        checks: look for NaN and infinity, bad close pairs on an accelerator, and terms without gradient. Waits for the
            device. On the CPU pairs and dead terms are looked at in any case.
        pair_weight: >= 0; above 0 adds pair_weight * `eqsim.functional.pair_loss` of the logits over the close pairs.
        epsilon: e > 0 of "relative", in units of the score.

    Shapes:
        image_features, text_features: (n, d), any floating dtype, reduced in float32 (float64 stays). n is per rank,
            and the same on every rank.
        logit_scale: one number, already exponentiated; needed by "logits" and "softmax", and by the pair loss.
        logit_bias: accepted for drop-in use; it cancels in every term.
        close_pairs: (p, 2) ordered pairs of indices into the whole batch (rank 0's rows first), the same on every rank.

    Returns:
        A scalar, or {"eqsim_loss": scalar} with output_dict=True.

    Raises:
        ValueError, TypeError: at construction or at the call, before any work; the message shows the wrong value.
        RuntimeError: world_size > 1 without a process group.

    Warns:
        UserWarning: once, when a margin exceeds a term's mean, which leaves that term without any gradient.

    Numerics: float32 accumulation, autocast switched off inside, scales up to 100. Agreement with the float64
        definition and costs are in the README.

    Example:
        >>> import torch
        >>> from eqsim import EqSimLoss
        >>> image, text = torch.eye(3), torch.eye(3).roll(1, 0) * 0.5 + torch.eye(3)
        >>> loss = EqSimLoss(mode="v1")
        >>> round(float(loss(image, text)), 4)
        0.2

    Source: "Equivariant Similarity for Vision-Language Foundation Models", section 3, equations 5 and 6. The paper
        names hybrid as v1 on distant plus v2 on close pairs. Its code differs from its text in the selection
        (`Multinomial`) and in the divisor of v1 (`distant_reduction="reference"`); its margin 0.1 on softmax scores
        leaves v2 without gradient at usual batch sizes. `EqSimLoss.reference()` is that run; the defaults are not.
    """

    _contrast: Contrast | None = None

    def __init__(
        self,
        mode: Mode = "hybrid",
        score: Score = "cosine",
        sides: Sequence[Side] = ("text", "image"),
        margin: float = 0.0,
        margin_v1: float = 0.0,
        margin_mode: MarginMode = "mean",
        close: ClosePairs | None = None,
        distant_reduction: DistantReduction = "mean",
        weight: float = 1.0,
        backend: str = "auto",
        rank: int = 0,
        world_size: int = 1,
        *,
        pair_weight: float = 0.0,
        epsilon: float = EPSILON,
        generator: torch.Generator | None = None,
        checks: bool = False,
    ) -> None:
        super().__init__()
        check_sides(sides)
        check_non_negative(weight=weight, pair_weight=pair_weight)
        self.objective = Objective(
            mode,
            score,
            tuple(sides),
            margin,
            margin_v1,
            margin_mode,
            distant_reduction,
            epsilon,
            pair=pair_weight > 0,
        )
        if close is not None and not isinstance(close, (TopK, Multinomial)):
            msg = f"close={close!r}: expected TopK(...), Multinomial(...) or None"
            raise TypeError(msg)
        if world_size < 1 or not 0 <= rank < world_size:
            msg = f"rank={rank}, world_size={world_size}: expected world_size >= 1 and 0 <= rank < world_size"
            raise ValueError(msg)
        self.close = TopK(k=4) if close is None and mode == "hybrid" else close
        self.weight, self.pair_weight = weight, pair_weight
        self._chosen_by_user = close is not None
        self.backend = backend
        self.rank = rank
        self.world_size = world_size
        self.generator = generator
        self.checks = checks
        self._warned = False
        # Settings that cannot work at any size are refused now, not at the first batch.
        self.explain(2, 1)

    @classmethod
    def reference(cls, **changes: object) -> Self:
        """Return the published run: hybrid, softmax scores, margin 0.1, weight 0.5, Multinomial(4), v1 over n^2.

        With this margin v2 is exactly 0 at usual batch sizes; the loss then warns.

        Example:
            >>> from eqsim import EqSimLoss
            >>> EqSimLoss.reference().objective.margin
            0.1
        """
        settings: dict[str, object] = {
            "mode": "hybrid",
            "score": "softmax",
            "sides": ("text", "image"),
            "margin": 0.1,
            "margin_v1": 0.0,
            "margin_mode": "mean",
            "close": Multinomial(4),
            "distant_reduction": "reference",
            "weight": 0.5,
        }
        return cls(**(settings | changes))  # type: ignore[arg-type] # a dict of keyword arguments has one value type

    def explain(self, n: int, d: int, device: str = "cpu", *, close_pairs: bool = False) -> BackendChoice:
        """Say which backend a batch of n (over all ranks) features of size d gets on a device, and why.

        Example:
            >>> from eqsim import EqSimLoss
            >>> EqSimLoss(mode="v1").explain(n=8192, d=512).name
            'gram'
        """
        listed = close_pairs or self.close is not None
        return choose_backend(Need(self.objective, self._contrast, n, d, device, listed), self.backend)

    def forward(
        self,
        image_features: Float[Tensor, "n d"],
        text_features: Float[Tensor, "n d"],
        logit_scale: Float[Tensor, ""] | float | None = None,
        logit_bias: Float[Tensor, ""] | float | None = None,
        *,
        close_pairs: Int[Tensor, "p 2"] | None = None,
        output_dict: bool = False,
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of a batch; see the class for shapes and errors."""
        losses = self._losses(image_features, text_features, logit_scale, logit_bias, close_pairs)
        return losses if output_dict else sum_of(losses)

    @property
    def contrast(self) -> Contrast | None:
        """Which contrastive loss comes along: "clip", "sigmoid" or none."""
        return self._contrast

    @property
    def draws_by_temperature(self) -> bool:
        """Whether close pairs are drawn by a temperature of the rule's own, not by the logits' scale."""
        return isinstance(self.close, Multinomial) and self.close.temperature is not None

    @property
    def term_names(self) -> tuple[str, ...]:
        """The terms that the mode and the sides have, of "v1", "v2_text" and "v2_image"."""
        v2 = tuple(f"v2_{side}" for side in ("text", "image") if side in self.objective.sides)
        terms: dict[str, tuple[str, ...]] = {"v1": ("v1",), "v2": v2, "hybrid": ("v1", *v2), "relative": ("relative",)}
        return terms.get(self.objective.mode, ())

    def check(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float | None = None,
        logit_bias: Tensor | float | None = None,
        close_pairs: Tensor | None = None,
    ) -> None:
        """Raise for input that the loss cannot take; values are read on the CPU, or with checks=True."""
        check_features(image_features, text_features)
        needed = self._contrast is not None or self.objective.pair
        check_scale(self.objective.score, logit_scale, needed_for=type(self).__name__ if needed else None)
        if self.objective.needs_known_pairs and close_pairs is None and not self._chosen_by_user:
            what = "mode='relative'" if self.objective.mode == "relative" else f"pair_weight={self.pair_weight}"
            msg = f"close_pairs is None: {what} needs the pairs that it runs over, or a rule such as close=TopK(k=1)"
            raise ValueError(msg)
        if close_pairs is None and isinstance(self.close, Multinomial) and not self.draws_by_temperature:
            check_scale(self.objective.score, logit_scale, needed_for=f"{self.close} without a temperature")
        check_process_group(self.rank, self.world_size)
        check_even_batches(image_features, self.world_size)
        compiling = torch.compiler.is_compiling()
        device = image_features.device
        if close_pairs is not None:
            values = not compiling and (self.checks or device.type == "cpu")
            check_pairs(close_pairs, image_features.shape[0] * self.world_size, device, values=values)
        if self.checks and not compiling:
            check_finite(
                image_features=image_features,
                text_features=text_features,
                logit_scale=logit_scale,
                logit_bias=logit_bias,
            )

    def _losses(
        self,
        image: Tensor,
        text: Tensor,
        scale: Tensor | float | None,
        bias: Tensor | float | None,
        close_pairs: Tensor | None,
    ) -> dict[str, Tensor]:
        """Return what the loss is the sum of, by the names that trainers log."""
        parts = self._parts(image, text, scale, bias, close_pairs)
        losses = {}
        if parts.contrastive is not None:
            losses["contrastive_loss"] = parts.contrastive
        if self.objective.mode != "none":
            losses["eqsim_loss"] = self.weight * parts.terms.total()
        if parts.pair is not None:
            losses["pair_loss"] = self.pair_weight * parts.pair
        return losses or {"eqsim_loss": parts.terms.total()}

    def _parts(
        self,
        image: Tensor,
        text: Tensor,
        scale: Tensor | float | None,
        bias: Tensor | float | None,
        close_pairs: Tensor | None,
    ) -> Parts:
        self.check(image, text, scale, bias, close_pairs)
        compiling = torch.compiler.is_compiling()
        with torch.autocast(image.device.type, enabled=False):
            work = Work.of(
                self.objective,
                self._contrast,
                image,
                text,
                1.0 if scale is None else scale,
                bias,
                close_pairs,
                self.close,
                rank=self.rank,
                world_size=self.world_size,
                generator=self.generator,
            )
            parts = compute_parts(work, self.backend)
        if not compiling and (self.checks or image.device.type == "cpu"):
            self._warn_dead(parts.terms)
        return parts

    def _warn_dead(self, terms: Terms) -> None:
        margins = {"v1": self.objective.margin_v1, "v2_text": self.objective.margin, "v2_image": self.objective.margin}
        if self._warned or not any(margins.values()):
            return
        dead = [
            name
            for name in self.term_names
            if margins.get(name, 0.0) > 0 and float(getattr(terms, name).detach()) == 0.0
        ]
        if dead:
            self._warned = True
            named = " and ".join(f"{name} (margin {margins[name]})" for name in dead)
            warnings.warn(
                f"{type(self).__name__}: {named} is exactly 0, because its margin exceeds its value, so it gives no "
                "gradient; lower the margin, or see eqsim.diagnose",
                UserWarning,
                stacklevel=4,
            )

    def extra_repr(self) -> str:
        """Show the settings in repr(module)."""
        objective = self.objective
        shown = f"mode={objective.mode!r}, score={objective.score!r}, sides={objective.sides}"
        pair = f", pair_weight={self.pair_weight}" if objective.pair else ""
        return (
            f"{shown}, margin={objective.margin}, close={self.close}, weight={self.weight}{pair}, "
            f"backend={self.backend!r}"
        )


def sum_of(losses: dict[str, Tensor]) -> Tensor:
    """Add up named losses, in their order."""
    first, *others = losses.values()
    for loss in others:
        first = first + loss
    return first

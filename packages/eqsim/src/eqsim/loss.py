"""`EqSimLoss`: the regulariser alone, to be added to whatever loss the training already has.

One file of more than 400 lines: half of them are the settings' documentation.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from eqsim.backends import choose_backend, compute_parts
from eqsim.batch import Batch, Size
from eqsim.checks import (
    check_features,
    check_owners,
    check_pairs,
    check_scale,
    check_teacher,
    logarithm_given,
)
from eqsim.close_pairs import Multinomial
from eqsim.distributed import check_process_group, own_place, rows_of_ranks
from eqsim.settings import EPSILON, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.backends import BackendChoice
    from eqsim.batch import Parts
    from eqsim.close_pairs import Miner
    from eqsim.residuals import Terms
    from eqsim.settings import Contrast, DistantReduction, Keep, MarginMode, Mode, Score, Side


class BatchLoss(nn.Module):
    """What losses over a batch of features share: settings, errors at the door, and one pass by a backend."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self._warned = self._looked = False
        # Settings that cannot work at any size are refused now, not at the first batch.
        self.explain(2, 1)

    @property
    def weight(self) -> float:
        """What multiplies EqSim's terms; may be set between steps."""
        return self.settings.weight

    @weight.setter
    def weight(self, value: float) -> None:
        self.settings = replace(self.settings, weight=value)

    @property
    def close(self) -> Miner | None:
        """The miner of close pairs."""
        return self.settings.miner

    def explain(self, n: int, d: int, device: str = "cpu", *, close_pairs: bool = False) -> BackendChoice:
        """Say which backend a batch of n (over all ranks) features of size d gets on a device, and why."""
        return choose_backend(self.settings, Size(n, d, device, close_pairs or self.close is not None))

    def forward(
        self,
        image_features: Float[Tensor, "n d"],
        text_features: Float[Tensor, "nm d"],
        logit_scale: Float[Tensor, ""] | float | None = None,
        logit_bias: Float[Tensor, ""] | float | None = None,
        *,
        close_pairs: Int[Tensor, "p 2"] | None = None,
        negatives_of: Int[Tensor, " m"] | None = None,
        teacher: tuple[Tensor, Tensor, Tensor | float] | None = None,
        output_dict: bool = False,
    ) -> Tensor | dict[str, Tensor]:
        """Compute the loss of a batch; see the class for shapes and errors."""
        self._find_place()
        rows = self.check(image_features, text_features, logit_scale, logit_bias, close_pairs, negatives_of, teacher)
        if not self._looked and not torch.compiler.is_compiling():
            self._looked = True  # at the first step alone: reading a number waits for the device
            self._warn_logarithm(logit_scale)
        with torch.autocast(image_features.device.type, enabled=False):
            scale = 1.0 if logit_scale is None else logit_scale
            features = image_features, text_features, scale, logit_bias
            parts = compute_parts(Batch.of(self.settings, *features, close_pairs, negatives_of, teacher, rows))
        if not torch.compiler.is_compiling() and image_features.device.type == "cpu":
            self._warn_dead(parts.terms)
        losses = self._named(parts)
        if output_dict:
            return losses
        first, *further = losses.values()
        return sum(further, first)

    def check(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float | None = None,
        logit_bias: Tensor | float | None = None,
        close_pairs: Tensor | None = None,
        negatives_of: Tensor | None = None,
        teacher: tuple[Tensor, Tensor, Tensor | float] | None = None,
    ) -> tuple[tuple[int, int], ...]:
        """Raise for input that the loss cannot take; values are read on the CPU alone, where nothing waits for them.

        Returns how many images and negatives each process holds.
        """
        settings = self.settings
        check_features(image_features, text_features, negatives=True)
        needed = settings.contrast is not None or settings.pair_weight > 0 or settings.hard_weight > 0
        needed = needed or settings.keeps_kl
        n, m = len(image_features), len(text_features) - len(image_features)
        device = image_features.device
        if m and not settings.uses_negatives:
            msg = f"{len(text_features)} texts for {n} images: a caption without an image changes nothing in this loss"
            raise ValueError(f"{msg}; leave them out, or take ClipEqSimLoss, SigLipEqSimLoss or hard_weight=")
        if (negatives_of is None) != (m == 0 or settings.hard_weight == 0):
            state = "is None" if negatives_of is None else "was given"
            raise ValueError(f"negatives_of {state} with {m} negatives and hard_weight={settings.hard_weight}")
        if negatives_of is not None:
            check_owners(negatives_of, m, n)
        if (teacher is None) != (settings.keep_weight == 0):
            state = "is None" if teacher is None else "was given"
            raise ValueError(f"teacher {state} with keep_weight={settings.keep_weight}")
        if teacher is not None:
            check_teacher(teacher, image_features, text_features)
        check_scale(settings.score, logit_scale, needed_for=type(self).__name__ if needed else None)
        if settings.needs_known_pairs and close_pairs is None and settings.close is None:
            term = "mode='relative'" if settings.mode == "relative" else f"pair_weight={settings.pair_weight}"
            msg = f"close_pairs is None: {term} needs the pairs that it runs over, or a rule such as close=TopK(k=1)"
            raise ValueError(msg)
        if close_pairs is None and isinstance(settings.miner, Multinomial) and not settings.draws_by_temperature:
            check_scale(settings.score, logit_scale, needed_for=f"{settings.miner} without a temperature")
        check_process_group(settings.rank, settings.world_size)
        rows = rows_of_ranks(image_features, text_features, settings.world_size, equal=settings.equal_batches)
        if close_pairs is not None:
            check_pairs(close_pairs, sum(images for images, _ in rows), device)
        return rows

    def _find_place(self) -> None:
        """Take rank and world size from the process group, which may have been initialised after this loss was made."""
        settings = self.settings
        if settings.distributed and (settings.rank, settings.world_size) != (place := own_place()):
            self.settings = replace(settings, rank=place[0], world_size=place[1])

    def _named(self, parts: Parts) -> dict[str, Tensor]:
        """Return what the loss is the sum of, by the names that trainers log."""
        losses = {}
        if parts.contrastive is not None:
            losses["contrastive_loss"] = parts.contrastive
        if self.settings.mode != "none":
            losses["eqsim_loss"] = self.settings.weight * parts.terms.total()
        if parts.pair is not None:
            losses["pair_loss"] = self.settings.pair_weight * parts.pair
        if parts.hard is not None:
            losses["hard_loss"] = self.settings.hard_weight * parts.hard
        if parts.keep is not None:
            losses["keep_loss"] = self.settings.keep_weight * parts.keep
        return losses or {"eqsim_loss": parts.terms.total()}

    def _warn_logarithm(self, logit_scale: Tensor | float | None) -> None:
        value = logarithm_given(logit_scale)
        if value is not None:
            warnings.warn(
                f"{type(self).__name__}: logit_scale={value:.4g} is a parameter with the value of a logarithm; "
                "if the model keeps the scale's logarithm, pass model.logit_scale.exp()",
                UserWarning,
                stacklevel=4,
            )

    def _warn_dead(self, terms: Terms) -> None:
        if self._warned:
            return
        margins = {"v1": self.settings.margin_v1, "v2_text": self.settings.margin, "v2_image": self.settings.margin}
        named = " and ".join(
            f"{name} (margin {margins[name]})"
            for name in self.settings.term_names
            if margins.get(name, 0.0) > 0 and float(getattr(terms, name).detach()) == 0.0
        )
        if named:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__}: {named} is exactly 0, because its margin exceeds its value, so it gives no "
                "gradient; lower the margin, or see eqsim.diagnose",
                UserWarning,
                stacklevel=3,
            )

    def extra_repr(self) -> str:
        """Show the settings in repr(module)."""
        return repr(self.settings)


class EqSimLoss(BatchLoss):
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
        margin: >= 0, squared score units, taken off the mean of each side of v2, which then is at least 0.
        margin_v1: >= 0, taken off v1.
        margin_mode: "mean" gives max(mean - margin, 0), "pair" the mean over pairs of max(square - margin, 0).
        close: the miner of close pairs: `TopK`, `Multinomial`, or a callable of yours from (image rows, text rows,
            logit scale) of the whole batch to (p, 2) pairs, the same on every rank. None means all pairs for "v1" and
            "v2", and TopK(k=4) for "hybrid". With "v1" and "v2" a miner restricts the mean to its pairs. `close_pairs`
            given in the call take its place. "relative" and the pair loss want pairs that differ in meaning, so they
            choose none by themselves: give them in the call, or a miner here.
        distant_reduction: "mean" over the distant pairs, or "reference", which divides by n^2.
        weight: >= 0, multiplies EqSim's terms.
        backend: "auto" or a name of `eqsim.backends.BACKENDS`; `explain` says what "auto" picks, and why.
        rank: this process's rank, where the batch is spread over processes.
        world_size: number of processes; the loss is that of the whole batch, on every rank (see `eqsim.distributed`).
        distributed: take rank and world size from torch.distributed at each call, where it is initialised; every
            process has to call the loss then.
        equal_batches: every process holds as many rows as this one at each step. Nothing then waits for the device; by
            default the numbers of rows are gathered and read. Where it is not so, a collective fails or hangs.
        generator: source of the draws of `Multinomial`.
        pair_weight: >= 0; above 0 adds pair_weight * `eqsim.functional.pair_loss` of the logits over the close pairs.
        epsilon: e > 0 of "relative", in units of the score.
        hard_weight: >= 0; above 0 adds hard_weight * `eqsim.functional.hard_negative_loss`, each image against its own
            negatives.
        focus: >= 0, of that loss.
        smoothing: in [0, 1), of that loss.
        keep_weight: >= 0; above 0 adds keep_weight * the distance from a frozen teacher's scores.
        keep: "kl", half the mean KL divergence from the teacher's softmax over texts to this model's, and half that
            over images for each matching text; or "squares", the mean squared difference of all dot products, scaled by
            nothing, in O(n d^2).
        score_memory: bytes, on a CPU, of n x n scores that may stay from the forward to the backward pass, which saves
            one matrix product of four; above that, and by default, they are formed again.

    Shapes:
        image_features: (n, d), any floating dtype, reduced in float32 (float64 stays). n is per rank, and may differ.
        text_features: (n + m, d). The first n are the images' own; the others are negatives, captions without an image:
            further texts in each image's softmax, or further terms of the sigmoid loss.
        negatives_of: (m,) for `hard_weight`: the image, by its row here, that each negative is false for.
        teacher: for `keep_weight`: the frozen model's (image features (n, e), text features (n + m, e), logit scale) of
            the same images and texts; e may differ from d. No gradient goes there.
        logit_scale: one number, already exponentiated; needed by "logits" and "softmax", by the pair loss, and by
            `Multinomial` without a temperature.
        logit_bias: accepted for drop-in use; it cancels in every term.
        close_pairs: (p, 2) ordered pairs of indices into the whole batch (rank 0's rows first), the same on every rank.

    Returns:
        A scalar, or {"eqsim_loss": scalar} with output_dict=True.

    Raises:
        ValueError, TypeError: at construction or at the call, before any work; the message shows the wrong value.
        RuntimeError: world_size > 1 without a process group.

    Warns:
        UserWarning: once, when a margin exceeds a term's mean, which leaves that term without any gradient; at the
            first step, when `logit_scale` is a parameter with the value of a logarithm.

    Numerics: float32 accumulation, autocast switched off inside, scales up to 100. Agreement with the float64
        definition and costs are in the README. Values of tensors are not looked at, which would wait for the device
        at each step: NaN in features makes the loss NaN, and a scale below 0 reverses it; `diagnose` refuses both.

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
        *,
        sides: Sequence[Side] = ("text", "image"),
        margin: float = 0.0,
        margin_v1: float = 0.0,
        margin_mode: MarginMode = "mean",
        close: Miner | None = None,
        distant_reduction: DistantReduction = "mean",
        weight: float = 1.0,
        backend: str = "auto",
        rank: int = 0,
        world_size: int = 1,
        distributed: bool = False,
        equal_batches: bool = False,
        pair_weight: float = 0.0,
        epsilon: float = EPSILON,
        hard_weight: float = 0.0,
        focus: float = 2.0,
        smoothing: float = 0.02,
        score_memory: int = 0,
        keep_weight: float = 0.0,
        keep: Keep = "kl",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            Settings(
                mode=mode,
                score=score,
                sides=sides,
                margin=margin,
                margin_v1=margin_v1,
                margin_mode=margin_mode,
                close=close,
                distant_reduction=distant_reduction,
                epsilon=epsilon,
                weight=weight,
                pair_weight=pair_weight,
                hard_weight=hard_weight,
                focus=focus,
                smoothing=smoothing,
                score_memory=score_memory,
                keep_weight=keep_weight,
                keep=keep,
                contrast=self._contrast,
                backend=backend,
                rank=rank,
                world_size=world_size,
                distributed=distributed,
                equal_batches=equal_batches,
                generator=generator,
            )
        )

    @classmethod
    def reference(cls, **changes: Any) -> Self:
        """Return the published run: hybrid, softmax scores, margin 0.1, weight 0.5, Multinomial(4), v1 over n^2.

        With this margin v2 is exactly 0 at usual batch sizes; the loss then warns.

        Example:
            >>> from eqsim import EqSimLoss
            >>> EqSimLoss.reference().settings.margin
            0.1
        """
        published = {"score": "softmax", "margin": 0.1, "close": Multinomial(4), "distant_reduction": "reference"}
        settings: dict[str, Any] = published | {"weight": 0.5} | changes
        return cls(**settings)


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
        "eqsim_loss" is left out with mode="none", and "pair_loss", "hard_loss" and "keep_loss" come with their weights.

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

"""The dense backend: the n x n score matrix in memory, and the functions of `eqsim.functional` on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from eqsim.backends.beside import hard_loss
from eqsim.batch import Parts
from eqsim.functional import eqsim_v1, eqsim_v2, hybrid_terms
from eqsim.residuals import Terms, mean_pair_loss, mean_relative, pair_differences

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.batch import Batch, Size
    from eqsim.settings import Contrast, Settings

SMALL_BATCH = 256
"""Up to here the n x n matrix is cheaper than the bookkeeping of tiles."""


def suits(settings: Settings, size: Size) -> str | None:
    """Take small batches."""
    return f"n = {size.n} <= {SMALL_BATCH}: the n x n matrix is small" if size.n <= SMALL_BATCH else None


def run(batch: Batch) -> Parts:
    """Compute a batch."""
    return dense_parts(batch.gathered())


def dense_parts(batch: Batch) -> Parts:
    """Compute everything from the score matrix of a gathered batch: O(n^2) memory, the easiest to check."""
    settings, bias = batch.settings, batch.bias
    dots = batch.image @ batch.text.mT
    logits = dots * batch.scale
    n = dots.shape[0]
    contrastive = None
    if settings.contrast is not None:
        contrastive = dense_contrastive(logits if bias is None else logits + bias, settings.contrast)
    scores = {"cosine": lambda: dots, "logits": lambda: logits, "softmax": lambda: logits.softmax(dim=1)}
    pair = dense_pair_loss(logits[:, :n], batch.pairs) if settings.pair_weight > 0 else None
    hard = hard_loss(batch) if settings.hard_weight > 0 else None
    keep = None
    if batch.teacher is not None:
        theirs = batch.teacher.image @ batch.teacher.text.mT
        squares = settings.keep == "squares"
        keep = (dots - theirs).square().mean() if squares else dense_keep_kl(logits, theirs * batch.teacher.scale)
    return Parts(contrastive, dense_terms(settings, scores[settings.score]()[:, :n], batch.pairs), pair, hard, keep)


def dense_keep_kl(logits: Float[Tensor, "n nm"], teacher: Float[Tensor, "n nm"]) -> Float[Tensor, ""]:
    """Half of KL(teacher || student) over texts for each image, and half of that over images for each matching text."""
    n = logits.shape[0]
    directions = ((logits, teacher), (logits[:, :n].mT, teacher[:, :n].mT))
    divergences = [
        F.kl_div(own.log_softmax(1), theirs.log_softmax(1), reduction="sum", log_target=True)
        for own, theirs in directions
    ]
    return (divergences[0] + divergences[1]) / (2 * n)


def dense_pair_loss(logits: Float[Tensor, "n n"], close_pairs: Int[Tensor, "p 2"] | None) -> Float[Tensor, ""]:
    """`eqsim.functional.pair_loss` of pairs that were looked at; 0 without any."""
    return logits.sum() * 0.0 if close_pairs is None else mean_pair_loss(pair_differences(logits, close_pairs))


def dense_contrastive(logits: Float[Tensor, "n nm"], contrast: Contrast) -> Float[Tensor, ""]:
    """CLIP's symmetric cross-entropy, or SigLIP's pairwise sigmoid loss, of a matrix of logits.

    Texts beyond the images are negatives: they stand in each image's softmax, and have none of their own.
    """
    n = logits.shape[0]
    if contrast == "clip":
        labels = torch.arange(n, device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits[:, :n].mT, labels)) / 2
    return (-F.logsigmoid(-logits).sum() - logits.diagonal().sum()) / n


def dense_terms(settings: Settings, scores: Float[Tensor, "n n"], close_pairs: Int[Tensor, "p 2"] | None) -> Terms:
    """Evaluate the terms on a score matrix."""
    zero = scores.sum() * 0.0
    if settings.mode == "none":
        return Terms(zero, zero, zero, zero)
    if close_pairs is None and settings.mode not in ("v1", "v2"):
        close_pairs = torch.empty((0, 2), dtype=torch.int64, device=scores.device)
    if settings.mode == "relative" and close_pairs is not None:
        relative = mean_relative(pair_differences(scores, close_pairs), settings.epsilon)
        return Terms(zero, zero, zero, relative)
    if settings.mode == "hybrid" and close_pairs is not None:
        return hybrid_terms(
            scores,
            close_pairs,
            sides=settings.sides,
            margin=settings.margin,
            margin_v1=settings.margin_v1,
            distant_reduction=settings.distant_reduction,
            trusted=True,
        )
    if settings.mode == "v1":
        v1 = eqsim_v1(scores, close_pairs, margin=settings.margin_v1)
        return Terms(v1, zero, zero, zero)
    side = {name: eqsim_v2(scores, close_pairs, sides=(name,), margin=settings.margin) for name in settings.sides}
    return Terms(zero, side.get("text", zero), side.get("image", zero), zero)

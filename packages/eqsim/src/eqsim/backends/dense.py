"""The dense backend: the n x n score matrix in memory, and the functions of `eqsim.functional` on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from eqsim.backends.beside import hard_loss
from eqsim.batch import Parts
from eqsim.functional import matrix_terms
from eqsim.residuals import mean_pair_loss, pair_differences

if TYPE_CHECKING:
    from jaxtyping import Float
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


def matching_columns(settings: Settings, dots: Tensor, logits: Tensor) -> Float[Tensor, "n n"]:
    """Return the scores of images and matching texts from all dot products, and the same times the scale."""
    scores = {"cosine": lambda: dots, "logits": lambda: logits, "softmax": lambda: logits.softmax(dim=1)}
    return scores[settings.score]()[:, : len(dots)]


def dense_parts(batch: Batch) -> Parts:
    """Compute everything from the score matrix of a gathered batch: O(n^2) memory, the easiest to check."""
    settings, bias = batch.settings, batch.bias
    dots = batch.image @ batch.text.mT
    logits = dots * batch.scale
    contrastive = pair = keep = None
    if settings.contrast is not None:
        contrastive = dense_contrastive(logits if bias is None else logits + bias, settings.contrast)
    if settings.pair_weight > 0 and batch.pairs is not None:
        pair = mean_pair_loss(pair_differences(logits[:, : len(dots)], batch.pairs))
    hard = hard_loss(batch) if settings.hard_weight > 0 else None
    if batch.teacher is not None:
        theirs = batch.teacher.image @ batch.teacher.text.mT
        squares = settings.keep == "squares"
        keep = (dots - theirs).square().mean() if squares else dense_keep_kl(logits, theirs * batch.teacher.scale)
    terms = matrix_terms(settings, matching_columns(settings, dots, logits), batch.pairs)
    return Parts(contrastive, terms, pair, hard, keep)


def dense_keep_kl(logits: Float[Tensor, "n nm"], teacher: Float[Tensor, "n nm"]) -> Float[Tensor, ""]:
    """Half of KL(teacher || student) over texts for each image, and half of that over images for each matching text."""
    n = logits.shape[0]
    directions = ((logits, teacher), (logits[:, :n].mT, teacher[:, :n].mT))
    divergences = [
        F.kl_div(own.log_softmax(1), theirs.log_softmax(1), reduction="sum", log_target=True)
        for own, theirs in directions
    ]
    return (divergences[0] + divergences[1]) / (2 * n)


def dense_contrastive(logits: Float[Tensor, "n nm"], contrast: Contrast) -> Float[Tensor, ""]:
    """CLIP's symmetric cross-entropy, or SigLIP's pairwise sigmoid loss, of a matrix of logits.

    Texts beyond the images are negatives: they stand in each image's softmax, and have none of their own.
    """
    n = logits.shape[0]
    if contrast == "clip":
        labels = torch.arange(n, device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits[:, :n].mT, labels)) / 2
    return (-F.logsigmoid(-logits).sum() - logits.diagonal().sum()) / n

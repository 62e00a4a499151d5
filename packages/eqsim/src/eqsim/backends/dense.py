"""The dense backend: the n x n score matrix in memory, and the functions of `eqsim.functional` on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from eqsim.functional import eqsim_v1, eqsim_v2, hybrid_terms
from eqsim.known_pairs import mean_pair_loss, mean_relative, pair_differences
from eqsim.objective import Parts
from eqsim.residuals import Terms

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.backends.backend import Need, Work
    from eqsim.objective import Contrast, Objective

SMALL_BATCH = 256
"""Up to here the n x n matrix is cheaper than the bookkeeping of tiles."""


def refuses(need: Need) -> str | None:
    """Refuse nothing."""
    return None


def suits(need: Need) -> str | None:
    """Take small batches."""
    return f"n = {need.n} <= {SMALL_BATCH}: the n x n matrix is small" if need.n <= SMALL_BATCH else None


def run(work: Work) -> Parts:
    """Compute a batch."""
    whole = work.gathered()
    return dense_parts(
        whole.objective, whole.contrast, whole.image, whole.text, whole.scale, whole.bias, whole.close_pairs
    )


def dense_parts(
    objective: Objective,
    contrast: Contrast | None,
    image: Float[Tensor, "n d"],
    text: Float[Tensor, "n d"],
    scale: Float[Tensor, ""],
    bias: Float[Tensor, ""] | None,
    close_pairs: Int[Tensor, "p 2"] | None,
) -> Parts:
    """Compute everything from the score matrix: O(n^2) memory, the easiest to check."""
    dots = image @ text.mT
    logits = dots * scale
    contrastive = None if contrast is None else dense_contrastive(logits if bias is None else logits + bias, contrast)
    scores = {"cosine": lambda: dots, "logits": lambda: logits, "softmax": lambda: logits.softmax(dim=1)}
    pair = dense_pair_loss(logits, close_pairs) if objective.pair else None
    return Parts(contrastive, dense_terms(objective, scores[objective.score](), close_pairs), pair)


def dense_pair_loss(logits: Float[Tensor, "n n"], close_pairs: Int[Tensor, "p 2"] | None) -> Float[Tensor, ""]:
    """`eqsim.functional.pair_loss` of pairs that were looked at; 0 without any."""
    return logits.sum() * 0.0 if close_pairs is None else mean_pair_loss(pair_differences(logits, close_pairs))


def dense_contrastive(logits: Float[Tensor, "n n"], contrast: Contrast) -> Float[Tensor, ""]:
    """CLIP's symmetric cross-entropy, or SigLIP's pairwise sigmoid loss, of a matrix of logits."""
    if contrast == "clip":
        labels = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.mT, labels)) / 2
    return (-F.logsigmoid(-logits).sum() - logits.diagonal().sum()) / logits.shape[0]


def dense_terms(objective: Objective, scores: Float[Tensor, "n n"], close_pairs: Int[Tensor, "p 2"] | None) -> Terms:
    """Evaluate the objective on a score matrix."""
    zero = scores.sum() * 0.0
    if objective.mode == "none":
        return Terms(zero, zero, zero, zero)
    if close_pairs is None and objective.mode not in ("v1", "v2"):
        close_pairs = torch.empty((0, 2), dtype=torch.int64, device=scores.device)
    if objective.mode == "relative" and close_pairs is not None:
        relative = mean_relative(pair_differences(scores, close_pairs), objective.epsilon)
        return Terms(zero, zero, zero, relative)
    if objective.mode == "hybrid" and close_pairs is not None:
        return hybrid_terms(
            scores,
            close_pairs,
            sides=objective.sides,
            margin=objective.margin,
            margin_v1=objective.margin_v1,
            margin_mode=objective.margin_mode,
            distant_reduction=objective.distant_reduction,
            trusted=True,
        )
    if objective.mode == "v1":
        v1 = eqsim_v1(scores, close_pairs, margin=objective.margin_v1, margin_mode=objective.margin_mode)
        return Terms(v1, zero, zero, zero)
    side = {
        name: eqsim_v2(scores, close_pairs, sides=(name,), margin=objective.margin, margin_mode=objective.margin_mode)
        for name in objective.sides
    }
    return Terms(zero, side.get("text", zero), side.get("image", zero), zero)

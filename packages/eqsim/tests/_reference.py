"""The definition: every loss of this package in plain Python loops over float64 numbers.

Slow on purpose. The fast code is compared with these functions, values and gradients alike; nothing else calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Pairs = Sequence[tuple[int, int]]


def all_pairs(n: int) -> list[tuple[int, int]]:
    """Return every ordered pair (i, j) with i != j."""
    return [(i, j) for i in range(n) for j in range(n) if i != j]


def _margin_mean(squares: list[Tensor], margin: float, margin_mode: str, like: Tensor) -> Tensor:
    if not squares:
        return like.sum() * 0.0
    if margin_mode == "pair":
        return sum((torch.clamp(square - margin, min=0.0) for square in squares), like.sum() * 0.0) / len(squares)
    return torch.clamp(sum(squares, like.sum() * 0.0) / len(squares) - margin, min=0.0)


def v1(scores: Float[Tensor, "n n"], pairs: Pairs, margin: float = 0.0, margin_mode: str = "mean") -> Tensor:
    """Mean of (s_ij - s_ji)^2 over `pairs`."""
    squares = [(scores[i, j] - scores[j, i]) ** 2 for i, j in pairs]
    return _margin_mean(squares, margin, margin_mode, scores)


def v2(
    scores: Float[Tensor, "n n"],
    pairs: Pairs,
    sides: Sequence[str] = ("text", "image"),
    margin: float = 0.0,
    margin_mode: str = "mean",
) -> Tensor:
    """Sum over sides of the mean squared difference of differences over `pairs`."""
    total = scores.sum() * 0.0
    s = scores
    if "text" in sides:
        squares = [((s[i, i] - s[i, j]) - (s[j, j] - s[j, i])) ** 2 for i, j in pairs]
        total = total + _margin_mean(squares, margin, margin_mode, scores)
    if "image" in sides:
        squares = [((s[i, i] - s[j, i]) - (s[j, j] - s[i, j])) ** 2 for i, j in pairs]
        total = total + _margin_mean(squares, margin, margin_mode, scores)
    return total


def hybrid(
    scores: Float[Tensor, "n n"],
    close: Pairs,
    sides: Sequence[str] = ("text", "image"),
    margin: float = 0.0,
    margin_v1: float = 0.0,
    margin_mode: str = "mean",
    distant_reduction: str = "mean",
) -> Tensor:
    """v2 over the close list plus v1 over the pairs that are in it in neither order."""
    n = scores.shape[0]
    close_set = {frozenset(pair) for pair in close}
    distant = [(i, j) for i, j in all_pairs(n) if frozenset((i, j)) not in close_set]
    if distant_reduction == "mean" or not distant:
        far = v1(scores, distant, margin_v1, margin_mode)
    elif margin_mode == "pair":
        far = v1(scores, distant, margin_v1, "pair") * (len(distant) / n**2)
    else:
        squares = sum(((scores[i, j] - scores[j, i]) ** 2 for i, j in distant), scores.sum() * 0.0)
        far = torch.clamp(squares / n**2 - margin_v1, min=0.0)
    return v2(scores, close, sides, margin, margin_mode) + far


def _three(scores: Float[Tensor, "n n"], i: int, j: int) -> tuple[Tensor, Tensor, Tensor]:
    d, a = scores[i, i] - scores[j, j], scores[i, j] - scores[j, i]
    return d, a, (scores[i, i] + scores[j, j] - scores[i, j] - scores[j, i]) / 2


def pair_loss(logits: Float[Tensor, "n n"], pairs: Pairs) -> Tensor:
    """Mean softplus of the four wrong-less-right differences of each pair."""
    total = logits.sum() * 0.0
    for i, j in pairs:
        for wrong in (logits[i, j], logits[j, i]):
            for right in (logits[i, i], logits[j, j]):
                total = total + torch.log1p(torch.exp(wrong - right)) / (4 * len(pairs))
    return total


def relative(scores: Float[Tensor, "n n"], pairs: Pairs, epsilon: float) -> Tensor:
    """Mean softplus(log(|d| + |a| + e) - log(2 max(M, 0) + e))."""
    total = scores.sum() * 0.0
    for i, j in pairs:
        d, a, m = _three(scores, i, j)
        ratio = torch.log(d.abs() + a.abs() + epsilon) - torch.log(2 * torch.clamp(m, min=0.0) + epsilon)
        total = total + torch.log1p(torch.exp(ratio)) / len(pairs)
    return total


def score_matrix(
    image: Float[Tensor, "n d"], text: Float[Tensor, "n d"], score: str, scale: Tensor | float = 1.0
) -> Float[Tensor, "n n"]:
    """Score every image (row) against every text (column), one pair at a time."""
    rows = []
    for i in range(len(image)):
        row = []
        for j in range(len(text)):
            dot = (image[i] * text[j]).sum()
            if score == "cosine":
                dot = dot / (image[i].square().sum().sqrt() * text[j].square().sum().sqrt())
            else:
                dot = dot * scale
            row.append(dot)
        rows.append(torch.stack(row))
    if score == "softmax":
        rows = [torch.exp(row) / torch.exp(row).sum() for row in rows]
    return torch.stack(rows)


def contrastive(logits: Float[Tensor, "n nm"]) -> Tensor:
    """CLIP's symmetric cross-entropy, term by term; texts beyond the images are in the rows' sums alone."""
    n = logits.shape[0]
    total = logits.sum() * 0.0
    for i in range(n):
        total = total - torch.log(torch.exp(logits[i, i]) / torch.exp(logits[i]).sum()) / (2 * n)
        total = total - torch.log(torch.exp(logits[i, i]) / torch.exp(logits[:, i]).sum()) / (2 * n)
    return total


def sigmoid(logits: Float[Tensor, "n nm"]) -> Tensor:
    """SigLIP's pairwise sigmoid loss, term by term (bias already added)."""
    n = logits.shape[0]
    total = logits.sum() * 0.0
    for i in range(n):
        for j in range(logits.shape[1]):
            sign = 1.0 if i == j else -1.0
            total = total + torch.log1p(torch.exp(-sign * logits[i, j])) / n
    return total


def hard(right: Tensor, wrong: Tensor, owners: list[int], focus: float, smoothing: float) -> Tensor:
    """Focal, smoothed cross-entropy of each image's text against the false ones that are its own."""
    total = right.sum() * 0.0
    for i in range(len(right)):
        own = [right[i], *(wrong[k] for k, owner in enumerate(owners) if owner == i)]
        if len(own) == 1:
            continue
        share = sum(torch.exp(logit) for logit in own)
        for at, logit in enumerate(own):
            p = torch.exp(logit) / share
            target = smoothing / len(own) + (1 - smoothing if at == 0 else 0.0)
            total = total - target * (1 - p) ** focus * torch.log(p) / len(right)
    return total


def kl(logits: Float[Tensor, "n nm"], teacher: Float[Tensor, "n nm"]) -> Tensor:
    """Half the mean divergence of rows, over all texts, and half that of columns, over the images."""
    n = len(logits)
    total = logits.sum() * 0.0
    columns = [(logits[:, j], teacher[:, j]) for j in range(n)]
    for own, theirs in [*zip(logits, teacher, strict=True), *columns]:
        p, q = torch.exp(theirs) / torch.exp(theirs).sum(), torch.exp(own) / torch.exp(own).sum()
        total = total + (p * (torch.log(p) - torch.log(q))).sum() / (2 * n)
    return total


def cyclic(image: Float[Tensor, "n d"], text: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
    """CyCLIP's in-modal and cross-modal terms as means over all N^2 pairs of unit features."""
    n = image.shape[0]
    image = torch.stack([row / row.square().sum().sqrt() for row in image])
    text = torch.stack([row / row.square().sum().sqrt() for row in text])
    in_modal, cross = image.sum() * 0.0, image.sum() * 0.0
    for i in range(n):
        for j in range(n):
            in_modal = in_modal + ((image[i] * image[j]).sum() - (text[i] * text[j]).sum()) ** 2 / n**2
            cross = cross + ((image[i] * text[j]).sum() - (image[j] * text[i]).sum()) ** 2 / n**2
    return in_modal, cross

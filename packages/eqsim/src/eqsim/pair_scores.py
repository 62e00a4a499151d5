"""Dot products of listed pairs, in chunks: the memory is that of a chunk, not of pairs x features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from eqsim.operators import operator
from eqsim.residuals import PairSums, clamped, first_occurrence

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.objective import Objective

CHUNK_ELEMENTS = 1 << 21


def _chunks(pairs: Tensor, d: int) -> list[slice]:
    size = max(1, CHUNK_ELEMENTS // d)
    return [slice(start, start + size) for start in range(0, pairs.shape[0], size)]


@operator(
    "pair_dots(Tensor image, Tensor text, Tensor pairs) -> Tensor",
    lambda image, text, pairs: image.new_empty((2, pairs.shape[0])),
)
def _pair_dots(image: Tensor, text: Tensor, pairs: Tensor) -> Tensor:
    out = image.new_empty((2, pairs.shape[0]))
    for chunk in _chunks(pairs, image.shape[1]):
        i, j = pairs[chunk, 0], pairs[chunk, 1]
        torch.linalg.vecdot(image[i], text[j], out=out[0, chunk])
        torch.linalg.vecdot(image[j], text[i], out=out[1, chunk])
    return out


@operator(
    "pair_dots_backward(Tensor grad, Tensor image, Tensor text, Tensor pairs) -> (Tensor, Tensor)",
    lambda grad, image, text, pairs: (torch.empty_like(image), torch.empty_like(text)),
)
def _pair_dots_backward(grad: Tensor, image: Tensor, text: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    grad_image, grad_text = torch.zeros_like(image), torch.zeros_like(text)
    for chunk in _chunks(pairs, image.shape[1]):
        i, j = pairs[chunk, 0], pairs[chunk, 1]
        for first, second, weights in ((i, j, grad[0, chunk]), (j, i, grad[1, chunk])):
            grad_image.index_add_(0, first, text[second].mul_(weights[:, None]))
            grad_text.index_add_(0, second, image[first].mul_(weights[:, None]))
    return grad_image, grad_text


class _PairDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(image, text, pairs)
        dots: Tensor = _pair_dots(image, text, pairs)
        return dots

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        image, text, pairs = ctx.saved_tensors
        grad_image, grad_text = _pair_dots_backward(grads[0].contiguous(), image, text, pairs)
        return grad_image, grad_text, None


def pair_dots(
    image: Float[Tensor, "n d"], text: Float[Tensor, "n d"], pairs: Int[Tensor, "p 2"]
) -> tuple[Float[Tensor, " p"], Float[Tensor, " p"]]:
    """Return image_i . text_j and image_j . text_i for each listed pair (i, j).

    Numerics: on CUDA the backward adds rows with `index_add_`, whose order of summation is fixed only under
        `torch.use_deterministic_algorithms(True)`.

    Example:
        >>> import torch
        >>> image, text = torch.eye(2), torch.tensor([[1.0, 0.5], [0.25, 1.0]])
        >>> [x.tolist() for x in pair_dots(image, text, torch.tensor([[0, 1]]))]
        [[0.25], [0.5]]
    """
    dots: Tensor = _PairDots.apply(image, text, pairs)
    return dots[0], dots[1]


def listed_sums(
    objective: Objective, matching: Float[Tensor, " n"], s_ij: Tensor, s_ji: Tensor, pairs: Int[Tensor, "p 2"]
) -> tuple[PairSums, Float[Tensor, ""], Int[Tensor, ""]]:
    """Sum squared residuals over the list, and a^2 over the set of its pairs.

    Args:
        objective: the margins.
        matching: s_ii of every sample.
        s_ij: score of (i, j) for each listed pair.
        s_ji: score of (j, i).
        pairs: the list.

    Returns:
        The sums over the list, duplicates counted; the sum of a^2 over both orders of every pair in it, counted once;
        and the number of those ordered pairs.
    """
    d, a = matching[pairs[:, 0]] - matching[pairs[:, 1]], s_ij - s_ji
    mode = objective.margin_mode
    v1 = clamped(a.square(), objective.margin_v1, mode)
    order, first = first_occurrence(pairs, matching.shape[0])
    sums = PairSums(
        v1=v1.sum(),
        text=clamped((d - a).square(), objective.margin, mode).sum(),
        image=clamped((d + a).square(), objective.margin, mode).sum(),
    )
    return sums, 2 * (v1[order] * first).sum(), 2 * first.sum()

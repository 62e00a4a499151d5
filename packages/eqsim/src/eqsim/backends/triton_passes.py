"""The tiled passes as Triton kernels, with the signatures of those in `eqsim.backends.tiles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from eqsim.backends.pair_scores import operator
from eqsim.backends.shares import strip_rows
from eqsim.backends.tiles import (
    DOTS,
    GRADIENTS_SCHEMA,
    LOGITS,
    SOFTMAX,
    SOFTMAX_SCHEMA,
    STATISTICS_SCHEMA,
    Plan,
    gradients_shapes,
    softmax_shapes,
    statistics_shapes,
)
from eqsim.backends.triton_kernels import gradient_kernel, softmax_kernel, statistics_kernel
from eqsim.features import HALF_CODES

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32


def _sides(plan: Plan) -> int:
    """1 for the text side, 2 for the image side, 3 for both."""
    return int(plan.v2_text) + 2 * int(plan.v2_image)


def _blocks(n: int, plan: Plan) -> int:
    """How many row blocks this process has: every world_size-th from the rank-th on."""
    total = -(-n // BLOCK_M)
    return max(0, -(-(total - plan.rank) // plan.world_size))


def _sizes() -> dict[str, int]:
    return {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_K": BLOCK_K}


def _into_range(
    image: Tensor, text: Tensor, scale: Tensor, lse_weights: Tensor, sum_weights: Tensor, plan: Plan
) -> Tensor:
    """Return a power of two that brings every element of a float16 strip below 1, and the largest near it.

    Gradients are linear in the incoming weights. 1/2n of a softmax's tail is below float16's least number at usual
    batch sizes, and with a GradScaler's factor the head is above its largest; sums of n elements stay in range, too.
    """
    if plan.half != HALF_CODES[torch.float16]:
        return torch.ones_like(scale)
    largest = torch.linalg.vector_norm(image, dim=1).amax() * torch.linalg.vector_norm(text, dim=1).amax()
    residual = {DOTS: largest, LOGITS: largest * scale.square(), SOFTMAX: scale.abs()}[plan.score]
    bound = scale.abs() * (lse_weights.abs().amax(1).sum() + sum_weights[3].abs())
    bound = bound + 16 * residual * sum_weights[:3].abs().sum()
    return torch.where(bound > 0, torch.exp2(-torch.ceil(torch.log2(bound))), torch.ones_like(bound))


def _narrow(rows: Tensor, plan: Plan) -> Tensor:
    """Return rows in the half precision that the caller's features had, for the tensor cores; sums stay float32."""
    narrow: Any = (None, torch.bfloat16, torch.float16)[plan.half]
    return rows.contiguous() if narrow is None else rows.to(narrow)


@operator(f"triton_statistics{STATISTICS_SCHEMA}", statistics_shapes)
def triton_statistics(
    image: Tensor, text: Tensor, scale: Tensor, bias: Tensor, matching: Tensor, numbers: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """See `eqsim.backends.tiles.tile_statistics`; no score is stored."""
    plan = Plan.of(numbers)
    n, d = image.shape
    running = image.new_zeros((4, n))
    running[0::2] = float("-inf")
    sums = image.new_zeros((4, n))
    raw = plan.score <= LOGITS
    blocks = _blocks(n, plan)
    if blocks:
        statistics_kernel[(blocks,)](
            _narrow(image, plan),
            _narrow(text, plan),
            scale,
            bias,
            matching.contiguous(),
            running,
            sums,
            n,
            d,
            plan.rank,
            plan.world_size,
            LSE=plan.lse,
            SIGMOID=plan.sigmoid,
            V1=raw and plan.v1,
            SIDES=_sides(plan) if raw else 0,
            LOGITS=plan.score == LOGITS,
            **_sizes(),
        )
    return running, sums.sum(dim=1), image.new_empty(0)


@operator(f"triton_softmax_sums{SOFTMAX_SCHEMA}", softmax_shapes)
def triton_softmax_sums(
    image: Tensor, text: Tensor, scale: Tensor, row_lse: Tensor, matching: Tensor, numbers: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """See `eqsim.backends.tiles.tile_softmax_sums`."""
    plan = Plan.of(numbers)
    n, d = image.shape
    sums, rho, diagonal = image.new_zeros((4, n)), image.new_zeros((3, n)), image.new_zeros((3, n))
    blocks = _blocks(n, plan)
    if blocks:
        softmax_kernel[(blocks,)](
            _narrow(image, plan),
            _narrow(text, plan),
            scale,
            row_lse,
            matching.contiguous(),
            sums,
            rho,
            diagonal,
            n,
            d,
            plan.rank,
            plan.world_size,
            V1=plan.v1,
            SIDES=_sides(plan),
            **_sizes(),
        )
    return sums.sum(dim=1), rho, diagonal


@operator(f"triton_gradients{GRADIENTS_SCHEMA}", gradients_shapes)
def triton_gradients(
    image: Tensor,
    text: Tensor,
    scale: Tensor,
    bias: Tensor,
    matching: Tensor,
    lse: Tensor,
    lse_weights: Tensor,
    sum_weights: Tensor,
    stored: Tensor,
    numbers: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `eqsim.backends.tiles.tile_gradients`."""
    plan = Plan.of(numbers)
    n, d = image.shape
    grad_image, grad_text = torch.zeros_like(image), torch.zeros_like(text)
    grad_numbers, grad_matching = image.new_zeros(2), image.new_zeros(n)
    narrow_image, narrow_text = _narrow(image, plan), _narrow(text, plan)
    factor = _into_range(image, text, scale, lse_weights, sum_weights, plan)
    lse_weights, sum_weights = lse_weights * factor, sum_weights * factor
    columns = -(-n // BLOCK_N)
    strip = strip_rows(n, plan.world_size, BLOCK_M)
    starts = range(0, n, strip)
    grad_x = narrow_image.new_empty((min(strip, n), n))
    grad_y = torch.empty_like(grad_x)
    for index, start in enumerate(starts):
        if index % plan.world_size != plan.rank:
            continue
        stop = min(start + strip, n)
        rows = stop - start
        partial = image.new_zeros((3, rows, columns))
        gradient_kernel[(-(-rows // BLOCK_M), columns)](
            narrow_image,
            narrow_text,
            scale,
            bias,
            matching.contiguous(),
            lse.contiguous(),
            lse_weights.contiguous(),
            sum_weights.contiguous(),
            grad_x,
            grad_y,
            partial,
            n,
            d,
            start,
            stop,
            LSE=plan.lse,
            SIGMOID=plan.sigmoid,
            V1=plan.v1,
            SIDES=_sides(plan),
            SCORE=plan.score,
            **_sizes(),
        )
        grad_image[start:stop] = grad_x[:rows] @ narrow_text
        grad_text[start:stop] = grad_y[:rows] @ narrow_image
        grad_numbers += partial[:2].sum(dim=(1, 2))
        grad_matching[start:stop] = partial[2].sum(dim=1)
    return grad_image / factor, grad_text / factor, grad_numbers / factor, grad_matching / factor

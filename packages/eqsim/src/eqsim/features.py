"""Features as the losses compute with them: at least float32, unit rows where the score is a cosine."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float
    from torch import Tensor


HALF_CODES = {torch.bfloat16: 1, torch.float16: 2}
"""What passes over a batch call the half precision of the caller's features; 0 is none."""


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Run a Function's backward in the precision of its tensors, also where a caller has it inside autocast.

    `torch.amp.custom_bwd` would fix the device when the class is made, and the losses take any.
    """

    @functools.wraps(backward)
    def in_full(ctx: Any, *grads: Tensor) -> Any:
        with torch.autocast(grads[0].device.type, enabled=False):
            return backward(ctx, *grads)

    return in_full


def at_least_float32(values: Tensor) -> Tensor:
    """Return half-precision values as float32, others as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def inverse_norms(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
    """Return 1 / |row|, and 0 for rows of zeros: they score 0 against everything and get no gradient."""
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(norms > 0, norms.reciprocal(), torch.zeros_like(norms))


class _UnitRows(torch.autograd.Function):
    """Divide rows by their norms, keeping only the result for backward."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        inverse = inverse_norms(rows)
        unit = rows * inverse
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        unit, inverse = ctx.saved_tensors
        return unit_rows_backward(grads[0], unit, inverse)


def unit_rows_backward(grad: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """Return the gradient of the rows from that of the unit rows, (g - u (u . g)) / |row|."""
    along = torch.linalg.vecdot(unit, grad).unsqueeze(1)
    return torch.addcmul(grad, unit, along, value=-1).mul_(inverse)


def unit_rows(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Divide every row by its norm."""
    unit: Tensor = _UnitRows.apply(rows)
    return unit


def as_scalar(value: Tensor | float, like: Tensor) -> Float[Tensor, ""]:
    """Return a number as a 0-d tensor of the dtype and device of `like`, with its gradient."""
    if isinstance(value, torch.Tensor):
        return value.reshape(()).to(like)
    return torch.full((), value, dtype=like.dtype, device=like.device)

"""Which algorithm computes the loss, why, and the one function that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from eqsim.close_pairs import select_close_pairs
from eqsim.dense import dense_parts
from eqsim.distributed import gather_with_gradient
from eqsim.features import as_scalar, at_least_float32, unit_rows

if TYPE_CHECKING:
    from torch import Tensor

    from eqsim.close_pairs import ClosePairs
    from eqsim.objective import Contrast, Objective, Parts

Backend = Literal["auto", "dense", "tiled", "gram", "triton"]


class BackendChoice(NamedTuple):
    """A backend and the reason for it."""

    name: str
    reason: str


def choose_backend(
    objective: Objective, contrast: Contrast | None, backend: Backend, *, n: int, d: int, device: str, listed: bool
) -> BackendChoice:
    """Pick a backend."""
    return BackendChoice("dense", "asked for")


def compute_parts(
    objective: Objective,
    contrast: Contrast | None,
    image: Tensor,
    text: Tensor,
    scale: Tensor | float,
    bias: Tensor | float | None,
    close_pairs: Tensor | None,
    close: ClosePairs | None,
    *,
    backend: Backend,
    rank: int,
    world_size: int,
    generator: torch.Generator | None,
) -> Parts:
    """Run the objective on this rank's features; autocast is off."""
    image, text = at_least_float32(image), at_least_float32(text)
    if objective.score == "cosine":
        image, text = unit_rows(image), unit_rows(text)
    image = gather_with_gradient(image, rank, world_size)
    text = gather_with_gradient(text, rank, world_size)
    scalar = as_scalar(scale, image)
    offset = None if bias is None else as_scalar(bias, image)
    if close_pairs is None and close is not None:
        with torch.no_grad():
            close_pairs = select_close_pairs(scalar * (image @ text.mT), close, generator=generator)
    return dense_parts(objective, contrast, image, text, scalar, offset, close_pairs)

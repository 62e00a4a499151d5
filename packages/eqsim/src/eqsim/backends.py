"""Which algorithm computes the loss, why, and the one function that runs it."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from eqsim.assemble import assemble_terms
from eqsim.close_pairs import select_from_features
from eqsim.dense import dense_parts
from eqsim.distributed import gather_with_gradient
from eqsim.features import as_scalar, at_least_float32, unit_rows
from eqsim.gram import gram_pair_sums
from eqsim.objective import Parts
from eqsim.tiled import tiled_parts

if TYPE_CHECKING:
    from torch import Tensor

    from eqsim.close_pairs import ClosePairs
    from eqsim.objective import Contrast, Objective

Backend = Literal["auto", "dense", "tiled", "gram", "triton"]


class BackendChoice(NamedTuple):
    """A backend and the reason for it."""

    name: str
    reason: str


SMALL_BATCH = 256
"""Up to here the n x n matrix is cheaper than the bookkeeping of tiles."""

TRITON_BATCH = 1024
"""From here a kernel's launches are paid for by its tiles."""


def triton_is_installed() -> bool:
    """Return whether the triton package can be found, without importing it."""
    return importlib.util.find_spec("triton") is not None


def gram_refusal(objective: Objective, *, listed: bool) -> str | None:
    """Say why Gram matrices cannot compute the objective, or None if they can."""
    if objective.score == "softmax":
        return "score='softmax' is not a dot product of the features"
    if objective.pairwise_margin:
        return "margin_mode='pair' needs every single pair"
    if not objective.runs_over_all_pairs(listed=listed):
        return f"mode={objective.mode!r} over a list of close pairs has no sum over all pairs"
    return None


def triton_refusal(device: str) -> str | None:
    """Say why the Triton kernels cannot run, or None if they can."""
    if not triton_is_installed():
        return "the triton package is not installed (pip install 'eqsim[triton]')"
    if device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"the features are on {device!r}, not on 'cuda' (TRITON_INTERPRET=1 runs the kernels slowly on a CPU)"
    return None


def choose_backend(
    objective: Objective, contrast: Contrast | None, backend: Backend, *, n: int, d: int, device: str, listed: bool
) -> BackendChoice:
    """Pick a backend, or check the one asked for.

    Args:
        objective: what is minimised.
        contrast: the contrastive loss computed along, if any.
        backend: the caller's wish.
        n: samples in the whole batch.
        d: feature size.
        device: "cpu", "cuda", ...
        listed: whether there is a list of close pairs.

    Raises:
        ValueError: the backend asked for cannot do this; the message says why and which can.
    """
    refusal = gram_refusal(objective, listed=listed)
    if backend == "gram" and refusal:
        msg = f"backend='gram': {refusal}; 'dense', 'tiled' and 'triton' can"
        raise ValueError(msg)
    if backend == "triton":
        missing = triton_refusal(device)
        if missing:
            msg = f"backend='triton': {missing}; 'dense', 'tiled' and, for raw scores over all pairs, 'gram' can"
            raise ValueError(msg)
    if backend != "auto":
        return BackendChoice(backend, "asked for")
    if n <= SMALL_BATCH:
        return BackendChoice("dense", f"n = {n} <= {SMALL_BATCH}: the n x n matrix is small")
    if contrast is None and refusal is None and n > 2 * d:
        return BackendChoice("gram", f"raw scores over all pairs and n = {n} > 2 d = {2 * d}: d x d matrices suffice")
    if device == "cuda" and n >= TRITON_BATCH and triton_refusal(device) is None:
        return BackendChoice("triton", f"n = {n} on a GPU: tiles stay on the chip")
    return BackendChoice(
        "tiled", f"n = {n}: tiles need O(n d) memory; gram cannot: {refusal or 'n <= 2 d, or a contrast'}"
    )


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
    """Run the objective on this rank's features; autocast is off.

    Args:
        objective: what is minimised.
        contrast: the contrastive loss computed along, if any.
        image: (n, d) features of this rank.
        text: (n, d).
        scale: of the logits.
        bias: of the logits.
        close_pairs: the caller's list, of indices into the whole batch.
        close: the rule that makes a list where there is none.
        backend: the caller's wish.
        rank: this rank.
        world_size: number of ranks.
        generator: for the rule's draws.
    """
    n = image.shape[0] * world_size
    listed = close_pairs is not None or close is not None
    device = image.device.type
    name = choose_backend(objective, contrast, backend, n=n, d=image.shape[1], device=device, listed=listed).name
    half = {torch.bfloat16: 1, torch.float16: 2}.get(image.dtype, 0)
    image, text = at_least_float32(image), at_least_float32(text)
    scalar = as_scalar(scale, image)
    unit = objective.score == "cosine"
    all_sums = None
    if name == "gram":
        all_sums = gram_pair_sums(image, text, None if unit else scalar, unit=unit, world_size=world_size)
        if contrast is None and not listed:
            return Parts(None, assemble_terms(objective, n, all_sums, None))
    if unit:
        image, text = unit_rows(image), unit_rows(text)
    image = gather_with_gradient(image, rank, world_size)
    text = gather_with_gradient(text, rank, world_size)
    offset = None if bias is None or contrast != "sigmoid" else as_scalar(bias, image)
    if close_pairs is None and close is not None:
        close_pairs = select_from_features(
            image, text, scalar, close, generator=generator, rank=rank, world_size=world_size
        )
    if name == "dense":
        return dense_parts(objective, contrast, image, text, scalar, offset, close_pairs)
    return tiled_parts(
        objective,
        contrast,
        image,
        text,
        scalar,
        offset,
        close_pairs,
        all_sums=all_sums,
        triton=name == "triton",
        rank=rank,
        world_size=world_size,
        half=half,
    )

"""Batches larger than memory, with all of their pairs: features by pieces, the loss of the whole, pieces again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from eqsim.checks import check_features

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from eqsim.loss import BatchLoss

    Encode = Callable[[Any], tuple[Tensor, Tensor]]


def backward_in_pieces(
    loss: BatchLoss,
    encode: Encode,
    pieces: Sequence[Any],
    logit_scale: Tensor | float | None = None,
    logit_bias: Tensor | float | None = None,
    *,
    factor: Tensor | float = 1.0,
    **call: Any,
) -> dict[str, Tensor]:
    """Leave the whole batch's gradients in the parameters, with the activations of one piece in memory at a time.

    The features of all pieces are made without a graph, the loss of the whole batch gives their gradients, and a second
    pass through the encoders carries these on to the parameters. Gradient accumulation is another loss: it compares
    pairs within a piece alone.

    Args:
        loss: `ClipEqSimLoss`, or any other of this package that takes features of a batch.
        encode: a piece to (image features (n, d), text features (n + m, d)), the last m negatives. One that is a
            `DistributedDataParallel` exchanges gradients once, with the last piece.
        pieces: the parts of the batch, which are read twice.
        logit_scale: as in the loss; its own gradient is the whole batch's.
        logit_bias: as in the loss.
        factor: of the loss before its backward pass, such as `GradScaler.get_scale()`.
        call: further arguments of the loss, of the whole batch: indices count images, and negatives, in the order of
            the pieces.

    Returns:
        The loss's values by name, without a graph.

    Raises:
        ValueError: no piece, features that the loss cannot take, or a second pass of another shape than the first.

    Numerics: every piece draws the same random numbers in both passes (dropout), on the CPU and on the GPU of its
        features. Statistics of BatchNorm are moved twice.

    Example:
        >>> import torch
        >>> from eqsim import ClipEqSimLoss, backward_in_pieces
        >>> layer, images, texts = torch.nn.Linear(4, 4), torch.eye(4), torch.eye(4).roll(1, 0)
        >>> pieces = list(zip(images.split(2), texts.split(2)))
        >>> values = backward_in_pieces(
        ...     ClipEqSimLoss("v1"), lambda piece: (layer(piece[0]), layer(piece[1])), pieces, 10.0
        ... )
        >>> sorted(values), layer.weight.grad.shape
        (['contrastive_loss', 'eqsim_loss'], torch.Size([4, 4]))

    Source: GradCache (Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021).
    """
    if not pieces:
        raise ValueError("pieces is empty: expected at least one part of the batch")
    states: list[dict[torch.device, Tensor]] = []
    features: list[tuple[Tensor, Tensor]] = []
    for piece in pieces:
        states.append(_random_state(features[0][0].device if features else None))
        with torch.no_grad():
            image, text = encode(piece)
        check_features(image, text, negatives=True)
        features.append((image.detach(), text.detach()))
    sizes = [len(image) for image, _ in features]
    leaves = [
        torch.cat(rows).requires_grad_()
        for rows in (
            [image for image, _ in features],
            [text[:n] for n, (_, text) in zip(sizes, features, strict=True)],
            [text[n:] for n, (_, text) in zip(sizes, features, strict=True)],
        )
    ]
    negatives = [len(text) - n for n, (_, text) in zip(sizes, features, strict=True)]
    values = loss(leaves[0], torch.cat(leaves[1:]), logit_scale, logit_bias, output_dict=True, **call)
    (sum(values.values()) * factor).backward()
    own, matching, beyond = (
        torch.split(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad, parts)
        for leaf, parts in zip(leaves, (sizes, sizes, negatives), strict=True)
    )
    after = _random_state(leaves[0].device)
    for number, piece in enumerate(pieces):
        _restore(states[number])
        last = number == len(pieces) - 1
        with contextlib.nullcontext() if last or not hasattr(encode, "no_sync") else encode.no_sync():
            again = encode(piece)
            gradients = own[number], torch.cat([matching[number], beyond[number]])
            shapes = [[tuple(rows.shape) for rows in pair] for pair in (again, gradients)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"piece {number} has features of {shapes[0]} at the second pass: expected {shapes[1]}")
            torch.autograd.backward(again, gradients)
    _restore(after)
    return {name: value.detach() for name, value in values.items()}


def _random_state(device: torch.device | None) -> dict[torch.device, Tensor]:
    """The states of the CPU's generator and of a GPU's; before any feature is there, of the current GPU."""
    if device is None and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    states = {torch.device("cpu"): torch.get_rng_state()}
    if device is not None and device.type == "cuda":
        states[device] = torch.cuda.get_rng_state(device)
    return states


def _restore(states: dict[torch.device, Tensor]) -> None:
    for device, state in states.items():
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.set_rng_state(state)

"""What a trained module says of a split: by its best weights, and by the mean of its best checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from vision_adapters.rows import Rows
from vision_adapters.training.outcome import Kept
from vision_adapters.training.step import moved

_MOST_AVERAGED = 5
"""Checkpoints in the largest ensemble, as in GATE."""


def most_averaged(checkpoints: Sequence[Kept]) -> Sequence[Kept]:
    """The checkpoints of the largest ensemble."""
    return checkpoints[:_MOST_AVERAGED]


def averaged_sizes(count: int) -> list[int]:
    """Of how many of the best checkpoints outputs are averaged, of those that were kept."""
    return sorted({min(size, count) for size in (1, 3, _MOST_AVERAGED)})


def averaged(
    module: nn.Module,
    checkpoints: Sequence[Kept],
    inputs: tuple[Rows, ...],
    read: Callable[[Tensor], Tensor],
    batch_size: int,
    *,
    side_by_side: bool = False,
) -> Iterator[dict[int, Tensor]]:
    """Predictions batch by batch, of the mean outputs of the best 1, 3 and 5 checkpoints, by their number.

    The module comes, and is left, with the first one's weights. Outputs may be vectors whose products are scores: put
    ``side_by_side``, their products are the mean of the scores, which the product of mean vectors is not.
    """
    device, sizes = next(module.parameters()).device, averaged_sizes(len(checkpoints))
    for start in range(0, len(inputs[0]), batch_size):
        batch = [moved(rows[start : start + batch_size], device) for rows in inputs]
        with torch.no_grad():
            outputs = module(*batch)
            predicted = {1: read(outputs).cpu()}
            if len(checkpoints) > 1:
                total = outputs.float()
                for number, checkpoint in enumerate(checkpoints[1:], start=2):
                    module.load_state_dict(checkpoint.state, strict=False)
                    more = module(*batch).float()
                    total = torch.cat([total, more], dim=-1) if side_by_side else total + more
                    if number in sizes:
                        predicted[number] = read(total / (number**0.5 if side_by_side else number)).cpu()
                module.load_state_dict(checkpoints[0].state, strict=False)
        yield predicted


def predict(
    module: nn.Module, inputs: tuple[Rows, ...], read: Callable[[Tensor], Tensor], batch_size: int
) -> Iterator[Tensor]:
    """Predictions batch by batch, on the CPU."""
    unchanged = Kept(0, 0.0, {})  # one checkpoint, whose weights the module has
    return (batch[1] for batch in averaged(module, [unchanged], inputs, read, batch_size))

"""One training in several processes: each has a share of every batch, and the gradient is the whole batch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Share:
    """What one process of a group does of a training.

    The loss is taken of the outputs of all processes, which are gathered, so that it may be any function of a batch's
    outputs (contrastive, dice), and its gradient flows into the process's own part; `DistributedDataParallel` adds the
    parts up.
    """

    def __init__(self, module: nn.Module, group: dist.ProcessGroup, device: torch.device, batch: int) -> None:
        self.group, self.rank, self.world = group, group.rank(), group.size()
        if batch < self.world:
            raise ValueError(f"a batch of {batch} cannot be shared by {self.world} processes")
        device_ids = [device] if device.type == "cuda" else None
        self.parallel = DistributedDataParallel(module, device_ids=device_ids, process_group=group)

    def rows(self, batch_rows: Int[Tensor, " b"]) -> Int[Tensor, " s"]:
        """This process's share of a batch's row numbers."""
        return batch_rows.tensor_split(self.world)[self.rank]

    def pieces(self, count: int, micro_batches: int) -> list[list[Int[Tensor, " p"]]]:
        """The places in a batch of ``count`` that each process has in each of its micro-batches."""
        shares = torch.arange(count).tensor_split(self.world)
        cut = min(micro_batches, len(shares[-1]))
        return [list(parts) for parts in zip(*(share.tensor_split(cut) for share in shares), strict=True)]

    def adding_up(self, *, last: bool) -> AbstractContextManager[Any]:
        """Around a backward pass: gradients are exchanged in the last one of a step."""
        return nullcontext() if last else self.parallel.no_sync()

    def agree(self, seed: int, step: int) -> None:
        """After a step, give every process the first one's running statistics, and start its own random numbers anew.

        A checkpoint holds the first process's alone: a training that goes on from it has the same bits all the same.
        """
        torch.manual_seed(int(np.random.SeedSequence([seed, step, self.rank]).generate_state(1, np.uint64)[0]) >> 1)
        for buffer in self.parallel.module.buffers():
            dist.broadcast(buffer, src=dist.get_global_rank(self.group, 0), group=self.group)

    def gathered(self, output: Any, sizes: Sequence[int]) -> Any:
        """The outputs of all processes, in the order of the samples; gradients flow into this process's own."""
        return each_tensor(lambda tensor: self._joined(tensor, sizes), output)

    def _joined(self, output: Tensor, sizes: Sequence[int]) -> Tensor:
        if output.ndim == 0 or len(output) != sizes[self.rank]:
            raise ValueError(
                f"expected an output whose first dimension is the {sizes[self.rank]} samples of this process, "
                f"got shape {list(output.shape)}"
            )
        padded = output.new_zeros(max(sizes), *output.shape[1:])
        padded[: len(output)] = output.detach()
        padded_parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(padded_parts, padded, group=self.group)
        parts = [part[:size] for part, size in zip(padded_parts, sizes, strict=True)]
        parts[self.rank] = output
        return torch.cat(parts)


def from_first(value: Any, group: dist.ProcessGroup | None, device: torch.device) -> Any:
    """What the first process has, in every process of a group.

    NCCL sends what lies on a GPU, and would take each process's current one, which is the first for all that set none.
    """
    if group is None:
        return value
    box = [value]
    at = device if device.type == "cuda" and dist.get_backend(group) == "nccl" else None
    dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group, device=at)
    return box[0]


def each_tensor(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Lists, tuples, records and mappings with each tensor in them changed; anything else stays as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: each_tensor(change, element) for name, element in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(each_tensor(change, element) for element in value))
    return type(value)(each_tensor(change, element) for element in value) if isinstance(value, tuple | list) else value

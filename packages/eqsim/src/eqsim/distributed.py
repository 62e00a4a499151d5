"""Collectives with exact gradients, for losses over the batch of all ranks.

Convention: every rank returns the same loss L of the whole batch, and its feature gradients are world_size times
dL/dfeatures. DistributedDataParallel and FSDP then average parameter gradients over ranks, which leaves exactly
dL/dparameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


def check_process_group(rank: int, world_size: int) -> None:
    """Raise unless rank and world_size are those of the initialised process group."""
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank={rank}, world_size={world_size}: expected world_size >= 1 and 0 <= rank < world_size")
    if world_size == 1:
        return
    if not (dist.is_available() and dist.is_initialized()):
        msg = f"world_size={world_size}: expected an initialised torch.distributed process group, found none"
        raise RuntimeError(msg)
    if (dist.get_rank(), dist.get_world_size()) != (rank, world_size):
        raise ValueError(
            f"rank={rank}, world_size={world_size}: expected the process group's own, "
            f"rank={dist.get_rank()}, world_size={dist.get_world_size()}"
        )


def check_even_batches(rows: Tensor, world_size: int) -> None:
    """Raise ValueError on every rank unless all hold the same number of rows of the same size (one tiny gather).

    Without the check gloo aborts one process and breaks the others' connections, and NCCL may wait for ever.
    """
    if world_size == 1 or torch.compiler.is_compiling():
        return
    shape = torch.tensor(rows.shape, device=rows.device)
    shapes = [tuple(row.tolist()) for row in gather_rows(shape[None], world_size)]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"features have the shapes {', '.join(map(str, shapes))} on ranks 0 to {world_size - 1}: expected one "
            "shape (drop_last=True, or a DistributedSampler, which fills the last batch up)"
        )


class _Gather(torch.autograd.Function):
    """Concatenate the rows of all ranks; backward sums the ranks' gradients and returns this rank's rows."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, rank: int, world_size: int) -> Tensor:
        ctx.rows = slice(rank * local.shape[0], (rank + 1) * local.shape[0])
        return gather_rows(local, world_size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.rows].contiguous(), None, None


class _SumOverRanks(torch.autograd.Function):
    """Sum a tensor over ranks; backward sums the ranks' gradients, too."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total


def gather_rows(local: Tensor, world_size: int) -> Tensor:
    """Concatenate the rows of all ranks, without a gradient; every rank must hold the same number of rows."""
    local = local.contiguous()
    parts = [torch.empty_like(local) for _ in range(world_size)]
    dist.all_gather(parts, local)
    return torch.cat(parts)


def gather_with_gradient(local: Float[Tensor, "n d"], rank: int, world_size: int) -> Float[Tensor, "wn d"]:
    """Concatenate the rows of all ranks, keeping the gradient of every rank's loss with respect to every row."""
    return local if world_size == 1 else _Gather.apply(local, rank, world_size)


def sum_over_ranks(local: Tensor, world_size: int) -> Tensor:
    """Sum a tensor over ranks, keeping the gradient of every rank's loss."""
    return local if world_size == 1 else _SumOverRanks.apply(local)


def gather_pairs(local_pairs: Int[Tensor, "p 2"], world_size: int) -> Int[Tensor, "wp 2"]:
    """Concatenate the pair lists of all ranks; the indices are of the whole batch already."""
    return local_pairs if world_size == 1 else gather_rows(local_pairs, world_size)

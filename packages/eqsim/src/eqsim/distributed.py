"""Collectives with exact gradients, for losses over the batch of all ranks.

Convention: every rank returns the same loss L of the whole batch, and its feature gradients are world_size times
dL/dfeatures. DistributedDataParallel and FSDP then average parameter gradients over ranks, which leaves exactly
dL/dparameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from eqsim.features import without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def check_process_group(rank: int, world_size: int) -> None:
    """Raise unless rank and world_size are those of the initialised process group."""
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


def own_place() -> tuple[int, int]:
    """Return this process's rank and the number of processes, of the initialised process group; (0, 1) without one."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def rows_of_ranks(image: Tensor, text: Tensor, world_size: int, *, equal: bool = False) -> tuple[tuple[int, int], ...]:
    """Return how many images, and texts beyond them, each rank holds (one tiny gather; compiled, this rank's of all).

    The gather is read by the host, which waits for the device; with `equal` all ranks hold what this one does, and
    nothing waits.

    Raises ValueError on every rank where features differ in size: gloo would abort one process, NCCL wait for ever.
    """
    own = (image.shape[0], text.shape[0] - image.shape[0])
    if world_size == 1 or equal or torch.compiler.is_compiling():
        return (own,) * world_size
    shape = torch.tensor((*own, image.shape[1]), device=image.device)
    shapes = [tuple(row.tolist()) for row in gather_rows(shape[None], (1,) * world_size)]
    if len({d for _, _, d in shapes}) > 1:
        sizes = ", ".join(str(d) for _, _, d in shapes)
        raise ValueError(f"features are of {sizes} numbers on ranks 0 to {world_size - 1}: expected one size")
    return tuple((n, m) for n, m, _ in shapes)


class _Gather(torch.autograd.Function):
    """Concatenate the rows of all ranks; backward sums the ranks' gradients and returns this rank's rows."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, rank: int, counts: tuple[int, ...]) -> Tensor:
        start = sum(counts[:rank])
        ctx.rows = slice(start, start + counts[rank])
        return gather_rows(local, counts)

    @staticmethod
    @without_autocast
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.rows].contiguous(), None, None


def gather_rows(local: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Concatenate the rows of all ranks, `counts` of them, without a gradient; short ones are filled up on the way."""
    if len(counts) == 1:
        return local
    missing = max(counts) - local.shape[0]
    filled = torch.cat([local, local.new_zeros(missing, *local.shape[1:])]) if missing else local.contiguous()
    parts = [torch.empty_like(filled) for _ in counts]
    dist.all_gather(parts, filled)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def gather_with_gradient(local: Float[Tensor, "n d"], rank: int, counts: tuple[int, ...]) -> Float[Tensor, "wn d"]:
    """Concatenate the rows of all ranks, keeping the gradient of every rank's loss with respect to every row."""
    return local if len(counts) == 1 else _Gather.apply(local, rank, counts)

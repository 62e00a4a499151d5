"""What a task learns from and is scored against, where it need not fit into memory, and what is counted in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from gate_data.maps import Maps
from gate_runner.features import digests_of

if TYPE_CHECKING:
    from gate_data.request import SplitName
    from gate_runner.tasks.job import Job
    from vision_adapters.rows import Rows

_READ = 64
"""Maps that are read together."""
_COUNTED = 1_000_000
"""Numbers that are counted together."""


def targets_of(job: Job) -> dict[SplitName, Rows]:
    """The targets of each split, as rows.

    Maps in files are read here, once and all of them, so that what is wrong with one is said before anything is
    encoded. They are kept as features are: in memory while they are few, in a file under the cap of
    ``--feature-cache``, and read again whenever they are needed beyond it.
    """
    return {"train": _kept(job, "train"), "validation": _kept(job, "validation"), "test": _kept(job, "test")}


def _kept(job: Job, split: SplitName) -> Rows:
    targets = getattr(job.data, split).targets
    if not isinstance(targets, Maps):
        found: Rows = targets
        return found
    name = f"maps-{split}"

    def progress(done: int, total: int) -> None:
        job.progress(f"read maps {split}", done, total)

    with job.timed("data"):
        rows = job.features.rows(name, "maps", digests_of(targets), _READ, targets.__getitem__, progress)
        if job.features.placed[name] == "encoded again":
            for numbers in torch.split(torch.arange(len(targets)), _READ):
                rows[numbers]  # one that is wrong is said now
    return rows


def frequencies(targets: Rows, classes: int) -> Float[Tensor, k * places]:
    """Log-frequencies of classes ``[k]``, or for each place of class maps ``[k, h, w]``.

    Args:
        targets: of training, ``[n]`` or ``[n, h, w]``; looked at in parts. Below 0 they count nowhere.
        classes: k.

    Example:
        >>> frequencies(torch.tensor([0, 1, 1, 1]), 2).exp()
        tensor([0.2500, 0.7500])
    """
    places = targets[:1].shape[1:]
    size = places.numel()
    counts = torch.zeros(classes * size, dtype=torch.int32)
    for numbers in torch.split(torch.arange(len(targets)), max(1, _COUNTED // size)):
        part = targets[numbers].reshape(len(numbers), size).long()
        flat = (part * size + torch.arange(size))[part >= 0]
        counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
    shares = counts.reshape(classes, *places).float() / len(targets)
    return shares.clamp_min(1e-6).log()


def middle(targets: Rows) -> float:
    """The lower median of all numbers above 0, exactly, in two passes that hold a part at a time.

    A positive float32 is ordered like its bits: the first pass counts their upper halves, the second the lower halves
    of those among which the median is.

    Args:
        targets: ``[n, ...]``, float32.

    Example:
        >>> middle(torch.tensor([[0.0, 3.0], [1.0, 2.0]]))
        2.0
    """

    def counted(upper: int | None) -> Tensor:
        counts = torch.zeros(1 << 16, dtype=torch.int64)
        size = max(1, targets[:1].numel())
        for numbers in torch.split(torch.arange(len(targets)), max(1, _COUNTED // size)):
            part = targets[numbers].flatten()
            bits = part[part > 0].contiguous().view(torch.int32)
            halves = bits >> 16 if upper is None else (bits & 0xFFFF)[bits >> 16 == upper]
            counts += torch.bincount(halves, minlength=1 << 16)
        return counts

    first = counted(None).cumsum(0)
    if not int(first[-1]):
        raise ValueError("no number is above 0")
    rank = (int(first[-1]) - 1) // 2
    upper = int(torch.searchsorted(first, rank, right=True))
    left = rank - (int(first[upper - 1]) if upper else 0)
    lower = int(torch.searchsorted(counted(upper).cumsum(0), left, right=True))
    return float(torch.tensor([upper << 16 | lower], dtype=torch.int32).view(torch.float32))

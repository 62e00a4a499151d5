"""What is counted over rows that need not be in memory: class frequencies, and a median."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from vision_adapters.rows.source import Rows

_COUNTED = 1_000_000
"""Numbers that are counted together."""


def blocks_of(rows: Rows, cells: int) -> Iterator[Tensor]:
    """Row numbers in order, as many at a time as have so many numbers together."""
    yield from torch.split(torch.arange(len(rows)), max(1, cells // max(1, rows[:1].numel())))


def log_frequencies(targets: Rows, classes: int) -> Float[Tensor, k * places]:
    """Log-frequencies of classes ``[k]``, or for each place of class maps ``[k, h, w]``; below 0 nothing is counted."""
    places = targets[:1].shape[1:]
    size = places.numel()
    counts = torch.zeros(classes * size, dtype=torch.int32)
    for numbers in blocks_of(targets, _COUNTED):
        part = targets[numbers].reshape(len(numbers), size).long()
        flat = (part * size + torch.arange(size))[part >= 0]
        counts.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
    shares = counts.reshape(classes, *places).float() / len(targets)
    return shares.clamp_min(1e-6).log()


def positive_median(values: Rows) -> float:
    """The lower median of all numbers above 0, exactly, in two passes that hold a part at a time.

    A positive float32 is ordered like its bits: the first pass counts their upper halves, the second the lower halves
    of those among which the median is.
    """

    def counted(upper: int | None) -> Tensor:
        counts = torch.zeros(1 << 16, dtype=torch.int64)
        for numbers in blocks_of(values, _COUNTED):
            part = values[numbers].flatten()
            bits = part[part > 0].contiguous().view(torch.int32)
            halves = bits >> 16 if upper is None else (bits & 0xFFFF)[bits >> 16 == upper]
            counts += torch.bincount(halves, minlength=1 << 16)
        return counts

    first = counted(None).cumsum(0)
    if not int(first[-1]):
        raise ValueError("no number is above 0")
    rank = (int(first[-1]) - 1) // 2
    upper = int(torch.searchsorted(first, rank, right=True))
    offset = rank - (int(first[upper - 1]) if upper else 0)
    lower = int(torch.searchsorted(counted(upper).cumsum(0), offset, right=True))
    return float(torch.tensor([upper << 16 | lower], dtype=torch.int32).view(torch.float32))

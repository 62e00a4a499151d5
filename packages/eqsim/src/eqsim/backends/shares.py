"""Which part of the score matrix each process computes, so that all finish at about the same time."""

from __future__ import annotations

import heapq
import math
from functools import lru_cache

BLOCKS_PER_RANK = 8
"""Blocks of a side are at least sqrt(8 W) for W processes: one tile with its mirror is then 1/4 of a fair share."""

STRIP_ELEMENTS = 1 << 27
"""Elements of each of the two gradient strips that the kernels keep at a time (256 MB in half precision)."""


def tile_side(n: int, world_size: int, largest: int) -> int:
    """Return the side of a tile: `largest`, or less if processes would go without."""
    if world_size == 1:
        return largest
    return max(1, min(largest, -(-n // math.ceil(math.sqrt(BLOCKS_PER_RANK * world_size)))))


def strip_rows(n: int, world_size: int, block: int) -> int:
    """Return the rows of a gradient strip, whole blocks: as few strips for each process as memory allows."""
    most = max(1, min(STRIP_ELEMENTS // n, n) // block) * block
    rounds = -(-n // (world_size * most))
    return math.ceil(math.ceil(n / (world_size * rounds)) / block) * block


@lru_cache(maxsize=64)
def deal(sizes: tuple[int, ...], rank: int, world_size: int) -> tuple[int, ...]:
    """Return the places of this process's tiles: the largest go first, each to the process with least work so far."""
    if world_size == 1:
        return tuple(range(len(sizes)))
    load = [(0, process) for process in range(world_size)]
    own = []
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        work, process = heapq.heappop(load)
        heapq.heappush(load, (work + sizes[place], process))
        if process == rank:
            own.append(place)
    return tuple(sorted(own))

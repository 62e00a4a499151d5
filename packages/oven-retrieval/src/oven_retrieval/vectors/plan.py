"""Which index to build: from the number of vectors, their width, the memory there is and the recall that is wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass

_EXACT_ROWS = 20_000
_TRAIN_PER_LIST = 40


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What to build and why.

    `factory` FAISS's name of the index, or `exact` for no index at all; `lists` number of inverted lists, 0 for
    `exact`; `megabytes` expected memory of the index; `reason` one sentence.
    """

    factory: str
    lists: int
    megabytes: float
    reason: str


def plan_index(count: int, dim: int, *, memory_mb: float | None = None, recall: float = 0.96) -> IndexPlan:
    """Choose an index.

    Exact search up to 20,000 vectors, or where a recall above .999 is wanted. Else inverted lists, about 4 sqrt(n) of
    them (a power of two, at
    least 40 vectors each), with 8 bits per number; with 4 bits where 8 do not fit. How many lists to visit is
    measured after the build.

    Source: our measurements on cross-modal queries: graphs (HNSW) and product quantisation without refinement lose a
    third to a half of the best answers there, so neither is offered.
    """
    if count < 1 or dim < 1:
        raise ValueError(f"count, dim: expected at least 1, got {count}, {dim}")
    if not 0 < recall <= 1:
        raise ValueError(f"recall: expected above 0 and at most 1, got {recall!r}")
    if memory_mb is not None and not memory_mb > 0:
        raise ValueError(f"memory_mb: expected above 0, got {memory_mb!r}")
    if count <= _EXACT_ROWS:
        return IndexPlan("exact", 0, 0.0, f"{count:,} vectors are searched exactly in little time")
    if recall > 0.999:
        return IndexPlan("exact", 0, 0.0, f"a recall of {recall} is only sure when every vector is compared")
    lists = 2 ** round(math.log2(4 * math.sqrt(count)))
    while lists * _TRAIN_PER_LIST > count:
        lists //= 2
    sizes = {bits: (count * (dim * bits / 8 + 8) + lists * dim * 4) / 1e6 for bits in (8, 4)}
    for bits, size in sizes.items():
        if memory_mb is None or size <= memory_mb:
            reason = f"{count:,} x {dim}: inverted lists with {bits} bits per number take {size:,.0f} MB"
            return IndexPlan(f"IVF{lists},SQ{bits}", lists, size, reason)
    raise ValueError(
        f"memory_mb: no index of {count:,} x {dim} fits in {memory_mb:,.0f} MB; the smallest takes {sizes[4]:,.0f} MB "
        "(exact search reads the vectors from disk and needs none: recall=1)"
    )

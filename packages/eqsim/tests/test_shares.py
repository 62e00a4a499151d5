"""How the work is dealt over processes, with the sizes that ship."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from eqsim.backends.beside import _blocks
from eqsim.backends.shares import STRIP_ELEMENTS, strip_rows, tile_side
from eqsim.backends.tiles import ACCELERATOR_TILE, LOGITS, TILE, Plan

BLOCK_M = 64  # the kernels' own; importing them needs Triton
SIZES = (1024, 4096, 4100, 8192, 20_000, 65_536)


def plan(tile: int, rank: int, world_size: int) -> Plan:
    return Plan(True, False, True, False, False, LOGITS, tile, rank, world_size)


def area(rows: slice, columns: slice) -> int:
    return (rows.stop - rows.start) * (columns.stop - columns.start)


@pytest.mark.parametrize("largest", [TILE, ACCELERATOR_TILE])
@pytest.mark.parametrize("world_size", range(2, 9))
@pytest.mark.parametrize("n", SIZES)
def test_every_process_has_its_share_of_tiles(n: int, world_size: int, largest: int) -> None:
    side = tile_side(n, world_size, largest)
    assert side <= largest
    work = []
    places: Counter[tuple[int, int]] = Counter()
    for rank in range(world_size):
        corners = plan(side, rank, world_size).corners(n, n)
        work.append(sum((1 + (b != c)) * area(b, c) for b, c in corners))
        places.update((b.start, c.start) for b, c in corners)
    assert sum(work) == n * n, "every score once, mirrors included"
    assert set(places.values()) == {1}
    assert max(work) * world_size <= 1.3 * n * n
    rectangles = [sum(area(b, c) for b, c in _blocks(n, n, side, rank, world_size)) for rank in range(world_size)]
    assert sum(rectangles) == n * n
    assert max(rectangles) * world_size <= 1.3 * n * n


@pytest.mark.parametrize("world_size", range(1, 9))
@pytest.mark.parametrize("n", SIZES)
def test_every_process_has_its_share_of_strips(n: int, world_size: int) -> None:
    rows = strip_rows(n, world_size, BLOCK_M)
    assert rows % BLOCK_M == 0
    assert rows * n <= max(STRIP_ELEMENTS, BLOCK_M * n)
    shares = [0] * world_size
    for index, start in enumerate(range(0, n, rows)):
        shares[index % world_size] += min(rows, n - start)
    assert sum(shares) == n
    whole_blocks = math.ceil(math.ceil(n / BLOCK_M) / world_size) * BLOCK_M  # nobody can have less than this many
    assert max(shares) <= max(1.3 * n / world_size, whole_blocks)


def test_negatives_are_dealt_too() -> None:
    n, texts, world_size = 4096, 4096 + 3000, 4
    side = tile_side(n, world_size, ACCELERATOR_TILE)
    work = [
        sum((1 + (b != c and c.start < n)) * area(b, c) for b, c in plan(side, rank, world_size).corners(n, texts))
        for rank in range(world_size)
    ]
    assert sum(work) == n * texts
    assert max(work) * world_size <= 1.3 * n * texts


def test_few_rows_and_one_process() -> None:
    assert tile_side(3, 8, TILE) == 1
    assert tile_side(100, 1, TILE) == TILE
    assert [plan(1, rank, 8).corners(1, 1) != [] for rank in range(8)].count(True) == 1

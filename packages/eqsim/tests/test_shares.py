"""How the work is dealt over processes, with the sizes that ship."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from eqsim.backends.beside import _blocks
from eqsim.backends.shares import STRIP_ELEMENTS, strip_rows, tile_side
from eqsim.backends.tiles import (
    ACCELERATOR_TILE,
    DOTS,
    LOGITS,
    SOFTMAX,
    TILE,
    Plan,
    gradients_shapes,
    softmax_shapes,
    statistics_shapes,
    tile_gradients,
    tile_softmax_sums,
    tile_statistics,
)

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


@pytest.mark.parametrize("contrast", [False, True])
def test_what_is_stored_is_every_score_once(contrast: bool) -> None:
    whole = Plan(contrast, False, True, False, False, LOGITS, 4, store=1)
    assert whole.stored(10, 17) == 10 * (17 if contrast else 10)
    assert sum(whole._replace(rank=rank, world_size=3).stored(10, 17) for rank in range(3)) == whole.stored(10, 17)
    assert whole._replace(store=0).stored(10, 17) == 0


def test_announced_shapes_are_those_of_the_passes() -> None:
    """What is traced believes the announcement."""
    n, texts, d = 5, 7, 3
    image, text, scale, bias = torch.ones(n, d), torch.ones(texts, d), torch.tensor(2.0), torch.tensor(0.0)
    matching, lse = torch.ones(n), torch.ones(2, n)
    for store in (0, 1):
        numbers = Plan(True, False, True, False, False, DOTS, 2, store=store).numbers()
        forward = (image, text, scale, bias, matching, numbers)
        given = tile_statistics(*forward)
        assert [x.shape for x in statistics_shapes(*forward)] == [x.shape for x in given]
        backward = (image, text, scale, bias, matching, lse, lse, torch.ones(4), given[2], numbers)
        assert [x.shape for x in gradients_shapes(*backward)] == [x.shape for x in tile_gradients(*backward)]
    soft = (image, text, scale, lse[0], matching, Plan(True, False, True, False, False, SOFTMAX, 2).numbers())
    assert [x.shape for x in softmax_shapes(*soft)] == [x.shape for x in tile_softmax_sums(*soft)]


def test_few_rows_and_one_process() -> None:
    assert tile_side(3, 8, TILE) == 1
    assert tile_side(100, 1, TILE) == TILE
    assert [plan(1, rank, 8).corners(1, 1) != [] for rank in range(8)].count(True) == 1

"""Models that are nearly the same: kept on one side of every split, so that none is predicted from its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eevee.tables.holdout import joined
from eevee.tables.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Int

    from eevee.tables.table import ResultTable

NEAR = 0.1
ROWS = 512


def model_distances(table: ResultTable) -> Float[np.ndarray, "models models"]:
    r"""Root mean squared difference of two models over the metrics that both have, in standard deviations.

    Two unrelated models are about $\sqrt 2$ apart. Infinite where they have no metric in common.

    Example:
        >>> from eevee import load_table
        >>> float(model_distances(load_table("gate")).max()) > 1
        True
    """
    return np.concatenate([block for _, block in _blocks(table)])


def near_pairs(
    table: ResultTable, near: float = NEAR
) -> tuple[Int[np.ndarray, "pairs 2"], Float[np.ndarray, " pairs"]]:
    """Pairs of models nearer than this, and their distances, found block by block: memory grows with their number.

    Returns:
        Positions (later model, earlier model) in order, and distances in standard deviations.
    """
    pairs, distances = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for start, block in _blocks(table, earlier=True):
        rows, columns = np.nonzero(block < near)
        later = columns < rows + start
        pairs.append(np.stack([rows[later] + start, columns[later]], axis=1))
        distances.append(block[rows[later], columns[later]])
    return np.concatenate(pairs), np.concatenate(distances)


def group_twins(table: ResultTable, near: float = NEAR) -> ResultTable:
    """The table with near-twins in one group, added to the groups that it already has.

    Args:
        table: the results.
        near: models nearer than this, in standard deviations, are twins; so are twins of twins.
    """
    pairs, _ = near_pairs(table, near)
    if not len(pairs):
        return table
    root = list(range(len(table.models)))

    def top(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for later, earlier in pairs.tolist():
        a, b = sorted((top(later), top(earlier)))
        root[b] = a
    return table.with_groups(joined(table.groups, [table.groups[top(i)] for i in range(len(root))]))


def _blocks(table: ResultTable, earlier: bool = False) -> Iterator[tuple[int, Float[np.ndarray, "rows models"]]]:
    """First model and distances of some models to all (or to those up to them), a block at a time."""
    data = standardise(table)
    mask = (data.mask & data.varies).astype(np.float64)
    values = data.values * mask
    squares = values**2
    norms = squares.sum(axis=1)
    for start in range(0, len(values), ROWS):
        rows, others = slice(start, start + ROWS), slice(0, start + ROWS if earlier else None)
        if data.complete:
            total = norms[rows, None] + norms[others] - 2 * values[rows] @ values[others].T
            common = np.full_like(total, float(data.varies.sum()))
        else:
            total = (
                squares[rows] @ mask[others].T + mask[rows] @ squares[others].T - 2 * values[rows] @ values[others].T
            )
            common = mask[rows] @ mask[others].T
        with np.errstate(invalid="ignore", divide="ignore"):
            block = np.where(common > 0, np.sqrt(np.maximum(total, 0.0) / common), np.inf)
        own = np.arange(len(block))
        block[own, own + start] = 0.0
        yield start, block

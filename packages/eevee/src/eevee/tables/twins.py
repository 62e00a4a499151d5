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

    Sums = Float[np.ndarray, "rows models"]

NEAR = 0.1
ROWS = 128


def model_distances(table: ResultTable) -> Float[np.ndarray, "models models"]:
    r"""Root mean squared difference of two models over the metrics that both have, in standard deviations.

    Two unrelated models are about $\sqrt 2$ apart. Infinite where they have no metric in common.

    Example:
        >>> from eevee import load_table
        >>> float(model_distances(load_table("gate")).max()) > 1
        True
    """
    return np.concatenate([_distances(start, total, common) for start, total, common in _blocks(table)])


def near_pairs(
    table: ResultTable, near: float = NEAR
) -> tuple[Int[np.ndarray, "pairs 2"], Float[np.ndarray, " pairs"]]:
    """Pairs of models nearer than this, and their distances, found block by block: memory grows with their number."""
    pairs, distances = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for start, total, common in _blocks(table, earlier=True):
        rows, columns = np.nonzero(total < near**2 * common)
        later = columns < rows + start
        pair = rows[later], columns[later]
        pairs.append(np.stack([pair[0] + start, pair[1]], axis=1))
        distances.append(np.sqrt(np.maximum(total[pair], 0.0) / np.broadcast_to(common, total.shape)[pair]))
    return np.concatenate(pairs), np.concatenate(distances)


def group_twins(table: ResultTable, near: float = NEAR) -> ResultTable:
    """The table with near-twins in one group, added to the groups that it already has.

    Args:
        table: the results.
        near: models nearer than this, in standard deviations, are twins; so are twins of twins.

    Example:
        >>> from eevee import load_table
        >>> table = group_twins(load_table("gate"), near=0.3)
        >>> len(set(table.groups)) < len(table.models)
        True
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


def _blocks(table: ResultTable, earlier: bool = False) -> Iterator[tuple[int, Sums, Sums]]:
    """Some models at a time: the first one's position, and sums of squared differences and metrics in common.

    The sums are over each of them and all models, or those up to them.
    """
    data = standardise(table)
    mask = (data.mask & data.varies).astype(np.float64)
    values = data.values * mask
    squares = values**2
    norms = squares.sum(axis=1)
    ours, theirs = np.hstack([squares, mask, -2 * values]), np.hstack([mask, squares, values])
    for start in range(0, len(values), ROWS):
        rows, earlier_rows = slice(start, start + ROWS), slice(0, start + ROWS if earlier else None)
        if data.complete:
            total = -2 * values[rows] @ values[earlier_rows].T
            total += norms[rows, None]
            total += norms[earlier_rows]
            yield start, total, np.full((1, 1), float(data.varies.sum()))
        else:
            yield start, ours[rows] @ theirs[earlier_rows].T, mask[rows] @ mask[earlier_rows].T


def _distances(
    start: int, total: Float[np.ndarray, "rows models"], common: Float[np.ndarray, "rows models"]
) -> Float[np.ndarray, "rows models"]:
    with np.errstate(invalid="ignore", divide="ignore"):
        block = np.where(common > 0, np.sqrt(np.maximum(total, 0.0) / common), np.inf)
    own = np.arange(len(block))
    block[own, own + start] = 0.0
    return np.asarray(block)

"""Models that are nearly the same: kept on one side of every split, so that none is predicted from its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eevee.standard import standardise

if TYPE_CHECKING:
    from jaxtyping import Float

    from eevee.table import ResultTable

NEAR = 0.1


def model_distances(table: ResultTable) -> Float[np.ndarray, "models models"]:
    r"""Root mean squared difference of two models over the metrics that both have, in standard deviations.

    Two unrelated models are about $\sqrt 2$ apart. Infinite where they have no metric in common.

    Example:
        >>> from eevee import load_table
        >>> float(model_distances(load_table("gate")).max()) > 1
        True
    """
    data = standardise(table)
    mask = (data.mask & data.varies).astype(np.float64)
    values = data.values * mask
    squares = (values**2) @ mask.T
    common = mask @ mask.T
    total = squares + squares.T - 2 * values @ values.T
    with np.errstate(invalid="ignore", divide="ignore"):
        distances = np.where(common > 0, np.sqrt(np.maximum(total, 0.0) / common), np.inf)
    np.fill_diagonal(distances, 0.0)
    return distances


def group_twins(table: ResultTable, near: float = NEAR) -> ResultTable:
    """The table with near-twins in one group, added to the groups that it already has.

    Args:
        table: the results.
        near: models nearer than this, in standard deviations, are twins; so are twins of twins.
    """
    distances = model_distances(table)
    label = list(table.groups)
    for i in range(len(label)):
        for j in range(i):
            if distances[i, j] < near and label[i] != label[j]:
                old, new = label[i], label[j]
                label = [new if group == old else group for group in label]
    return table.with_groups(label)

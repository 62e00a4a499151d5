"""From held-out residuals to errors, for every scorer that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from eevee.scorers.objectives import Errors, pairwise_errors, rank_errors, squared_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from torch import Tensor

    from eevee.scorers.objectives import Objective
    from eevee.tables.standard import Standardised


def unselected(data: Standardised, batch: Sequence[Sequence[int]]) -> Float[Tensor, "b t"]:
    """1 for the metrics that a candidate does not contain, 0 for those that it does."""
    out = torch.ones(len(batch), data.values.shape[1], dtype=torch.float64)
    for row, candidate in enumerate(batch):
        out[row, data.metric_columns(candidate)] = 0.0
    return out


def counted_cells(data: Standardised, batch: Sequence[Sequence[int]]) -> Float[np.ndarray, "b n t"]:
    """1 for the measured cells of varying metrics outside a candidate; inside as well where nothing is outside."""
    cells = (data.mask & data.varies).astype(np.float64)
    out = np.asarray(cells[None] * unselected(data, batch).numpy()[:, None, :])
    nothing = out.sum(axis=(1, 2)) == 0
    out[nothing] = cells
    return out


def residual_errors(
    data: Standardised, batch: Sequence[Sequence[int]], residual: Float[Tensor, "b n t"], objective: Objective
) -> Errors:
    """Errors of candidates from the residuals of their held-out predictions, by an objective."""
    cells = torch.from_numpy(data.mask & data.varies).to(residual.dtype)
    weight = cells[None]
    if objective == "unselected":
        weight = cells[None] * unselected(data, batch)[:, None, :]
    if objective in ("all", "unselected"):
        return squared_errors(residual, weight)
    truth = torch.from_numpy(data.values)
    if objective == "rank":
        return rank_errors(truth + residual, truth, weight)
    return pairwise_errors(truth + residual, truth, weight, torch.from_numpy(data.signs))


def padded_columns(data: Standardised, batch: Sequence[Sequence[int]]) -> Int[np.ndarray, "b d"]:
    """Metric columns of each candidate, filled up with the position of a column of zeros, which changes no fit."""
    if all(len(columns) == 1 for columns in data.columns) and len({len(candidate) for candidate in batch}) == 1:
        single = np.array([columns[0] for columns in data.columns])
        return np.asarray(single[np.array(batch, dtype=np.int64)])
    columns = [data.metric_columns(candidate) for candidate in batch]
    width = max(len(c) for c in columns)
    return np.array([c + [data.values.shape[1]] * (width - len(c)) for c in columns], dtype=np.int64)

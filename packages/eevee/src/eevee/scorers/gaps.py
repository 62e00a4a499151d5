"""Fits of columns that lack some rows, from the inverse for all rows: a downdate for each column, nothing refitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class Gaps(NamedTuple):
    """Where a table has gaps.

    Args:
        rows: for each column the rows that it lacks, filled up with the number of rows.
        real: which of those are rows.
        seen: 1 where a cell was measured.
    """

    rows: Int[Tensor, "p m"]
    real: Bool[Tensor, "p m"]
    seen: Float[Tensor, "n p"]

    @staticmethod
    def of(mask: Bool[np.ndarray, "n p"]) -> Gaps:
        """The gaps of a mask that is True where a cell was measured."""
        n = len(mask)
        most = int((~mask).sum(axis=0).max())
        rows = np.full((mask.shape[1], most), n)
        for column, lacking in enumerate(~mask.T):
            missing = np.flatnonzero(lacking)
            rows[column, : len(missing)] = missing
        return Gaps(torch.from_numpy(rows), torch.from_numpy(rows < n), torch.from_numpy(mask.astype(np.float64)))


def gap_corrections(
    inverse: Float[Tensor, "b n n"], weights: Float[Tensor, "b n p"], gaps: Gaps, groups: Sequence[np.ndarray]
) -> tuple[Float[Tensor, "b n p"], Float[Tensor, "b n p"], list[Float[Tensor, "b p g g"]]]:
    r"""Weights, diagonals and group blocks of each column's own inverse.

    With $B = C^{-1}$ and M the rows that a column lacks, the inverse of C without M is
    $B_{RR} - B_{RM} B_{MM}^{-1} B_{MR}$, so that nothing of the size of C is inverted again.
    """
    count, n = inverse.shape[:2]
    present = gaps.seen
    padded = inverse.new_zeros(count, n + 1, n + 1)
    padded[:, :n, :n] = inverse
    rows, real = gaps.rows, gaps.real
    inner = padded[:, rows[:, :, None], rows[:, None, :]]  # (b, p, m, m)
    real_pair = real[:, :, None] & real[:, None, :]
    inner = torch.where(real_pair, inner, torch.eye(rows.shape[1], dtype=inverse.dtype))
    outer = padded[:, :n, rows].transpose(1, 2)  # (b, p, n, m)
    reach = torch.linalg.solve(inner, outer.mT).mT
    at_gaps = torch.cat([weights, weights.new_zeros(count, 1, weights.shape[2])], dim=1)
    at_gaps = at_gaps.transpose(1, 2).gather(2, rows.expand(count, -1, -1))  # (b, p, m)
    own = weights - (reach @ at_gaps[..., None])[..., 0].transpose(1, 2)
    diagonal = inverse.diagonal(dim1=1, dim2=2)[:, :, None] - (reach * outer).sum(-1).transpose(1, 2)
    blocks = []
    for members in map(torch.from_numpy, groups):
        block = inverse[:, members[:, None], members][:, None] - reach[:, :, members] @ outer[:, :, members].mT
        has_row = present[members].T > 0
        eye = torch.eye(len(members), dtype=inverse.dtype)
        blocks.append(torch.where(has_row[:, :, None] & has_row[:, None, :], block, eye))
    return own * present, torch.where(present > 0, diagonal, 1.0), blocks

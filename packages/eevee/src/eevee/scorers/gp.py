"""A Gaussian process with a linear and a local part: every leave-one-model-out prediction in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eevee.errors import EeveeError
from eevee.scorers.scorer import (
    Objective,
    leave_out,
    measured_patterns,
    padded_columns,
    require_objective,
    residual_errors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from eevee.tables.standard import Standardised


class Gaps(NamedTuple):
    """Where a table has gaps."""

    rows: Int[np.ndarray, "p m"]
    real: Bool[np.ndarray, "p m"]
    seen: Float[np.ndarray, "n p"]

    @staticmethod
    def of(mask: Bool[np.ndarray, "n p"]) -> Gaps:
        """The gaps of a mask that is True where a cell was measured."""
        n = len(mask)
        most = int((~mask).sum(axis=0).max())
        rows = np.full((mask.shape[1], most), n)
        for column, lacking in enumerate(~mask.T):
            missing = np.flatnonzero(lacking)
            rows[column, : len(missing)] = missing
        return Gaps(rows, rows < n, mask.astype(np.float64))


def gap_corrections(
    inverse: Float[np.ndarray, "b n n"], weights: Float[np.ndarray, "b n p"], gaps: Gaps, groups: Sequence[np.ndarray]
) -> tuple[Float[np.ndarray, "b n p"], Float[np.ndarray, "b n p"], list[Float[np.ndarray, "b p g g"]]]:
    r"""Weights, diagonals and group blocks of each column's own inverse.

    With $B = C^{-1}$ and M the rows that a column lacks, the inverse of C without M is
    $B_{RR} - B_{RM} B_{MM}^{-1} B_{MR}$, so that nothing of the size of C is inverted again.
    """
    count, n = inverse.shape[:2]
    present = gaps.seen
    padded = np.zeros((count, n + 1, n + 1))
    padded[:, :n, :n] = inverse
    rows, real = gaps.rows, gaps.real
    inner = padded[:, rows[:, :, None], rows[:, None, :]]  # (b, p, m, m)
    real_pair = real[:, :, None] & real[:, None, :]
    inner = np.where(real_pair, inner, np.eye(rows.shape[1]))
    outer = padded[:, :n, rows].swapaxes(1, 2)  # (b, p, n, m)
    reach = outer @ np.linalg.inv(inner)  # inner is symmetric, and far from singular: C's eigenvalues are 1 at least
    at_gaps = np.concatenate([weights, np.zeros((count, 1, weights.shape[2]))], axis=1)
    at_gaps = np.take_along_axis(at_gaps.swapaxes(1, 2), rows[None], axis=2)  # (b, p, m)
    own = weights - (reach @ at_gaps[..., None])[..., 0].swapaxes(1, 2)
    diagonal = np.diagonal(inverse, axis1=1, axis2=2)[:, :, None] - np.einsum("bpnm,bpnm->bnp", reach, outer)
    blocks = []
    for members in groups:
        others = outer[:, :, members].swapaxes(2, 3)
        block = inverse[:, members[:, None], members][:, None] - reach[:, :, members] @ others
        has_row = present[members].T > 0
        blocks.append(np.where(has_row[:, :, None] & has_row[:, None, :], block, np.eye(len(members))))
    return own * present, np.where(present > 0, diagonal, 1.0), blocks


Kernel = tuple[float, float, float]
KERNELS: tuple[Kernel, ...] = ((3, 3, 0.5), (10, 3, 0.5), (10, 1, 1), (10, 0.3, 4), (30, 10, 0.5))
CONSTANT = 1e3  # variance of the mean, in that of the noise: next to no penalty on it
BATCH_BYTES = 16 << 20
MOST_MODELS = 2_000
QUICK_CELLS = 5_000
QUICK_MODELS = 60


class _Fits(NamedTuple):
    """For each candidate the fit by its best kernel, before anything is left out."""

    residual: Float[np.ndarray, "b n p"]
    weights: Float[np.ndarray, "b n p"]
    inverse: Float[np.ndarray, "b n n"]
    kernel: list[int]


@dataclass(frozen=True)
class GpScorer:
    r"""Error of predicting a table from some of its columns by a Gaussian process, leaving one model (group) out.

    With inputs $x$ (the d chosen columns, standardised) and noise of variance one, the covariance of two models is
    $c + \frac ad x \cdot x' + b \exp(-\|x - x'\|^2 / (2 d \ell^2))$, the same for every target. With $C$ its matrix
    plus $I$, the residual of model i from the fit without it is $-(C^{-1} y)_i / (C^{-1})_{ii}$, and of a group g
    $-((C^{-1})_{gg})^{-1} (C^{-1} y)_g$: nothing is refitted. Of the kernels the one with the lowest such squared error
    over the metrics outside the candidate is taken, for each candidate anew.

    Args:
        objective: `all` metrics count, or the `unselected` ones, outside the candidate.
        kernels: what is chosen from: (a, b, squared length $\ell^2$), variances in that of the noise, all > 0 (b >= 0).

    Numerics: float64; $C \succeq I$, so that equal models make nothing singular. A missing target cell is left out of
        the fit of its own column, exactly (a downdate of $C^{-1}$); a missing input cell counts as the column's mean.
        Tables of up to 2,000 models: the work grows with their cube.

    Example:
        >>> from eevee import load_table, standardise
        >>> GpScorer().score(standardise(load_table("gate")), [(0, 3, 8), (5,)]).shape
        (2, 2)

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", sections 2.2 and 5.4.2 (equations 5.10 to
        5.12, leave-one-out); the group form is the same identity for a block. A few kernels in place of a gradient
        search: on tables of 20 to 120 models one chosen freely follows the noise.
    """

    objective: Objective = "all"
    kernels: tuple[Kernel, ...] = KERNELS

    def __post_init__(self) -> None:
        require_objective(self.objective)
        object.__setattr__(self, "kernels", tuple(tuple(map(float, kernel)) for kernel in self.kernels))
        if not self.kernels:
            raise EeveeError("no kernel is given; expected at least one (linear, local, squared length)")
        for kernel in self.kernels:
            if len(kernel) != 3 or not all(map(math.isfinite, kernel)) or min(kernel) < 0 or kernel[0] * kernel[2] <= 0:
                raise EeveeError(f"kernel {kernel}; expected (linear > 0, local >= 0, squared length > 0)")

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "gp"

    def quick(self, data: Standardised) -> bool:
        """True for tables of up to 5,000 cells and 60 models without gaps."""
        return data.complete and data.values.size <= QUICK_CELLS and len(data.values) <= QUICK_MODELS

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        out = np.empty((len(candidates), 2))
        widths = np.array([len(data.metric_columns(candidate)) for candidate in candidates])
        order = np.argsort(widths, kind="stable")
        gaps = _gaps(data)
        step = _step(data, gaps)
        for start in range(0, len(candidates), step):
            chosen = order[start : start + step]
            batch = [candidates[int(i)] for i in chosen]
            residual = self._fits(data, batch, gaps).residual
            out[chosen] = residual_errors(data, batch, residual, self.objective)
        return out

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from the fit without its group; zero where a target is missing."""
        gaps = _gaps(data)
        return np.concatenate([self._fits(data, [candidate], gaps).residual for candidate in candidates])

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Predict whole rows of models that took no part in `data` from their candidate columns."""
        return self._new(data, candidate, inputs)[0]

    def spread(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, " m"]:
        """Standard deviation of the predictions of rows, in that of the noise: large for what is unlike the table."""
        return self._new(data, candidate, inputs)[1]

    def held_out_spread(self, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
        """`spread` of each model by the fit without its group."""
        inverse = self._fits(data, [candidate], _gaps(data)).inverse[0]
        variance = 1 / np.diagonal(inverse).copy()
        for members in data.twins:
            variance[members] = np.diagonal(np.linalg.inv(inverse[np.ix_(members, members)]))
        return np.sqrt(variance)

    def _new(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> tuple[Float[np.ndarray, "m metrics"], Float[np.ndarray, " m"]]:
        columns = np.array(data.metric_columns(candidate))
        measured = ~np.isnan(inputs[:, columns])
        predicted, spread = np.empty((len(inputs), data.values.shape[1])), np.empty(len(inputs))
        gaps = _gaps(data)
        for pattern, rows in measured_patterns(measured):
            present = columns[pattern]
            fits = self._fits(data, [candidate], gaps, present[None])
            kernel = self.kernels[fits.kernel[0]]
            x = data.values[:, present]
            new = inputs[np.ix_(rows, present)]
            cross = _covariance(new @ x.T, _distances(new, x), len(present), kernel)
            own = CONSTANT + kernel[0] * np.square(new).sum(1) / max(len(present), 1) + kernel[1] + 1
            predicted[rows] = cross @ fits.weights[0]
            variance = own - ((cross @ fits.inverse[0]) * cross).sum(1)
            spread[rows] = np.sqrt(variance.clip(1.0))
        return predicted, spread

    def _fits(
        self,
        data: Standardised,
        batch: Sequence[Sequence[int]],
        gaps: Gaps | None,
        index: np.ndarray | None = None,
    ) -> _Fits:
        """Fit every candidate by every kernel, and keep its best."""
        if len(data.values) > MOST_MODELS:
            raise EeveeError(
                f"{len(data.values)} models; the Gaussian process takes at most {MOST_MODELS}: use the ridge scorer"
            )
        values = data.values
        n, p = values.shape
        columns = padded_columns(data, batch) if index is None else index
        sizes = (columns < p).sum(axis=1).clip(1)[:, None, None]
        padded = np.concatenate([values, np.zeros((n, 1))], axis=1)
        x = padded[:, columns].swapaxes(0, 1)
        linear = (x @ x.swapaxes(1, 2)) / sizes
        square = np.diagonal(linear, axis1=1, axis2=2)
        distance = (square[:, :, None] + square[:, None, :] - 2 * linear).clip(0.0)
        judged = np.stack([data.outside(candidate) for candidate in batch]).astype(np.float64)
        best: _Fits | None = None
        lowest = np.full(len(batch), np.inf)
        for number, (a, b, length) in enumerate(self.kernels):
            matrix = b * np.exp(distance * (-0.5 / length)) + a * linear + CONSTANT
            matrix[:, np.arange(n), np.arange(n)] += 1.0
            fits = _leave_out(data, values, np.linalg.inv(matrix), gaps, number)
            errors = (np.square(fits.residual) * judged).sum(axis=(1, 2))
            if best is None:
                best, lowest = fits, errors
                continue
            better = errors < lowest
            lowest = np.where(better, errors, lowest)
            for held, new in zip(best[:3], fits[:3], strict=True):
                held[better] = new[better]
            best = best._replace(kernel=[number if won else k for won, k in zip(better, best.kernel, strict=True)])
        assert best is not None  # there is a kernel
        return best


def _leave_out(
    data: Standardised, values: np.ndarray, inverse: Float[np.ndarray, "b n n"], gaps: Gaps | None, number: int
) -> _Fits:
    weights = inverse @ values
    diagonal = np.diagonal(inverse, axis1=1, axis2=2)[:, :, None]
    blocks = [inverse[:, members[:, None], members][:, None] for members in data.twins]
    if gaps is not None:
        weights, diagonal, blocks = gap_corrections(inverse, weights, gaps, data.twins)
    residual = leave_out(-weights, diagonal, data.twins, blocks)
    if gaps is not None:
        residual *= gaps.seen
    return _Fits(residual, weights, inverse, [number] * len(inverse))


def _gaps(data: Standardised) -> Gaps | None:
    return None if data.complete else Gaps.of(data.mask)


def _step(data: Standardised, gaps: Gaps | None) -> int:
    """Candidates at once, so that what they need fits the memory that is meant for it."""
    n, p = data.values.shape
    cells = n * (4 * n + 3 * p)
    if gaps is not None:
        most = int(gaps.rows.shape[1])
        cells += p * most * (2 * n + 2 * most)
    return max(1, BATCH_BYTES // (8 * int(cells)))


def _distances(a: Float[np.ndarray, "m d"], b: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m n"]:
    return np.asarray((np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T).clip(0.0))


def _covariance(
    products: Float[np.ndarray, "m n"], distances: Float[np.ndarray, "m n"], width: int, kernel: Kernel
) -> Float[np.ndarray, "m n"]:
    a, b, length = kernel
    d = max(width, 1)
    return np.asarray(CONSTANT + a * products / d + b * np.exp(-distances / (2 * d * length)))

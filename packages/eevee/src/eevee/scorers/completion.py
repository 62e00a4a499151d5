"""Sparse tables: models and metrics as a few factors, fitted on the cells that were measured alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from eevee.errors import EeveeError
from eevee.scorers.scorer import REFITS, Objective, require_objective, score_by_residuals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.tables.standard import Standardised

STEPS = 200
"""At most; a fit ends where no prediction changes by more than `_STILL`."""
_STILL = 1e-4


class _Factors(NamedTuple):
    """Of each metric its level and its weights on the factors."""

    level: Float[np.ndarray, " t"]
    weight: Float[np.ndarray, "t r"]


@dataclass(frozen=True)
class LowRankScorer:
    r"""Error of predicting a table by a completion of low rank, which missing cells do not pull to the mean.

    $z_{ij} \approx b_j + u_i^\top w_j$ over the measured cells, with $\lambda \lVert u_i \rVert^2$ and $\lambda \lVert
    w_j \rVert^2$ added to the squared errors, by alternating least squares from the singular vectors of the table with
    zeros in its gaps. A new model's u comes from its measured columns of the subset. Ridge and the Gaussian process
    take a missing input for its column's mean, which costs more the fewer cells are filled.

    Args:
        objective: `all` metrics count, or the `unselected` ones.
        rank: number of factors, at least 1.
        penalty: lambda > 0, in cells of a standardised table.

    Raises:
        EeveeError: a number out of range; shows it.

    Example:
        >>> from eevee import load_table, standardise
        >>> LowRankScorer().score(standardise(load_table("gate")), [(0, 3, 8)]).shape
        (1, 2)

    Source: alternating least squares as in Koren, Bell and Volinsky, Matrix factorization techniques for recommender
        systems (2009).
    """

    objective: Objective = "all"
    rank: int = 2
    penalty: float = 0.5

    def __post_init__(self) -> None:
        require_objective(self.objective)
        if self.rank < 1 or not 0 < self.penalty < np.inf:
            raise EeveeError(f"rank {self.rank}, penalty {self.penalty}; expected at least 1, and a number above 0")

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "lowrank"

    def quick(self, data: Standardised) -> bool:
        """True for tables of up to 60 models and 5,000 cells."""
        return data.values.size <= 5_000 and len(data.values) <= 60

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        return score_by_residuals(self, data, candidates, 16)

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from a fit without its group; zero where a target is missing."""
        out = np.zeros((len(candidates), *data.values.shape))
        rows = np.where(data.mask, data.values, np.nan)
        for held, factors in self._without_groups(data):
            for number, candidate in enumerate(candidates):
                columns = data.metric_columns(candidate)
                out[number, held] = self._rows(factors, columns, rows[held]) - data.values[held]
        return np.where(data.mask, out, 0.0)

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole rows of models that took no part in `data`, from their candidate columns."""
        return self._rows(self._fit(data.values, data.measured), data.metric_columns(candidate), inputs)

    def _without_groups(self, data: Standardised) -> list[tuple[np.ndarray, _Factors]]:
        """Fits without each part of the groups; they do not depend on a candidate, and are kept with the table."""
        known = _FITS.setdefault(data, {})
        key = (self.rank, self.penalty)
        if key not in known:
            part = data.groups % min(REFITS, int(data.groups.max()) + 1)
            known[key] = [
                (np.flatnonzero(part == number), self._fit(data.values[part != number], data.measured[part != number]))
                for number in np.unique(part)
            ]
        return known[key]

    def _fit(self, values: Float[np.ndarray, "n t"], measured: Float[np.ndarray, "n t"]) -> _Factors:
        rank = min(self.rank, *values.shape)
        level = (values * measured).sum(0) / np.maximum(measured.sum(0), 1)
        _, size, right = np.linalg.svd((values - level) * measured, full_matrices=False)
        weight = right[:rank].T * np.sqrt(size[:rank])
        before: np.ndarray | None = None
        for _ in range(STEPS):
            factors = self._solve((values - level) * measured, measured, weight)
            own = np.hstack([np.ones((len(factors), 1)), factors])
            both = self._solve((values * measured).T, measured.T, own, free=1)
            level, weight = both[:, 0], both[:, 1:]
            now = level + factors @ weight.T
            if before is not None and np.abs(now - before).max() < _STILL:
                break
            before = now
        return _Factors(level, weight)

    def _solve(
        self,
        values: Float[np.ndarray, "n t"],
        measured: Float[np.ndarray, "n t"],
        weight: Float[np.ndarray, "t r"],
        free: int = 0,
    ) -> Float[np.ndarray, "n r"]:
        """Each row's regression on the weights over its measured cells; the first `free` ones are hardly shrunk."""
        size = weight.shape[1]
        shrinkage = np.full(size, self.penalty)
        shrinkage[:free] = 1e-3
        squares = (measured @ (weight[:, :, None] * weight[:, None]).reshape(len(weight), -1)).reshape(-1, size, size)
        return np.asarray(np.linalg.solve(squares + np.diag(shrinkage), (values @ weight)[..., None])[..., 0])

    def _rows(
        self, factors: _Factors, columns: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        part = inputs[:, list(columns)]
        measured = (~np.isnan(part)).astype(np.float64)
        level, weight = factors.level[list(columns)], factors.weight[list(columns)]
        own = self._solve(np.where(measured > 0, part - level, 0.0), measured, weight)
        return np.asarray(factors.level + own @ factors.weight.T)


_FITS: WeakKeyDictionary[Standardised, dict[tuple[int, float], list[tuple[np.ndarray, _Factors]]]] = WeakKeyDictionary()
"""By table, for as long as it is held."""

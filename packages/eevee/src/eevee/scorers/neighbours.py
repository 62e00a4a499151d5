"""The mean of the nearest models, or of all: what a meta-model must beat where models are few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from eevee.errors import EeveeError
from eevee.scorers.scorer import Objective, require_objective, residual_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.tables.standard import Standardised


@dataclass(frozen=True)
class NeighbourScorer:
    """Error of predicting a table by the mean of the models that are nearest on some of its columns.

    Numerics: squared distances over the columns that both models have, times all columns over those; a missing target
        is left out of its own mean; where none of the neighbours has it, the column's mean stands in.
    """

    objective: Objective = "all"
    neighbours: int = 3

    def __post_init__(self) -> None:
        require_objective(self.objective)
        if self.neighbours < 0:
            raise EeveeError(f"neighbours is {self.neighbours}; expected 0 or more")

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "knn" if self.neighbours else "mean"

    def quick(self, data: Standardised) -> bool:
        """True for tables of up to 60 models and 5,000 cells."""
        return data.values.size <= 5_000 and len(data.values) <= 60

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        out = np.empty((len(candidates), 2))
        for number, candidate in enumerate(candidates):
            residual = torch.from_numpy(self.residuals(data, [candidate]))
            out[number] = torch.stack(residual_errors(data, [candidate], residual, self.objective), dim=1).numpy()
        return out

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from those outside its group; zero where a target is missing."""
        rows = np.where(data.mask, data.values, np.nan)
        apart = data.groups[:, None] != data.groups
        residual = [self._means(data, candidate, rows, apart) - data.values for candidate in candidates]
        return np.where(data.mask, np.stack(residual), 0.0)

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole rows of models that took no part in `data`, from their candidate columns."""
        return self._means(data, candidate, inputs, np.ones((len(inputs), len(data.values)), dtype=bool))

    def _means(
        self, data: Standardised, candidate: Sequence[int], rows: np.ndarray, allowed: np.ndarray
    ) -> Float[np.ndarray, "m metrics"]:
        """The mean of each row's nearest among the models that it may see."""
        everyone = allowed.astype(np.float64)
        middle = (everyone @ data.values) / np.maximum(everyone @ data.measured, 1)
        if not self.neighbours:
            return np.asarray(middle)
        columns = data.metric_columns(candidate)
        measured, mask = ~np.isnan(rows[:, columns]), data.mask[:, columns]
        x, y = np.where(measured, rows[:, columns], 0.0), data.values[:, columns]
        shared = measured.astype(np.float64) @ mask.T
        distance = (x**2) @ mask.T + measured @ (y**2).T - 2 * x @ y.T
        distance = np.where(allowed, distance * len(columns) / np.maximum(shared, 1e-9), np.inf)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.neighbours]
        weight = np.take_along_axis(allowed, nearest, axis=1)[..., None] * data.mask[nearest]
        count = weight.sum(1)
        return np.asarray(np.where(count > 0, (weight * data.values[nearest]).sum(1) / np.maximum(count, 1), middle))

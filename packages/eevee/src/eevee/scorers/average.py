"""The mean of two scorers' predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from eevee.errors import EeveeError
from eevee.scorers.gp import GpScorer
from eevee.scorers.objectives import residual_errors
from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import Scorer, held_out, held_out_spread, is_quick, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.tables.standard import Standardised

AT_ONCE = 64


@dataclass(frozen=True)
class AverageScorer:
    """Error of the mean of two scorers' held-out predictions; by default of ridge and the Gaussian process.

    Args:
        first: one scorer.
        second: the other, of the same objective, which is the average's, too.

    Example:
        >>> from eevee import load_table, standardise
        >>> AverageScorer().score(standardise(load_table("gate")), [(0, 3, 8)]).shape
        (1, 2)
    """

    first: Scorer = field(default_factory=RidgeScorer)
    second: Scorer = field(default_factory=GpScorer)

    def __post_init__(self) -> None:
        if self.first.objective != self.second.objective:
            raise EeveeError(
                f"objectives {self.first.objective!r} and {self.second.objective!r}; expected one for both"
            )

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return f"{self.first.name}+{self.second.name}"

    @property
    def objective(self) -> Any:
        """That of both."""
        return self.first.objective

    def quick(self, data: Standardised) -> bool:
        """True where both are quick."""
        return is_quick(self.first, data) and is_quick(self.second, data)

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        out = np.empty((len(candidates), 2))
        for start in range(0, len(candidates), AT_ONCE):
            batch = candidates[start : start + AT_ONCE]
            residual = torch.from_numpy(self.residuals(data, batch))
            out[start : start + AT_ONCE] = torch.stack(
                residual_errors(data, batch, residual, self.objective), dim=1
            ).numpy()
        return out

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from the fits without its group; zero where a target is missing."""
        total = held_out(self.first, data, candidates) + held_out(self.second, data, candidates)
        return np.asarray(total / 2)

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """The mean of both predictions."""
        total = self.first.predict(data, candidate, inputs) + self.second.predict(data, candidate, inputs)
        return np.asarray(total / 2)

    def spread(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, " m"]:
        """That of the second scorer."""
        return spread(self.second, data, candidate, inputs)

    def held_out_spread(self, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
        """That of the second scorer."""
        return held_out_spread(self.second, data, candidate)

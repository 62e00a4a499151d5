"""Scorers by name, as the command line and a result's JSON give them; the average of two, and the nearest models."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError
from eevee.scorers.completion import LowRankScorer
from eevee.scorers.gp import GpScorer
from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import (
    Objective,
    Scorer,
    held_out,
    held_out_spread,
    is_quick,
    require_objective,
    score_by_residuals,
    spread,
)
from wary_files.working_folder import made_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from eevee.scorers.scorer import Scorer
    from eevee.tables.standard import Standardised


def named_scorer(spec: str, objective: str = "all", alpha: float = 1.0) -> Scorer:
    """A scorer from its name; `alpha` is ridge's."""
    first, plus, second = spec.partition("+")
    if plus and first in BUILT_IN and second in BUILT_IN:
        return AverageScorer(named_scorer(first, objective, alpha), named_scorer(second, objective, alpha))
    if ":" in spec:
        return _own_scorer(spec)
    if spec not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise EeveeError(f"scorer {spec!r}; expected one of {known}, two of them as ridge+gp, or module:callable")
    return recorded_scorer(spec, {"objective": objective, **({"alpha": alpha} if spec == "ridge" else {})})


def recorded_scorer(name: str, settings: Mapping[str, Any]) -> Scorer:
    """A built-in scorer from the name and settings that a result's JSON holds."""
    try:
        if name in BUILT_IN:
            return _factory(name)(**settings)  # type: ignore[no-any-return]  # a class of the table above
        first, plus, second = name.partition("+")
        if plus:
            return AverageScorer(recorded_scorer(first, settings["first"]), recorded_scorer(second, settings["second"]))
    except (TypeError, KeyError) as error:
        raise EeveeError(f"scorer {name!r} does not take the recorded settings ({error})") from None
    raise EeveeError(f"made with the scorer {name!r}, which is not built in; give it as scorer")


def _own_scorer(spec: str) -> Scorer:
    scorer: Any = made_by(spec, "scorer", error=EeveeError)
    if absent := [member for member in ("name", "objective", "score", "predict") if not hasattr(scorer, member)]:
        raise EeveeError(f"scorer {spec!r} has no {absent[0]!r}; expected what eevee.Scorer names")
    return scorer  # type: ignore[no-any-return]  # checked just above


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
        return score_by_residuals(self, data, candidates, AT_ONCE)

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
        return score_by_residuals(self, data, candidates, 1)

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


BUILT_IN = ("ridge", "gp", "mlp", "knn", "mean", "lowrank")


def _factory(name: str) -> Callable[..., Any]:
    if name == "mlp":
        from eevee.scorers.mlp import MlpScorer  # read where it is asked for alone

        return MlpScorer
    factories: dict[str, Callable[..., Any]] = {
        "ridge": RidgeScorer, "gp": GpScorer, "knn": NeighbourScorer, "mean": partial(NeighbourScorer, neighbours=0),
        "lowrank": LowRankScorer,
    }  # fmt: skip
    return factories[name]

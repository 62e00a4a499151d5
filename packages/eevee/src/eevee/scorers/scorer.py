"""What a meta-model must offer, and what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.tables.standard import Standardised

BATCH = 500
REFITS = 20


class Scorer(Protocol):
    """A meta-model: judges subsets of the benchmarks, and predicts whole rows from one.

    `RidgeScorer`, `GpScorer`, `AverageScorer` and `MlpScorer` are four; an object of your own with these members works
    wherever they do. What it may offer beyond is in `Batched`, `ClosedForm` and `Quick`.

    Example:
        >>> import numpy as np
        >>> from eevee import load_table, select, standardise
        >>> class Mean:
        ...     name, objective = "mean", "all"
        ...     def predict(self, data, candidate, inputs):
        ...         return np.zeros_like(inputs)
        ...     def score(self, data, candidates):
        ...         return np.tile([np.mean(data.values**2), 0.0], (len(candidates), 1))
        >>> select(load_table("gate"), 2, scorer=Mean(), method="greedy", randoms=5, folds=3).error
        1.0
    """

    @property
    def name(self) -> str:
        """Name in prints and results."""

    @property
    def objective(self) -> Any:
        """Name of the objective, see `eevee.scorers.objectives`."""

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Error and standard error of each candidate, a sequence of benchmark positions."""

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole standardised rows of models that took no part in `data`, from their candidate columns.

        Args:
            data: the models to learn from.
            candidate: benchmark positions.
            inputs: standardised rows, NaN where not measured; only the candidate's columns may be read.
        """


@runtime_checkable
class Batched(Protocol):
    """A scorer that says how many candidates it wants at a time; the others get 500."""

    @property
    def batch(self) -> int:
        """Candidates in one call of `score`."""


@runtime_checkable
class ClosedForm(Protocol):
    """A scorer that knows every held-out prediction without refitting."""

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from the fit without its group; zero where a target is missing."""


@runtime_checkable
class Spreading(Protocol):
    """A scorer that says how unsure it is of a row, compared with other rows."""

    def spread(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, " m"]:
        """For each row what its errors are expected to be in proportion to; large for what is unlike the table."""

    def held_out_spread(self, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
        """The same for each model of the table by the fit without its group."""


@runtime_checkable
class Quick(Protocol):
    """A scorer that says whether a search with it is a matter of seconds, so that it can be repeated many times."""

    def quick(self, data: Standardised) -> bool:
        """Whether thousands of candidates on this table take about a second."""


def batch_size(scorer: Scorer) -> int:
    """Candidates that a scorer gets at a time."""
    return scorer.batch if isinstance(scorer, Batched) else BATCH


def is_quick(scorer: Scorer, data: Standardised) -> bool:
    """Whether a search with this scorer on this table can be repeated for every fold without asking."""
    return isinstance(scorer, Quick) and scorer.quick(data)


def held_out(
    scorer: Scorer, data: Standardised, candidates: Sequence[Sequence[int]]
) -> Float[np.ndarray, "b models metrics"]:
    """Prediction minus truth of each model from a fit without it, in standard deviations; zero where a cell is missing.

    Args:
        scorer: one that is a `ClosedForm` answers at once, leaving out one group of models at a time; any other is
            fitted again without each of 20 parts of the groups (or each group, where there are fewer).
        data: the standardised table.
        candidates: benchmark positions of each candidate.

    Example:
        >>> from eevee import RidgeScorer, load_table, standardise
        >>> held_out(RidgeScorer(), standardise(load_table("gate")), [(0, 3)]).shape
        (1, 21, 30)
    """
    if isinstance(scorer, ClosedForm):
        return scorer.residuals(data, candidates)
    out = np.zeros((len(candidates), *data.values.shape))
    inputs = np.where(data.mask, data.values, np.nan)
    part = data.groups % min(REFITS, int(data.groups.max()) + 1)
    for number in np.unique(part):
        held = np.flatnonzero(part == number)
        learnt = data.without(held)
        for row, candidate in enumerate(candidates):
            out[row, held] = scorer.predict(learnt, candidate, inputs[held]) - data.values[held]
    return np.where(data.mask, out, 0.0)


def spread(
    scorer: Scorer, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
) -> Float[np.ndarray, " m"]:
    """What the errors of new rows are expected to be in proportion to; one for all where the scorer does not say."""
    return scorer.spread(data, candidate, inputs) if isinstance(scorer, Spreading) else np.ones(len(inputs))


def held_out_spread(scorer: Scorer, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
    """`spread` of each model of the table by the fit without its group."""
    if isinstance(scorer, Spreading):
        return scorer.held_out_spread(data, candidate)
    return np.ones(len(data.values))

"""What a meta-model must offer, and what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float, Int

    from eevee.tables.standard import Standardised

REFITS = 20
Objective = Literal["all", "unselected"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)


class Scorer(Protocol):
    """A meta-model: judges subsets of the benchmarks, and predicts whole rows from one.

    `RidgeScorer`, `GpScorer`, `AverageScorer` and `MlpScorer` are four; an object of your own with these members works
    wherever they do. It may also have `residuals(data, candidates)`, held-out residuals (b, models, metrics) without
    refitting; `spread(data, candidate, inputs)` and `held_out_spread(data, candidate)`, what the errors of rows are
    expected to be in proportion to; `quick(data)`, whether thousands of candidates take about a second; and `batch`,
    how many candidates it wants at a time.

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
        """What the errors count: `all` metrics, or the `unselected` ones, outside the candidate."""

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


def is_quick(scorer: Scorer, data: Standardised) -> bool:
    """Whether a search with this scorer on this table can be repeated for every fold without asking."""
    return hasattr(scorer, "quick") and bool(scorer.quick(data))


def held_out(
    scorer: Scorer, data: Standardised, candidates: Sequence[Sequence[int]]
) -> Float[np.ndarray, "b models metrics"]:
    """Prediction minus truth of each model from a fit without its group; zero where a cell is missing."""
    if hasattr(scorer, "residuals"):
        return np.asarray(scorer.residuals(data, candidates))
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
    return np.asarray(scorer.spread(data, candidate, inputs)) if hasattr(scorer, "spread") else np.ones(len(inputs))


def held_out_spread(scorer: Scorer, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
    """`spread` of each model of the table by the fit without its group."""
    if hasattr(scorer, "held_out_spread"):
        return np.asarray(scorer.held_out_spread(data, candidate))
    return np.ones(len(data.values))


def unselected(data: Standardised, batch: Sequence[Sequence[int]]) -> Float[np.ndarray, "b t"]:
    """1 for the metrics that a candidate does not contain, 0 for those that it does."""
    out = np.ones((len(batch), data.values.shape[1]))
    for row, candidate in enumerate(batch):
        out[row, data.metric_columns(candidate)] = 0.0
    return out


def padded_columns(data: Standardised, batch: Sequence[Sequence[int]]) -> Int[np.ndarray, "b d"]:
    """Metric columns of each candidate, filled up with the position of a column of zeros, which changes no fit."""
    if all(len(columns) == 1 for columns in data.columns) and len({len(candidate) for candidate in batch}) == 1:
        single = np.array([columns[0] for columns in data.columns])
        return np.asarray(single[np.array(batch, dtype=np.int64)])
    columns = [data.metric_columns(candidate) for candidate in batch]
    width = max(len(c) for c in columns)
    return np.array([c + [data.values.shape[1]] * (width - len(c)) for c in columns], dtype=np.int64)


def require_objective(objective: str) -> None:
    """Refuse an objective that is not one of `OBJECTIVES`."""
    if objective not in OBJECTIVES:
        raise EeveeError(f"objective {objective!r}; expected one of {', '.join(OBJECTIVES)}")


def leave_out(
    residual: Float[np.ndarray, "b n p"],
    room: Float[np.ndarray, "b n 1|p"],
    groups: Sequence[Int[np.ndarray, " g"]],
    blocks: Sequence[Float[np.ndarray, "b 1|p g g"]],
) -> Float[np.ndarray, "b n p"]:
    r"""Held-out residuals from those e of full fits: $e_i / R_{ii}$, and $R_{gg}^{-1} e_g$ for a group g.

    R is $I - H$ with the hat matrix H of a regression, and $C^{-1}$ of a Gaussian process, whose e is $-C^{-1} y$: its
    diagonal is `room`, its parts of the groups are `blocks`, each for all targets alike or for every one.
    """
    out = residual / room
    for members, block in zip(groups, blocks, strict=True):
        own = residual[:, members]
        if block.shape[1] == 1:
            out[:, members] = np.linalg.solve(block[:, 0], own)
        else:
            right = own.swapaxes(1, 2)[..., None]
            out[:, members] = np.linalg.solve(block, right)[..., 0].swapaxes(1, 2)
    return np.asarray(out)


def measured_patterns(measured: Bool[np.ndarray, "m d"]) -> Iterator[tuple[np.ndarray, Int[np.ndarray, " s"]]]:
    """Each pattern of cells that some rows have, and the positions of these rows."""
    for pattern in np.unique(measured, axis=0):
        yield pattern, np.flatnonzero((measured == pattern).all(axis=1))


def residual_errors(
    data: Standardised, batch: Sequence[Sequence[int]], residual: Float[np.ndarray, "b n t"], objective: Objective
) -> Float[np.ndarray, "b 2"]:
    r"""Errors of candidates from the residuals of their held-out predictions, $\sum w r^2 / \sum w$, with errors."""
    weight = (data.mask & data.varies).astype(np.float64)[None]
    if objective == "unselected":
        weight = weight * unselected(data, batch)[:, None, :]
    squares = np.square(residual)
    squares *= weight
    sums = squares.sum(-1)
    return errors_of_sums(sums, np.broadcast_to(weight.sum(-1), sums.shape))


def errors_of_sums(squares: Float[np.ndarray, "b n"], share: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b 2"]:
    """Errors and standard errors from each model's sum of squares and its number of counted cells."""
    total = share.sum(-1).clip(1e-300)
    error = squares.sum(-1) / total
    n = (share > 0).sum(-1).clip(2)
    spread = squares - error[:, None] * share
    return np.stack([error, np.sqrt(np.square(spread).sum(-1) * n / (n - 1)) / total], axis=1)


def score_by_residuals(
    scorer: Any, data: Standardised, candidates: Sequence[Sequence[int]], at_once: int
) -> Float[np.ndarray, "b 2"]:
    """Errors and standard errors of candidates from the residuals that a scorer has, of so many at a time."""
    parts = [candidates[start : start + at_once] for start in range(0, len(candidates), at_once)]
    errors = [residual_errors(data, part, scorer.residuals(data, part), scorer.objective) for part in parts]
    return np.concatenate([np.empty((0, 2)), *errors])

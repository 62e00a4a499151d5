"""What a meta-model must offer, and what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
import torch

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int
    from torch import Tensor

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
        """Name of the objective, see `eevee.scorers.scorer`."""

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
    """Prediction minus truth of each model from a fit without its group; zero where a cell is missing."""
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


def unselected(data: Standardised, batch: Sequence[Sequence[int]]) -> Float[Tensor, "b t"]:
    """1 for the metrics that a candidate does not contain, 0 for those that it does."""
    out = torch.ones(len(batch), data.values.shape[1], dtype=torch.float64)
    for row, candidate in enumerate(batch):
        out[row, data.metric_columns(candidate)] = 0.0
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


Objective = Literal["all", "unselected", "rank", "pairwise"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)


class Errors(NamedTuple):
    """Error of each candidate and its standard error, over models."""

    error: Float[Tensor, " b"]
    stderr: Float[Tensor, " b"]


def require_objective(objective: str) -> None:
    """Refuse an objective that is not one of `OBJECTIVES`."""
    if objective not in OBJECTIVES:
        raise EeveeError(f"objective {objective!r}; expected one of {', '.join(OBJECTIVES)}")


def squared_errors(residual: Float[Tensor, "b n t"], weight: Float[Tensor, "b|1 n t"]) -> Errors:
    r"""Mean squared error over the counted cells: $\sum w r^2 / \sum w$."""
    squares = residual.square().mul_(weight).sum(-1)
    return errors_of_sums(squares, weight.sum(-1).expand_as(squares))


def errors_of_sums(squares: Float[Tensor, "b n"], share: Float[Tensor, "b n"]) -> Errors:
    """`squared_errors` from each model's sum of squares and its number of counted cells."""
    error = squares.sum(-1) / share.sum(-1).clamp_min(1e-300)
    return Errors(error, _ratio_stderr(squares, share, error))


def rank_errors(
    predicted: Float[Tensor, "b n t"], truth: Float[Tensor, "n t"], weight: Float[Tensor, "b|1 n t"]
) -> Errors:
    r"""One minus the mean over metrics of Spearman's correlation between held-out prediction and truth, over models.

    0 is a perfect order on every metric, 1 none at all, 2 every order reversed. Each model's standard error is that of
    its own contribution $\frac1t\sum_j \tilde r_{ij} \tilde s_{ij}$ to the mean, with $\tilde r$ and $\tilde s$ the
    standardised ranks.
    """
    counted = weight.expand_as(predicted) > 0
    ours = _standard_ranks(predicted, counted)
    theirs = _standard_ranks(truth.expand_as(predicted), counted)
    n_metrics = counted.any(-2).sum(-1).clamp_min(1)
    by_model = (ours * theirs).sum(-1) / n_metrics[:, None] * counted.any(-1).sum(-1, keepdim=True)
    n = counted.any(-1).sum(-1).clamp_min(2)
    error = 1 - (ours * theirs).sum((-2, -1)) / n_metrics
    spread = by_model - by_model.mean(-1, keepdim=True)
    return Errors(error, (spread.square().sum(-1) / (n - 1) / n).sqrt())


def pairwise_errors(
    predicted: Float[Tensor, "b n t"],
    truth: Float[Tensor, "n t"],
    weight: Float[Tensor, "b|1 n t"],
    signs: Float[Tensor, " t"],
) -> Errors:
    r"""Share of the margin between models that the predicted overall score orders wrongly.

    The overall score of a model is the mean of its counted metrics, in standard deviations, oriented so that higher is
    better; with $d_{ij}$ the true and $\hat d_{ij}$ the predicted difference,
    $\sum_{i<j} |d_{ij}| [d_{ij}\hat d_{ij} \le 0] / \sum_{i<j} |d_{ij}|$. A pair that is nearly a tie hardly counts.
    """
    counted = weight.expand_as(predicted)
    cells = counted.sum(-1).clamp_min(1)
    score = (truth * signs * counted).sum(-1) / cells
    guess = (predicted * signs * counted).sum(-1) / cells
    present = (counted.sum(-1) > 0).to(score.dtype)
    gap = (score[:, :, None] - score[:, None, :]) * present[:, :, None] * present[:, None, :]
    wrong = gap.abs() * (gap * (guess[:, :, None] - guess[:, None, :]) <= 0)
    total, lost = gap.abs().sum((-2, -1)) / 2, wrong.sum((-2, -1)) / 2
    error = lost / total.clamp_min(1e-300)
    without = (lost[:, None] - wrong.sum(-1)) / (total[:, None] - gap.abs().sum(-1)).clamp_min(1e-300)
    n = present.sum(-1).clamp_min(2)
    spread = (without - without.mean(-1, keepdim=True)) * present
    return Errors(error, (spread.square().sum(-1) * (n - 1) / n).sqrt())


def _ratio_stderr(top: Float[Tensor, "b n"], bottom: Float[Tensor, "b n"], ratio: Float[Tensor, " b"]) -> Tensor:
    n = (bottom > 0).sum(-1).clamp_min(2)
    spread = top - ratio[:, None] * bottom
    return (spread.square().sum(-1) * n / (n - 1)).sqrt() / bottom.sum(-1).clamp_min(1e-300)


def _standard_ranks(values: Float[Tensor, "b n t"], counted: Bool[Tensor, "b n t"]) -> Float[Tensor, "b n t"]:
    """Ranks over dimension -2 (ties share their mean), centred and scaled to unit length; zero where not counted."""
    hidden = values.masked_fill(~counted, torch.inf)
    order = hidden.sort(dim=-2).values
    flat, ordered = hidden.transpose(-1, -2).contiguous(), order.transpose(-1, -2).contiguous()
    low = torch.searchsorted(ordered, flat, right=False)
    high = torch.searchsorted(ordered, flat, right=True)
    ranks = ((low + high).to(values.dtype) / 2).transpose(-1, -2)
    number = counted.sum(-2, keepdim=True).clamp_min(1)
    centred = torch.where(counted, ranks - (ranks * counted).sum(-2, keepdim=True) / number, 0.0)
    length = centred.square().sum(-2, keepdim=True).sqrt()
    return torch.where(length > 0, centred / length.clamp_min(1e-300), 0.0)

"""The ridge meta-model: every leave-one-model-out prediction in closed form, for many candidates at once."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eevee.errors import EeveeError
from eevee.scorers.bordered import PART, Fits, extended_errors, in_threads, shared_bases, twins_of
from eevee.scorers.scorer import (
    Objective,
    leave_out,
    measured_patterns,
    padded_columns,
    require_objective,
    residual_errors,
    unselected,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Int

    from eevee.tables.standard import Standardised

BATCH_BYTES = 2 << 20
QUICK_CELLS = 5_000
SILENT = 1e-9  # the penalty of an intercept: next to none, so that a target without a row stays solvable


@dataclass(frozen=True)
class RidgeScorer:
    r"""Error of predicting a table from some of its columns by ridge regression, leaving one model (group) out.

    With inputs $X$ (chosen columns), targets $Y$ (all columns), both standardised, an intercept without penalty, and
    $H = \frac1n 11^\top + X (X^\top X + \alpha I)^{-1} X^\top$, the residual of model i from the fit without it is
    $((I - H) Y)_i / (1 - H_{ii})$, and of a group g $(I - H_{gg})^{-1} ((I - H) Y)_g$: nothing is refitted.

    Args:
        alpha: ridge penalty on standardised columns, > 0.
        objective: `all` metrics count, or the `unselected` ones, outside the candidate.

    Numerics: float64. A missing target cell is left out of the fit of its own column, exactly; a missing input cell
        counts as the column's mean. Standardisation uses all models, as in algorithm 1; held-out honesty is
        `eevee.answers.nested`'s.

    Example:
        >>> from eevee import load_table, standardise
        >>> data = standardise(load_table("gate"))
        >>> one, three = RidgeScorer().score(data, [(0,), (0, 3, 8)])[:, 0]
        >>> bool(three < one)
        True

    Source: the scoring step of algorithm 1 of the EEVEE paper with its network replaced by ridge regression; the
        leave-one-out identity is textbook linear algebra.
    """

    alpha: float = 1.0
    objective: Objective = "all"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise EeveeError(f"alpha is {self.alpha}; expected a finite number > 0")
        require_objective(self.objective)

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "ridge"

    def quick(self, data: Standardised) -> bool:
        """True for tables of up to 5,000 cells without gaps."""
        return data.complete and data.values.size <= QUICK_CELLS

    def residuals(
        self, data: Standardised, candidates: Sequence[Sequence[int]]
    ) -> Float[np.ndarray, "b models metrics"]:
        """Prediction minus truth of each model from the fit without its group; zero where a target is missing."""
        return held_out_residuals(data, candidates, self.alpha)

    def spread(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, " m"]:
        r"""$\sqrt{1 + h}$ with the leverage h of each row, by the columns that it has."""
        columns = np.array(data.metric_columns(candidate))
        measured = ~np.isnan(inputs[:, columns])
        out = np.empty(len(inputs))
        for pattern, rows in measured_patterns(measured):
            present = columns[pattern]
            x, new = data.values[:, present], inputs[np.ix_(rows, present)]
            inverse = np.linalg.inv(x.T @ x + self.alpha * np.eye(len(present)))
            out[rows] = np.sqrt(1 + 1 / len(x) + np.einsum("mi,ij,mj->m", new, inverse, new))
        return out

    def held_out_spread(self, data: Standardised, candidate: Sequence[int]) -> Float[np.ndarray, " models"]:
        """`spread` of each model by the fit without its group."""
        x = data.values[:, data.metric_columns(candidate)]
        weights = np.linalg.solve(x.T @ x + self.alpha * np.eye(x.shape[1]), x.T)
        leverage = (x * weights.T).sum(axis=1) + 1 / len(x)
        out = leverage / (1 - leverage)
        for members in data.twins:
            hat = x[members] @ weights[:, members] + 1 / len(x)
            out[members] = np.diagonal(np.linalg.solve(np.eye(len(members)) - hat, hat))
        return np.asarray(np.sqrt(1 + out))

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        if not candidates:
            return np.zeros((0, 2))
        out = np.empty((len(candidates), 2))
        if not data.complete:
            in_threads(self._tasks(data, candidates, out))
            return out
        lengths = np.array([len(columns) for columns in data.columns])
        if lengths.max() == 1:
            widths = np.fromiter(map(len, candidates), np.int64, len(candidates))
        else:
            widths = np.array([int(lengths[list(candidate)].sum()) for candidate in candidates])
        order = np.argsort(widths, kind="stable")
        n, p = data.values.shape
        d = int(widths.max())
        step = max(1, BATCH_BYTES // (n * (p + d) * 8))
        for start in range(0, len(candidates), step):
            chosen = order[start : start + step]
            batch = [candidates[int(i)] for i in chosen]
            if not data.twins:
                out[chosen] = self._plain_errors(data, batch)
                continue
            self._fill(data, candidates, chosen, out)
        return out

    def _tasks(
        self, data: Standardised, candidates: Sequence[Sequence[int]], out: Float[np.ndarray, "b 2"]
    ) -> list[Callable[[], None]]:
        """What fills `out` where there are gaps: candidates that share all but one benchmark together.

        The split does not depend on the number of threads, so neither does a result.
        """
        tasks: list[Callable[[], None]] = []
        remaining = set(range(len(candidates)))
        for base, members in shared_bases([tuple(sorted(c)) for c in candidates]):
            remaining -= {number for number, _ in members}
            tasks += [
                partial(self._extend, data, base, members[i : i + PART], out) for i in range(0, len(members), PART)
            ]
        widths = {i: len(data.metric_columns(candidates[i])) for i in remaining}
        order = np.array(sorted(remaining, key=lambda i: (widths[i], i)), dtype=np.int64)
        n, p = data.values.shape
        d = max(widths.values(), default=0)
        step = max(1, BATCH_BYTES // ((n + p) * (d + 1) * (d + 2) * 8))
        batches = [order[i : i + step] for i in range(0, len(order), step)]
        return tasks + [partial(self._fill, data, candidates, batch, out) for batch in batches]

    def _extend(
        self, data: Standardised, base: Sequence[int], members: list[tuple[int, int]], out: Float[np.ndarray, "b 2"]
    ) -> None:
        columns = data.metric_columns(base)
        index = np.array([columns], dtype=np.int64)
        inputs, inverse, residual, leverage = (part[0] for part in _masked_fits(data, index, self.alpha))
        fits = Fits(inputs, inverse, residual, leverage, twins_of(data, inputs, inverse))
        by_size: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        for number, added in members:
            by_size[len(data.columns[added])].append((number, data.columns[added]))
        for alike in by_size.values():
            out[[number for number, _ in alike]] = extended_errors(
                data,
                fits,
                columns,
                [added for _, added in alike],
                alpha=self.alpha,
                unselected=self.objective == "unselected",
            )

    def _fill(
        self,
        data: Standardised,
        candidates: Sequence[Sequence[int]],
        chosen: Int[np.ndarray, " c"],
        out: Float[np.ndarray, "b 2"],
    ) -> None:
        batch = [candidates[int(i)] for i in chosen]
        out[chosen] = residual_errors(data, batch, held_out_residuals(data, batch, self.alpha), self.objective)

    def _plain_errors(self, data: Standardised, batch: list[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Squared errors without gaps and groups: the division by 1 - H is left until the metrics are summed."""
        full = _full_fits(data, padded_columns(data, batch), self.alpha)
        weight = data.varies.astype(np.float64)
        counted = weight * unselected(data, batch) if self.objective == "unselected" else weight[None]
        squares = full.residual
        squares *= squares
        share = counted.sum(axis=1).clip(1e-300)
        by_model = (squares @ counted[:, :, None])[:, :, 0] / (1 - full.leverage) ** 2 / share[:, None]
        n = by_model.shape[1]
        return np.stack([by_model.mean(axis=1), by_model.std(axis=1, ddof=1) / math.sqrt(n)], axis=1)

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Predict whole rows of models that took no part in `data` from their candidate columns."""
        columns = np.array(data.metric_columns(candidate))
        measured = ~np.isnan(inputs[:, columns])
        normal, moments = normal_equations(data, columns, self.alpha)
        out = np.empty((len(inputs), data.values.shape[1]))
        for pattern, rows in measured_patterns(measured):
            coefficients = solve_for(normal, moments, np.flatnonzero(pattern))
            out[rows] = inputs[np.ix_(rows, columns[pattern])] @ coefficients[:-1] + coefficients[-1]
        return out


def normal_equations(
    data: Standardised, columns: Sequence[int] | np.ndarray, alpha: float
) -> tuple[Float[np.ndarray, "1|metrics d+1 d+1"], Float[np.ndarray, "metrics d+1"]]:
    """What the ridge fit of every metric on some columns solves; the last row is the intercept, without penalty.

    Without gaps all metrics share one matrix.
    """
    n, p = data.values.shape
    inputs = np.concatenate([data.values[:, list(columns)], np.ones((n, 1))], axis=1)
    penalty = np.diag([alpha] * len(columns) + [SILENT])
    if data.complete:
        return (inputs.T @ inputs + penalty)[None], data.values.T @ inputs
    mask = data.mask.astype(np.float64)
    products = (inputs[:, :, None] * inputs[:, None, :]).reshape(n, -1)
    return (mask.T @ products).reshape(p, *penalty.shape) + penalty, (mask * data.values).T @ inputs


def solve_for(
    normal: Float[np.ndarray, "1|metrics d+1 d+1"], moments: Float[np.ndarray, "metrics d+1"], present: np.ndarray
) -> Float[np.ndarray, "s+1 metrics"]:
    """Coefficients of the fit on some of the columns of `normal_equations`; the last row is the intercept."""
    chosen = np.append(present, normal.shape[-1] - 1)
    part = normal[:, chosen[:, None], chosen]
    if len(part) == 1:
        return np.asarray(np.linalg.solve(part[0], moments[:, chosen].T))
    return np.asarray(np.linalg.solve(part, moments[:, chosen, None])[..., 0].T)


def held_out_residuals(
    data: Standardised, batch: Sequence[Sequence[int]], alpha: float = 1.0
) -> Float[np.ndarray, "b models metrics"]:
    """Prediction minus truth for every model, from the ridge fit without its group."""
    index = padded_columns(data, batch)
    residual, room, blocks = _dense(data, index, alpha) if data.complete else _with_gaps(data, index, alpha)
    return leave_out(residual, room, data.twins, blocks)


Full = tuple[np.ndarray, np.ndarray, list[np.ndarray]]
"""Residuals of the full fits, and the diagonal and the groups' blocks of I - H, as `leave_out` takes them."""


class _Fit(NamedTuple):
    """Residuals of the full fits (before leaving anything out), leverages, and what group residuals need."""

    residual: Float[np.ndarray, "b n p"]
    leverage: Float[np.ndarray, "b n"]
    weights: Float[np.ndarray, "b d n"]
    inputs: Float[np.ndarray, "b d n"]


def _full_fits(data: Standardised, index: Int[np.ndarray, "b d"], alpha: float) -> _Fit:
    """Fits without gaps, a batch at once."""
    n = data.values.shape[0]
    padded = np.concatenate([data.values, np.zeros((n, 1))], axis=1)
    gram = padded.T @ padded
    inputs = np.ascontiguousarray(padded.T)[index]
    normal = gram[index[:, :, None], index[:, None, :]]
    steps = np.arange(index.shape[1])
    normal[:, steps, steps] += alpha
    weights = np.linalg.inv(normal) @ inputs  # what each model's row multiplies
    residual = weights.transpose(0, 2, 1) @ gram[index][:, :, :-1]
    residual -= data.values
    return _Fit(residual, (weights * inputs).sum(axis=1) + 1 / n, weights, inputs)


def _dense(data: Standardised, index: Int[np.ndarray, "b d"], alpha: float) -> Full:
    full, n = _full_fits(data, index, alpha), len(data.values)
    hats = [full.weights[:, :, own].transpose(0, 2, 1) @ full.inputs[:, :, own] + 1 / n for own in data.twins]
    return full.residual, (1 - full.leverage)[:, :, None], [(np.eye(hat.shape[1]) - hat)[:, None] for hat in hats]


def _masked_fits(
    data: Standardised, index: Int[np.ndarray, "b d"], alpha: float
) -> tuple[
    Float[np.ndarray, "b n q"], Float[np.ndarray, "b p q q"], Float[np.ndarray, "b n p"], Float[np.ndarray, "b n p"]
]:
    """Inputs, inverse normal matrices, residuals and leverages of the fits of every target on the rows that have it."""
    values, mask = data.values, data.measured
    n, p = values.shape
    batch, width = index.shape
    by_column = np.concatenate([values.T, np.zeros((1, n))])  # whole columns are gathered fast
    inputs = np.concatenate([by_column[index], np.ones((batch, 1, n))], axis=1)  # (b, d + 1, n)
    upper = np.triu_indices(width + 1)
    squares = inputs[:, upper[0]] * inputs[:, upper[1]]  # (b, m, n): the upper half of x x'
    normal = np.empty((batch, p, width + 1, width + 1))
    sums = (squares @ mask).swapaxes(1, 2)
    normal[:, :, upper[0], upper[1]] = sums
    normal[:, :, upper[1], upper[0]] = sums
    steps = np.arange(width)
    normal[:, :, steps, steps] += alpha
    normal[:, :, width, width] += SILENT
    inverse = np.linalg.inv(normal)
    moments = (inputs @ values).swapaxes(1, 2)  # (b, p, d + 1); a missing target is zero
    coefficients = (inverse @ moments[..., None])[..., 0]
    rows = inputs.swapaxes(1, 2)
    residual = rows @ coefficients.swapaxes(1, 2)
    residual -= values
    residual *= mask
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    leverage = squares.swapaxes(1, 2) @ (inverse[:, :, upper[0], upper[1]] * twice).swapaxes(1, 2)
    leverage *= mask
    return rows, inverse, residual, leverage


def _with_gaps(data: Standardised, index: Int[np.ndarray, "b d"], alpha: float) -> Full:
    inputs, inverse, residual, leverage = _masked_fits(data, index, alpha)
    mask, blocks = data.measured, []
    for members in data.twins:
        rows = inputs[:, members]
        present = mask[members].T  # (p, g)
        hat = (rows[:, None] @ inverse) @ rows[:, None].swapaxes(2, 3) * present[:, :, None] * present[:, None, :]
        blocks.append(np.eye(len(members)) - hat)
    return residual, 1 - leverage, blocks

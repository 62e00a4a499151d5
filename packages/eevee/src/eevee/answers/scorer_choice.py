"""`auto`: which scorer, and which scaling of the columns, leave-one-out prefers, and by how much."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.scorers.gp import MOST_MODELS, GpScorer
from eevee.scorers.named import AverageScorer, named_scorer
from eevee.scorers.ridge import RidgeScorer
from eevee.scorers.scorer import held_out
from eevee.searching.search import Evaluator, search
from eevee.tables.standard import standardise
from eevee.tables.table import SCALINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.scorers.scorer import Scorer
    from eevee.searching.space import Candidate, Space
    from eevee.tables.table import ResultTable

AUTO = "auto"
SUBSETS = 16
WORTH = 0.01
GP_CELLS = 40_000
SPARSE = 0.95
"""Up to this share of measured cells a completion of low rank takes part."""


@dataclass(frozen=True)
class Choice:
    """What leave-one-out chose."""

    chosen: str  # its name
    # error of each that was compared: of predicting the cells outside the subsets, mean over subsets
    errors: dict[str, float]


def choose_scorer(table: ResultTable, candidates: Sequence[Candidate], objective: str = "all") -> tuple[Scorer, Choice]:
    """Choose among ridge, the Gaussian process, their average, the nearest models and the columns' means.

    By their held-out errors on the same subsets. Where a twentieth of the cells or more is missing, a completion of low
    rank takes part, too.

    The simplest stays unless another is better by 1 % or more. The Gaussian process takes part on tables of up to 2,000
    models and 40,000 cells.
    """
    data = standardise(table)
    ridge, gp = RidgeScorer(objective=objective), GpScorer(objective=objective)  # type: ignore[arg-type]  # checked by both
    pool: list[Scorer] = [ridge, *(named_scorer(name, objective) for name in ("knn", "mean"))]
    if len(table.models) <= MOST_MODELS and table.values.size <= GP_CELLS:
        pool += [gp, AverageScorer(ridge, gp)]
        if data.mask.mean() <= SPARSE:
            pool.append(named_scorer("lowrank", objective))
    errors = {scorer.name: 0.0 for scorer in pool}
    for candidate in candidates:
        cells = data.outside(candidate)
        for scorer in pool:
            residual = held_out(scorer, data, [candidate])[0]
            errors[scorer.name] += float((residual[cells] ** 2).mean()) / len(candidates)
    best = min(pool, key=lambda scorer: errors[scorer.name])
    if errors[best.name] > (1 - WORTH) * errors[ridge.name]:
        best = ridge
    return best, Choice(best.name, errors)


def resolve_scorer(
    scorer: Scorer | str | None, table: ResultTable, candidates: Sequence[Candidate], objective: str | None = None
) -> tuple[Scorer, Choice | None]:
    """A scorer from itself, its name, or `auto`; ridge where none is given.

    An objective is that of a scorer by name, `all` where none is given; a scorer that is given as an object has its
    own, or takes the given one.
    """
    if not standardise(table).varies.any():
        raise EeveeError("no metric varies; there is nothing to predict")
    if scorer is not None and not isinstance(scorer, str):
        return _with_objective(scorer, objective), None
    objective = "all" if objective is None else objective
    if scorer is None:
        return RidgeScorer(objective=objective), None  # type: ignore[arg-type]  # it is checked there
    if scorer == AUTO:
        return choose_scorer(table, candidates, objective)
    return named_scorer(scorer, objective), None


def _with_objective(scorer: Scorer, objective: str | None) -> Scorer:
    if objective is None or objective == scorer.objective:
        return scorer
    if isinstance(scorer, AverageScorer):
        return AverageScorer(_with_objective(scorer.first, objective), _with_objective(scorer.second, objective))
    if is_dataclass(scorer) and any(field.name == "objective" and field.init for field in fields(scorer)):
        return replace(scorer, objective=objective)
    raise EeveeError(
        f"objective is {objective!r}, and the scorer {scorer.name!r} has {scorer.objective!r}; make the scorer with it"
    )


def sample_subsets(table: ResultTable, space: Space, seed: int) -> list[Candidate]:
    """Subsets to choose a scorer on: greedy's with ridge, and random ones."""
    generator = random.Random(int(seed))
    greedy = search("greedy", Evaluator(RidgeScorer(objective="unselected"), standardise(table)), space, seed=seed)
    return [greedy.best, *(space.draw(generator) for _ in range(SUBSETS))]


def choose_scaling(table: ResultTable, space: Space, seed: int = 0) -> tuple[ResultTable, Choice]:
    """Choose how columns are scaled, by the held-out absolute error of ridge in the metrics' own units.

    Errors are divided by each metric's mean absolute deviation from its median, so that metrics count alike and one
    outlier counts by its distance, not by its square.
    """
    generator = random.Random(int(seed))
    candidates = [space.draw(generator) for _ in range(SUBSETS)]
    middle = np.nanmedian(table.values, axis=0)
    unit = np.nanmean(np.abs(table.values - middle), axis=0)
    errors = {}
    for scaling in SCALINGS:
        data = standardise(table.with_scaling(scaling))
        usable = data.mask & data.varies & (unit > 0)
        if not usable.any():
            raise EeveeError("no metric varies; there is nothing to predict")
        residual = held_out(RidgeScorer(), data, candidates)
        parts = []
        for off_candidate, candidate in zip(residual, candidates, strict=True):
            off = np.abs(data.decode(data.values + off_candidate) - table.values) / np.where(unit > 0, unit, 1.0)
            parts.append(float(off[data.outside(candidate, usable)].mean()))
        errors[scaling] = float(np.mean(parts))
    best = min(errors, key=lambda key: errors[key])
    if errors[best] > (1 - WORTH) * errors["plain"]:
        best = "plain"
    return table.with_scaling(best), Choice(best, errors)

"""The honest error: search without some models, then predict exactly these."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.answers.evaluation import HeldOut, auc, judge_held_out, unmeasured_error
from eevee.answers.intervals import inside_fold, unlike_rows
from eevee.searching.search import Evaluator, search
from eevee.tables.holdout import folds_of, held_together
from eevee.tables.standard import FAR, standardise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.searching.search import MapFunction
    from eevee.searching.space import Candidate, Space
    from eevee.tables.table import ResultTable


@dataclass(frozen=True)
class InfluentialCell:
    """One result whose error makes much of the whole held-out error."""

    model: str  # of the cell
    metric: str  # of the cell
    value: float  # what the table has there
    # of the sum of squared errors over all held-out cells; that of the model's whole row where the cell is an
    # outlier, which may have misled the predictions of the others
    share: float


@dataclass(frozen=True)
class Nested:
    """Error that the search reports against error on models that it never saw.

    Errors are mean squared errors in standard deviations of the models that were learnt from. Those of unmeasured
    cells, outside the subset, are what a user of the subset meets; those of all cells count the subset's own as well.

    Args:
        inner: error that the searches reported, mean over folds.
        outer: error on the held-out models' cells that the objective counts, mean over models.
        random: error of random subsets on the same held-out models.
        wins: held-out models on which the selected subset beats the mean random subset, on unmeasured cells.
        models: held-out models in all.
        folds: how often the search was repeated.
        method: searcher inside the folds.
        chosen: for each benchmark the share of folds that chose it.
        overlap: mean share of members that two folds have in common.
        per_model: for each held-out model (selected subset's error, mean random subset's error) on unmeasured cells.
        holdout: what was held out as a whole: `model`, `family`, `date` or `frontier`.
        unmeasured: error on unmeasured cells, mean over models.
        unmeasured_inside: what leave-one-out inside the folds said of it.
        unmeasured_random: of random subsets.
        median: of the models' errors on unmeasured cells.
        worst: model with the largest.
        margin: random less selected error on unmeasured cells, mean over models, in its standard errors.
        warning_auc: how well being unlike (see `calibrate`) tells the quarter of models with the largest errors: 1
            always,
            .5 not at all.
        loud: the cell that makes the largest share of the error.

    Example:
        >>> from eevee import RidgeScorer, load_table
        >>> from eevee.searching.space import Constraints, Space
        >>> table = load_table("gate")
        >>> space = Space(table, Constraints(k=3))
        >>> nested = nested_error(table, space, RidgeScorer(), method="greedy", seed=0, folds=3, randoms=5)
        >>> nested.models, nested.folds, nested.inner < nested.outer
        (21, 3, True)
    """

    inner: float
    outer: float
    random: float
    wins: int
    models: int
    folds: int
    method: str
    chosen: dict[str, float]
    overlap: float
    per_model: dict[str, tuple[float, float]]
    holdout: str
    unmeasured: float
    unmeasured_inside: float
    unmeasured_random: float
    median: float
    worst: str
    margin: float
    warning_auc: float
    loud: InfluentialCell

    @property
    def optimism(self) -> float:
        """Outer over inner error, minus one: .2 means that the reported error is a fifth too low."""
        return self.outer / self.inner - 1 if self.inner > 0 else float("nan")

    @property
    def better_than_random(self) -> bool:
        """Whether the margin over random subsets is more than chance would give (1.645 standard errors)."""
        return self.margin > 1.645


@dataclass(frozen=True)
class CurvePoint:
    """Errors when only so many models are there to learn from."""

    models: int
    inner: float
    outer: float
    repeats: int


def nested_error(
    table: ResultTable,
    space: Space,
    scorer: Scorer,
    *,
    method: str,
    seed: int,
    folds: int | None = None,
    holdout: str = "model",
    randoms: int = 50,
    generations: int = 20,
    map_function: MapFunction = map,
    progress: Progress | None = None,
) -> Nested:
    """Repeat the whole search without each fold of models, and measure on that fold.

    Nothing of the models that a fold holds out is seen there: neither by the search nor by means and deviations.
    """
    parts = folds_of(table, holdout, folds, seed)
    table = held_together(table, holdout)
    generator = random.Random(int(seed))
    baseline = [space.draw(generator) for _ in range(randoms)]
    inner: list[float] = []
    inside: list[float] = []
    chosen: list[Candidate] = []
    models: list[int] = []
    ours: list[HeldOut] = []
    chance: list[Float[np.ndarray, "two held"]] = []
    spreads: list[Float[np.ndarray, " held"]] = []
    for number, (train, held) in enumerate(parts):
        data = standardise(table, train)
        evaluate = Evaluator(scorer, data, map_function=map_function)
        result = search(method, evaluate, space, seed=seed, generations=generations)
        inner.append(result.error)
        inside.append(unmeasured_error(scorer, data, result.best)[0])
        chosen.append(result.best)
        models += held
        ours.append(judge_held_out(scorer, data, table.values[held], result.best))
        typical = float(np.median(inside_fold(scorer, data, result.best).unlike))
        spreads.append(unlike_rows(scorer, data, result.best, ours[-1].rows) / typical)
        judged = [judge_held_out(scorer, data, table.values[held], candidate) for candidate in baseline]
        chance.append(
            np.stack([np.mean([o.all_cells() for o in judged], 0), np.mean([o.unmeasured() for o in judged], 0)])
        )
        if progress is not None:
            progress("held out", number + 1, len(parts))
    by_chance = np.concatenate(chance, axis=1)
    unmeasured = np.concatenate([fold.unmeasured() for fold in ours])
    counted = unmeasured if scorer.objective == "unselected" else np.concatenate([fold.all_cells() for fold in ours])
    gain = (by_chance[1] - unmeasured)[~np.isnan(unmeasured)]
    counts = Counter(i for candidate in chosen for i in candidate)
    pairs = [len(set(a) & set(b)) / max(len(a), len(b)) for i, a in enumerate(chosen) for b in chosen[:i]]
    names = [table.models[i] for i in models]
    order = np.argsort(models)
    return Nested(
        inner=float(np.mean(inner)),
        outer=float(np.nanmean(counted)),
        random=float(by_chance[1 if scorer.objective == "unselected" else 0].mean()),
        wins=int((gain > 0).sum()),
        models=len(models),
        folds=len(parts),
        method=method,
        chosen={table.benchmark_ids[i]: count / len(parts) for i, count in counts.most_common()},
        overlap=float(np.mean(pairs)) if pairs else 1.0,
        per_model={names[i]: (float(unmeasured[i]), float(by_chance[1, i])) for i in order},
        holdout=holdout,
        unmeasured=_mean(unmeasured),
        unmeasured_inside=float(np.mean(inside)),
        unmeasured_random=_mean(by_chance[1]),
        median=float(np.nanmedian(unmeasured)) if len(gain) else float("nan"),
        worst=names[int(np.nanargmax(np.where(np.isnan(unmeasured), -1.0, unmeasured)))],
        margin=float(gain.mean() / max(gain.std(ddof=1) / np.sqrt(len(gain)), 1e-12))
        if len(gain) > 1
        else float("nan"),
        warning_auc=auc(np.concatenate(spreads), unmeasured >= np.nanquantile(unmeasured, 0.75))
        if len(gain)
        else float("nan"),
        loud=_loudest(table, models, ours),
    )


def _mean(values: Float[np.ndarray, " n"]) -> float:
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


def _loudest(table: ResultTable, models: Sequence[int], ours: Sequence[HeldOut]) -> InfluentialCell:
    """The cell with the largest error; an outlier of that model's, where it has one, since it may be what misled."""
    squares = np.concatenate([fold.residual**2 for fold in ours])
    rows = np.abs(np.nan_to_num(np.concatenate([fold.rows for fold in ours])))
    row, column = (int(i) for i in np.unravel_index(int(squares.argmax()), squares.shape))
    share = squares[row, column]
    if rows[row].max() > FAR:
        column, share = int(rows[row].argmax()), squares[row].sum()
    return InfluentialCell(
        table.models[models[row]],
        table.metric_ids[column],
        float(table.values[models[row], column]),
        float(share / max(squares.sum(), 1e-300)),
    )


def learning_curve(
    table: ResultTable,
    space: Space,
    scorer: Scorer,
    *,
    seed: int,
    repeats: int = 8,
    sizes: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> tuple[CurvePoint, ...]:
    """Inner and held-out error of a greedy search when only some of the models are known.

    Numerics: whole groups are drawn, so a size is met up to the last group.
    """
    count = len(table.models)
    if sizes is None:
        sizes = sorted({int(x) for x in np.geomspace(max(6, count // 8), max(7, int(0.85 * count)), 4)})
    generator = random.Random(int(seed))
    members: dict[str, list[int]] = {}
    for i, group in enumerate(table.groups):
        members.setdefault(group, []).append(i)
    points = []
    for number, size in enumerate(sizes):
        if progress is not None:
            progress("learning curve", number, len(sizes))
        inner, outer = [], []
        for _ in range(repeats):
            labels = sorted(members)
            generator.shuffle(labels)
            train: list[int] = []
            for label in labels:
                if len(train) >= size:
                    break
                train.extend(members[label])
            held = sorted(set(range(count)) - set(train))
            if not held:
                continue
            data = standardise(table, train)
            result = search("greedy", Evaluator(scorer, data), space, seed=seed)
            judged = judge_held_out(scorer, data, table.values[held], result.best)
            counted = judged.unmeasured() if scorer.objective == "unselected" else judged.all_cells()
            inner.append(result.error)
            outer.append(float(counted.mean()))
        if inner:
            points.append(CurvePoint(size, float(np.mean(inner)), float(np.mean(outer)), len(inner)))
    return tuple(points)

"""The honest error: search without some models, then predict exactly these."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.evaluation import Evaluator, Scorer
from eevee.search import search
from eevee.standard import standardise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jaxtyping import Float

    from eevee.evaluation import MapFunction
    from eevee.space import Candidate, Space
    from eevee.table import ResultTable

LEAVE_ONE_OUT_UP_TO = 30
FOLDS_BEYOND = 5


@dataclass(frozen=True)
class Nested:
    """Error that the search reports against error on models that it never saw.

    Args:
        inner: error that the searches reported, mean over folds.
        outer: error on the held-out models, mean over models.
        random: error of random subsets on the same held-out models.
        wins: held-out models on which the selected subset beats the mean random subset.
        models: held-out models in all.
        folds: how often the search was repeated.
        method: searcher inside the folds.
        chosen: for each benchmark the share of folds that chose it.
        overlap: mean share of members that two folds have in common.
        per_model: for each model (selected subset's error, mean random subset's error).
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

    @property
    def optimism(self) -> float:
        """Outer over inner error, minus one: .2 means that the reported error is a fifth too low."""
        return self.outer / self.inner - 1 if self.inner > 0 else float("nan")


@dataclass(frozen=True)
class CurvePoint:
    """Errors when only so many models are there to learn from."""

    models: int
    inner: float
    outer: float
    repeats: int


def split_groups(groups: Sequence[str], folds: int | None, seed: int) -> list[list[int]]:
    """Positions of held-out models of each fold; members of a group stay together.

    Args:
        groups: label of each model.
        folds: how many; by default one for each group up to 30 groups, and 5 beyond.
        seed: of the shuffle.
    """
    labels = sorted(set(groups))
    number = folds or (len(labels) if len(labels) <= LEAVE_ONE_OUT_UP_TO else FOLDS_BEYOND)
    if not 2 <= number <= len(labels):
        raise EeveeError(f"folds is {number}; expected 2 to {len(labels)}, the number of groups of models")
    random.Random(seed).shuffle(labels)
    fold = {label: i % number for i, label in enumerate(labels)}
    return [[i for i, label in enumerate(groups) if fold[label] == f] for f in range(number)]


def held_out_errors(
    scorer: Scorer, table: ResultTable, train: Sequence[int], held: Sequence[int], candidates: Sequence[Candidate]
) -> Float[np.ndarray, "candidates held"]:
    """Mean squared error of each held-out model, in standard deviations of the training models.

    With the objective `unselected`, the candidate's own metrics are not counted.
    """
    data = standardise(table, train)
    rows = np.where(data.varies, (table.values[list(held)] - data.centre) / data.scale, np.nan)
    out = np.empty((len(candidates), len(held)))
    for number, candidate in enumerate(candidates):
        counted = ~np.isnan(rows)
        if scorer.objective == "unselected":
            counted[:, data.metric_columns(candidate)] = False
        residual = np.where(counted, scorer.predict(data, candidate, rows) - rows, 0.0)
        out[number] = (residual**2).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    return out


def nested_error(
    table: ResultTable,
    space: Space,
    scorer: Scorer,
    *,
    method: str,
    seed: int,
    folds: int | None = None,
    randoms: int = 50,
    generations: int = 20,
    map_function: MapFunction = map,
    chunk: int = 500,
    journal: Path | None = None,
    key: str = "",
    progress: Callable[[str], None] | None = None,
) -> Nested:
    """Repeat the whole search without each fold of models, and measure on that fold.

    Nothing of the models that a fold holds out is seen there: neither by the search nor by means and deviations.

    Args:
        table: the results.
        space: the feasible subsets.
        scorer: the meta-model; held-out errors are squared errors for every objective.
        method: searcher of the folds.
        seed: of folds, searches and random subsets.
        folds: see `split_groups`.
        randoms: random subsets to compare with, the same in every fold.
        generations: of an evolution.
        map_function: spreads chunks of candidates, see `eevee.executors`.
        chunk: candidates for each call of it.
        journal: file from which the folds continue; each has one of its own beside it.
        key: what the journal belongs to, see `eevee.evaluation.Evaluator`.
        progress: called with one line for each fold.
    """
    generator = random.Random(seed)
    baseline = [space.draw(generator) for _ in range(randoms)]
    inner: list[float] = []
    chosen: list[Candidate] = []
    selected = np.full(len(table.models), np.nan)
    at_random = np.full(len(table.models), np.nan)
    parts = split_groups(table.groups, folds, seed)
    for number, held in enumerate(parts):
        train = [i for i in range(len(table.models)) if i not in set(held)]
        evaluate = Evaluator(
            scorer,
            standardise(table, train),
            map_function=map_function,
            chunk=chunk,
            journal=None if journal is None else journal.with_name(f"{journal.name}.fold{number}"),
            key=f"{key} without {sorted(held)}",
        )
        found = search(method, evaluate, space, seed=seed, generations=generations)
        errors = held_out_errors(scorer, table, train, held, [found.best, *baseline])
        inner.append(found.error)
        chosen.append(found.best)
        selected[held] = errors[0]
        at_random[held] = errors[1:].mean(axis=0)
        if progress is not None:
            progress(f"held out {number + 1} of {len(parts)}")
    counts = Counter(i for candidate in chosen for i in candidate)
    pairs = [len(set(a) & set(b)) / max(len(a), len(b)) for i, a in enumerate(chosen) for b in chosen[:i]]
    return Nested(
        inner=float(np.mean(inner)),
        outer=float(selected.mean()),
        random=float(at_random.mean()),
        wins=int((selected < at_random).sum()),
        models=len(table.models),
        folds=len(parts),
        method=method,
        chosen={table.benchmark_ids[i]: count / len(parts) for i, count in counts.most_common()},
        overlap=float(np.mean(pairs)),
        per_model={model: (float(a), float(b)) for model, a, b in zip(table.models, selected, at_random, strict=True)},
    )


def learning_curve(
    table: ResultTable, space: Space, scorer: Scorer, *, seed: int, repeats: int = 8, sizes: Sequence[int] | None = None
) -> tuple[CurvePoint, ...]:
    """Inner and held-out error of a greedy search when only some of the models are known.

    Args:
        table: the results.
        space: the feasible subsets.
        scorer: the meta-model.
        seed: of the draws of models.
        repeats: draws for each size.
        sizes: numbers of models to learn from; by default four from 8 (or a quarter) up to 85 % of the models.

    Numerics: whole groups are drawn, so a size is met up to the last group.
    """
    count = len(table.models)
    if sizes is None:
        sizes = sorted({int(x) for x in np.geomspace(max(6, count // 8), max(7, int(0.85 * count)), 4)})
    generator = random.Random(seed)
    points = []
    for size in sizes:
        inner, outer = [], []
        for _ in range(repeats):
            labels = sorted(set(table.groups))
            generator.shuffle(labels)
            train: list[int] = []
            for label in labels:
                if len(train) >= size:
                    break
                train.extend(i for i, group in enumerate(table.groups) if group == label)
            held = [i for i in range(count) if i not in set(train)]
            if not held:
                continue
            found = search("greedy", Evaluator(scorer, standardise(table, train)), space, seed=seed)
            inner.append(found.error)
            outer.append(float(held_out_errors(scorer, table, train, held, [found.best]).mean()))
        if inner:
            points.append(CurvePoint(size, float(np.mean(inner)), float(np.mean(outer)), len(inner)))
    return tuple(points)

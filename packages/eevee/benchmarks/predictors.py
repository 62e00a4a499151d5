"""Which predictor is right about unmeasured cells of MIEB (42 models, 132 tasks), on random and on family hold-outs.

Every split searches its subset and fits its predictor on the training models alone. Errors are squared, in standard
deviations of the training models, on the cells outside the subset. `ridge today` is greedy + ridge without the link for
bounds. Baselines take the subset that greedy finds with ridge, except k-medoids, which has its own.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace

import numpy as np
from _baselines import knn, medoids, ppca, soft_impute
from _setting import record

from eevee import AverageScorer, Constraints, GpScorer, RidgeScorer, Space, choose_scorer, load_table, standardise
from eevee.answers.intervals import UNLIKE, intervals
from eevee.answers.ranking import auc
from eevee.searching.evaluation import Evaluator
from eevee.searching.search import search
from eevee.tables.holdout import folds_of, held_together

SIZES = (4, 8, 16)


def part(table, keep):
    """The table with these models alone."""
    return replace(
        table,
        models=tuple(table.models[i] for i in keep),
        values=table.values[keep],
        groups=tuple(table.groups[i] for i in keep),
        families=tuple(table.families[i] for i in keep),
    )


def random_splits(table, count):
    generator = random.Random(0)
    for _ in range(count):
        order = generator.sample(range(len(table.models)), len(table.models))
        held = sorted(order[: len(order) // 4])
        yield sorted(set(order) - set(held)), held


class Split:
    """Training models, held-out ones, and errors in the raw units of the training models."""

    def __init__(self, table, train, held):
        self.table = part(table, train)
        self.plain = replace(self.table, metrics=tuple(replace(m, bounds=None) for m in table.metrics))
        self.raw = table.values[held]
        unit = np.nanstd(self.table.values, axis=0)
        self.unit = np.where(unit > 0, unit, np.inf)
        self.space = {k: Space(self.table, Constraints(k=k)) for k in SIZES}
        self.evaluators = {}

    def greedy(self, table, scorer, k):
        """The subset of greedy search; the sizes share what was scored."""
        key = (table is self.table, scorer)
        evaluate = self.evaluators.setdefault(key, Evaluator(scorer, standardise(table)))
        return search("greedy", evaluate, self.space[k], seed=0).best

    def errors(self, table, candidate, predict):
        """Mean squared error of each held-out model outside the subset."""
        data = standardise(table)
        guess = data.decode(predict(data, candidate, data.encode(self.raw)))
        off = (guess - self.raw) / self.unit
        off[:, data.metric_columns(candidate)] = np.nan
        return np.nanmean(off**2, axis=1)

    def inside(self, candidate, scorer, holdout, level=0.9):
        """Share of each held-out model's unmeasured cells inside, how unlike it is, and whether bounds are kept."""
        data = standardise(self.table)
        middle, half, unlike, *_ = intervals(
            self.table, candidate, scorer, data.encode(self.raw), level=level, holdout=holdout
        )
        low, high = data.decode(middle - half), data.decode(middle + half)
        seen = ~np.isnan(self.raw)
        seen[:, data.metric_columns(candidate)] = False
        good = (low <= self.raw + 1e-12) & (self.raw <= high + 1e-12) & seen
        return good.sum(1) / seen.sum(1), unlike, bool((low >= 0).all() and (high <= 1).all())


def judge(split, k, holdout):
    ridge, gp = RidgeScorer(objective="unselected"), GpScorer(objective="unselected")
    today = split.greedy(split.plain, ridge, k)
    bounded = split.greedy(split.table, ridge, k)
    own = split.greedy(split.table, gp, k)
    auto, _ = choose_scorer(held_together(split.table, holdout), [bounded])
    table = split.table
    rows = {
        "ridge today": split.errors(split.plain, today, ridge.predict),
        "ridge, bounds": split.errors(table, bounded, ridge.predict),
        "ridge's subset, gp": split.errors(table, bounded, gp.predict),
        "gp, searched with gp": split.errors(table, own, gp.predict),
        "ridge's subset, ridge+gp": split.errors(table, bounded, AverageScorer(ridge, gp).predict),
        "ridge's subset, auto": split.errors(table, bounded, auto.predict),
        "k-medoids anchors": split.errors(split.plain, medoids(split.plain, k), ridge.predict),
        "PPCA": split.errors(split.plain, today, ppca),
        "soft-impute": split.errors(split.plain, today, soft_impute),
        "k-NN": split.errors(split.plain, today, knn),
    }
    covered, unlike, bounded_ends = split.inside(bounded, gp, holdout)
    return rows, covered, unlike, bounded_ends


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=12)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    options = parser.parse_args()
    table = load_table("mieb")
    result: dict[str, object] = {"table": "mieb, 42 models x 132 tasks", "random_splits": options.splits}
    folds = {
        "random": list(random_splits(table, options.splits)),
        "family": folds_of(table, "family", None, 0),
    }
    for kind, parts in folds.items():
        gathered = {k: ({}, [], [], []) for k in options.sizes}
        for train, held in parts:
            split = Split(table, train, held)
            for k, (means, cover, told, worst) in gathered.items():
                rows, covered, unlike, bounded = judge(split, k, "family" if kind == "family" else "model")
                assert bounded, "an interval leaves its bounds"
                for name, errors in rows.items():
                    means.setdefault(name, []).extend(errors.tolist())
                cover += covered.tolist()
                told += unlike.tolist()
                worst += rows["ridge's subset, gp"].tolist()
            print(kind, len(held), flush=True)
        for k, found in gathered.items():
            result[f"{kind}, k={k}"] = summary(*found)
        record("predictors", result)


def summary(means, cover, told, worst):
    """Errors beside today's ridge, coverage, and the warning as a detector."""
    base = np.mean(means["ridge today"])
    warned, off = np.array(told) >= UNLIKE, np.array(worst)
    return {
        "error": {name: round(float(np.mean(errors)), 4) for name, errors in means.items()},
        "of ridge today": {name: round(float(np.mean(errors) / base), 3) for name, errors in means.items()},
        "median of ridge today": {
            name: round(float(np.median(errors) / np.median(means["ridge today"])), 3) for name, errors in means.items()
        },
        "coverage of 90 %": round(float(np.mean(cover)), 4),
        "warning": {
            "AUC for the worst quarter of models": round(auc(told, off >= np.quantile(off, 0.75)), 3),
            "share warned": round(float(warned.mean()), 3),
            "error where warned": round(float(off[warned].mean()), 3) if warned.any() else None,
            "error elsewhere": round(float(off[~warned].mean()), 3),
        },
    }


if __name__ == "__main__":
    main()

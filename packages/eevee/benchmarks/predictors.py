"""Which predictor is right about unmeasured cells of each table that ships, and of any other, by kind of hold-out.

    python packages/eevee/benchmarks/predictors.py [--tables gate gate-full mieb FILE.csv] [--sizes 4 8 16]

Every split searches its subset and fits its predictor on the training models alone. Held out are a quarter of the
models at random, each family, and the best quarter. Errors are squared, in standard deviations of the training models,
on the cells outside the subset, of metrics that vary among them a hundredth as much as among all, or more; `missing`
hides a tenth of the training cells besides. `ridge today` is greedy + ridge without the link for bounds. Baselines
take the subset that greedy finds with ridge, except k-medoids, which has its own. On tables of more than 500 models
nothing is searched with the Gaussian process, and one split is made.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from _baselines import knn, medoids, ppca, soft_impute
from _setting import RESULTS, record

from eevee import AverageScorer, GpScorer, RidgeScorer, load_table, standardise
from eevee.answers.evaluation import auc
from eevee.answers.intervals import UNLIKE, intervals
from eevee.answers.scorer_choice import choose_scorer
from eevee.scorers.named import named_scorer
from eevee.searching.search import Evaluator, search
from eevee.searching.search import medoids as medoids_of
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import folds_of, held_together, with_families
from eevee.tables.standard import overall_scores

SIZES = (4, 8, 16)
MANY = 500


def part(table, keep):
    """The table with these models alone."""
    return replace(
        table,
        models=tuple(table.models[i] for i in keep),
        values=table.values[keep],
        groups=tuple(table.groups[i] for i in keep),
        families=tuple(table.families[i] for i in keep) if table.families else (),
    )


def random_splits(table, count):
    generator = random.Random(0)
    for _ in range(count):
        order = generator.sample(range(len(table.models)), len(table.models))
        held = sorted(order[: len(order) // 4])
        yield sorted(set(order) - set(held)), held


class Split:
    """Training models, held-out ones, and errors in the raw units of the training models."""

    def __init__(self, table, train, held, sizes):
        self.table = part(table, train)
        self.plain = replace(self.table, metrics=tuple(replace(m, bounds=None) for m in table.metrics))
        self.raw = table.values[held]
        unit = np.nanstd(self.table.values, axis=0)
        self.unit = np.where(unit > 0.01 * np.nanstd(table.values, axis=0), unit, np.inf)
        self.space = {k: Space(self.table, Constraints(k=k)) for k in sizes}
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
        measured = ~np.isnan(self.raw)
        measured[:, data.metric_columns(candidate)] = False
        good = (low <= self.raw + 1e-12) & (self.raw <= high + 1e-12) & measured
        ends = np.array([metric.bounds or (-np.inf, np.inf) for metric in self.table.metrics]).T
        bounded = bool((low >= ends[0] - 1e-9).all() and (high <= ends[1] + 1e-9).all())
        return good.sum(1) / measured.sum(1), unlike, bounded


def judge(split, k, holdout):
    ridge, gp = RidgeScorer(objective="unselected"), GpScorer(objective="unselected")
    today = split.greedy(split.plain, ridge, k)
    bounded = split.greedy(split.table, ridge, k)
    central = medoids_of(Evaluator(ridge, standardise(split.table)), split.space[k]).best
    many = len(split.table.models) > MANY
    own = bounded if many else split.greedy(split.table, gp, k)
    auto, _ = choose_scorer(held_together(split.table, holdout), [bounded])
    table = split.table
    rows = {
        "ridge today": split.errors(split.plain, today, ridge.predict),
        "ridge, bounds": split.errors(table, bounded, ridge.predict),
        "ridge's subset, gp": split.errors(table, bounded, gp.predict),
        "ridge's subset, ridge+gp": split.errors(table, bounded, AverageScorer(ridge, gp).predict),
        "ridge's subset, knn": split.errors(table, bounded, named_scorer("knn").predict),
        "ridge's subset, mean": split.errors(table, bounded, named_scorer("mean").predict),
        "ridge's subset, auto": split.errors(table, bounded, auto.predict),
        "medoids, auto": split.errors(
            table, central, choose_scorer(held_together(table, holdout), [central])[0].predict
        ),
        "PPCA": split.errors(split.plain, today, ppca),
        "soft-impute": split.errors(split.plain, today, soft_impute),
        "k-NN": split.errors(split.plain, today, knn),
    }
    if len(table.metrics) == len(table.benchmarks):  # it knows columns, not benchmarks
        rows["k-medoids anchors"] = split.errors(split.plain, medoids(split.plain, k), ridge.predict)
    if not many:
        rows["gp, searched with gp"] = split.errors(table, own, gp.predict)
    covered, unlike, bounded_ends = split.inside(bounded, gp, holdout)
    return rows, covered, unlike, bounded_ends


def splits_of(table, count):
    """(Training models, held-out ones) of each kind of hold-out that the table allows."""
    count = 1 if len(table.models) > MANY else count
    yield "random", "model", list(random_splits(table, count))
    if table.families and len(table.models) <= MANY:
        yield "family", "family", folds_of(table, "family", None, 0)
    order, edge = np.argsort(overall_scores(table)), len(table.models) - len(table.models) // 4
    yield "frontier", "frontier", [(sorted(order[:edge].tolist()), sorted(order[edge:].tolist()))]


def with_gaps(table, train, seed):
    """The table without a tenth of the training cells."""
    values = table.values.copy()
    hidden = np.random.default_rng(seed).random(values.shape) < 0.1
    hidden[np.setdiff1d(np.arange(len(values)), train)] = False
    values[hidden] = np.nan
    return replace(table, values=values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["gate", "gate-full", "mieb"])
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--missing", action="store_true", help="hide a tenth of the training cells")
    options = parser.parse_args()
    file = RESULTS / "predictors.json"  # other tables' rows stay
    result: dict[str, object] = json.loads(file.read_text()) if file.exists() else {}
    for name in options.tables:
        own = {"direction": "higher", "bounds": (0.0, 100.0)} if Path(name).suffix else {}
        table = with_families(load_table(name, **own))
        label = f"{Path(name).stem}{', a tenth missing' if options.missing else ''}"
        result[label] = {"models": len(table.models), "benchmarks": len(table.benchmarks)}
        for kind, holdout, parts in splits_of(table, options.splits):
            gathered = {k: ({}, [], [], []) for k in options.sizes}
            for number, (train, held) in enumerate(parts):
                split = Split(with_gaps(table, train, number) if options.missing else table, train, held, options.sizes)
                for k, (means, cover, unlike_all, worst) in gathered.items():
                    rows, covered, unlike, bounded = judge(split, k, holdout)
                    assert bounded, "an interval leaves its bounds"
                    for predictor, errors in rows.items():
                        means.setdefault(predictor, []).extend(errors.tolist())
                    cover += covered.tolist()
                    unlike_all += unlike.tolist()
                    worst += rows["ridge's subset, gp"].tolist()
                print(name, kind, len(held), flush=True)
            for k, collected in gathered.items():
                result[f"{label}, {kind}, k={k}"] = {"splits": len(parts), **summary(*collected)}
            record("predictors", {key: row for key, row in result.items() if key != "setting"})


def summary(means, cover, unlike, worst):
    """Errors beside today's ridge, coverage, and the warning as a detector."""
    base = np.mean(means["ridge today"])
    warned, off = np.array(unlike) >= UNLIKE, np.array(worst)
    return {
        "error": {name: round(float(np.mean(errors)), 4) for name, errors in means.items()},
        "of ridge today": {name: round(float(np.mean(errors) / base), 3) for name, errors in means.items()},
        "median of ridge today": {
            name: round(float(np.median(errors) / np.median(means["ridge today"])), 3) for name, errors in means.items()
        },
        "coverage of 90 %": round(float(np.mean(cover)), 4),
        "warning": {
            "AUC for the worst quarter of models": round(auc(unlike, off >= np.quantile(off, 0.75)), 3),
            "share warned": round(float(warned.mean()), 3),
            "error where warned": round(float(off[warned].mean()), 3) if warned.any() else None,
            "error elsewhere": round(float(off[~warned].mean()), 3),
        },
    }


if __name__ == "__main__":
    main()

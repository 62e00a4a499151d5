"""What the reported error and the intervals are worth on models that the search never saw (shipped table, k = 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from _setting import record

from eevee import RidgeScorer, load_table
from eevee.answers.intervals import intervals
from eevee.answers.nested import learning_curve, nested_error
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import folds_of
from eevee.tables.standard import standardise


def coverage(table, k: int, level: float) -> float:
    """Share of held-out cells outside the subset inside their interval; neither search nor quantile sees them."""
    space = Space(table, Constraints(k=k))
    inside = []
    for train, held in folds_of(table, "model", None, seed=0):
        learnt = replace(
            table,
            models=tuple(table.models[i] for i in train),
            values=table.values[train],
            groups=tuple(table.groups[i] for i in train),
        )
        data = standardise(learnt)
        best = search("greedy-swap", Evaluator(RidgeScorer(), data), space, seed=0)
        rows = data.encode(table.values[held])
        middle, half, *_ = intervals(learnt, best.best, RidgeScorer(), rows, level=level)
        counted = np.tile(data.varies, (len(held), 1))
        counted[:, data.metric_columns(best.best)] = False
        inside.append((np.abs(middle - rows) <= half)[counted])
    return float(np.concatenate(inside).mean())


def main() -> None:
    result: dict[str, object] = {}
    table = load_table("gate")
    space = Space(table, Constraints(k=8))
    nested = nested_error(table, space, RidgeScorer(), method="evolution", seed=0)
    result["nested"] = {
        "inner": nested.inner,
        "outer": nested.outer,
        "optimism": nested.optimism,
        "random": nested.random,
        "wins": nested.wins,
        "models": nested.models,
        "overlap_of_two_folds": nested.overlap,
        "chosen": nested.chosen,
    }
    result["coverage"] = {
        f"{name} k={k} at {level:.0%}": round(coverage(load_table(name), k, level), 4)
        for name, k, level in (("gate", 8, 0.9), ("gate", 8, 0.8), ("gate", 4, 0.9), ("gate", 12, 0.9))
    }
    result["learning_curve"] = [
        {"models": p.models, "inner": p.inner, "outer": p.outer}
        for p in learning_curve(table, space, RidgeScorer(), seed=0)
    ]
    record("honesty", result)


if __name__ == "__main__":
    main()

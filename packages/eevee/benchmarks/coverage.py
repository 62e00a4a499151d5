"""Coverage of intervals on unmeasured cells of models that neither the search nor the fit saw, table by table.

    python packages/eevee/benchmarks/coverage.py [--tables gate mieb] [--sizes 4 8 16]

Every split searches its subset (greedy, ridge) on the training models alone, takes what `auto` prefers there, and
asks for intervals of 90 % by `--holdout model`, `family` or `frontier`. Held out are: models at random, each family,
the best quarter (learning from the worse), and the worst quarter. `closed form` is the interval that does not count
that the search saw the models that calibrate it. The width is in standard deviations of the training models. The
warning's AUC is for the worst quarter of the held-out models.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from _setting import RESULTS, record

from eevee import RidgeScorer, load_table, standardise
from eevee.answers.evaluation import auc
from eevee.answers.intervals import intervals
from eevee.answers.scorer_choice import choose_scorer
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.holdout import folds_of, with_families
from eevee.tables.standard import overall_scores


def part(table, keep):
    """The table with these models alone."""
    families = tuple(table.families[i] for i in keep) if table.families else ()
    return replace(
        table,
        models=tuple(table.models[i] for i in keep),
        values=table.values[keep],
        groups=tuple(table.groups[i] for i in keep),
        families=families,
    )


def splits(table, randoms):
    """For each way of holding out the calibration that is asked for, and (train, held) pairs."""
    n = len(table.models)
    generator = random.Random(0)
    shuffled = [generator.sample(range(n), n) for _ in range(randoms)]
    yield "random models", "model", [(sorted(order[n // 4 :]), sorted(order[: n // 4])) for order in shuffled]
    if table.families:
        yield "families", "family", folds_of(table, "family", None, 0)
    order = np.argsort(overall_scores(table))
    worse, better = sorted(order[: n - n // 4].tolist()), sorted(order[n - n // 4 :].tolist())
    yield "best quarter, asked for", "frontier", [(worse, better)]
    yield "best quarter, not asked for", "model", [(worse, better)]
    yield (
        "worst quarter, not asked for",
        "model",
        [(sorted(order[n // 4 :].tolist()), sorted(order[: n // 4].tolist()))],
    )


def judge(table, train, held, k, holdout, searched):
    """Hits, widths (both per cell), errors and warnings (per held-out model)."""
    learnt = part(table, train)
    data = standardise(learnt)
    evaluate = Evaluator(RidgeScorer(objective="unselected"), data)
    subset = search("greedy", evaluate, Space(learnt, Constraints(k=k)), seed=0).best
    scorer, _ = choose_scorer(learnt, [subset])
    rows = np.where(data.varies, data.encode(table.values[held]), np.nan)
    around = intervals(learnt, subset, scorer, rows, level=0.9, holdout=holdout, searched=searched)
    measured = ~np.isnan(rows)
    measured[:, data.metric_columns(subset)] = False
    off = np.abs(np.where(measured, around.predicted - rows, 0.0))
    return (
        (off <= around.half)[measured],
        around.half[measured],
        (off**2).sum(1) / measured.sum(1),
        around.unlike,
        around.beyond,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["gate", "mieb"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--randoms", type=int, default=8)
    parser.add_argument("--only", default="", help="ways of holding out whose name begins so")
    parser.add_argument("--closed-form", action="store_true", help="leave out the searches without each fold")
    options = parser.parse_args()
    file = RESULTS / f"{Path(__file__).stem}.json"  # other tables' rows stay
    result: dict[str, object] = json.loads(file.read_text()) if file.exists() else {}
    result.pop("setting", None)
    for name in options.tables:
        table = with_families(load_table(name))
        for label, holdout, parts in splits(table, options.randoms):
            if not label.startswith(options.only):
                continue
            for k in options.sizes:
                row = {}
                for searched in (False,) if options.closed_form else (False, True):
                    judged = [judge(table, train, held, k, holdout, searched) for train, held in parts]
                    hits, widths, errors, unlike, beyond = (
                        np.concatenate(column) for column in zip(*judged, strict=True)
                    )
                    how = "searches held out" if searched else "closed form"
                    row[f"coverage, {how}"] = round(float(hits.mean()), 4)
                    row[f"mean half-width, {how}"] = round(float(widths.mean()), 3)
                row["AUC of the warning"] = round(auc(unlike, errors >= np.quantile(errors, 0.75)), 3)
                row["said to be beyond the table"] = round(float((beyond != 0).mean()), 3)
                result[f"{name}, {label}, k={k}"] = row
                print(name, label, k, row, flush=True)
                record(Path(__file__).stem, result)


if __name__ == "__main__":
    main()

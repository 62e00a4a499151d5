"""Coverage of simultaneous rank intervals on simulated boards, and their width beside bootstraps over tasks.

    python packages/eevee/benchmarks/ranks.py [--boards 1000]

`tasks`: 20 models on 31 tasks whose true means are partly tied; a model's score on a task is its mean, what the task
shares with neighbouring models, and noise. An interval of all ranks covers where it holds every true rank (tied models
may have any of their places). Where all models are tied nothing may be decided: there the level is met, elsewhere it
is exceeded, since fewer pairs can be wrong. `items`: the same means as shares of right answers on 10 fixed tasks of
200 items; the truth is the mean over these tasks. Beside them stand, on the same boards, simultaneous intervals over
tasks, and bootstraps over tasks: percentile intervals of each model's rank, at 95 % for each, and at a level for each
that holds 95 % for all by Bonferroni's inequality.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from _setting import earlier, record

from eevee import Benchmark, Metric, Outcomes, Ranking, ResultTable, rank_models, rank_outcomes

MODELS, TASKS = 20, 31


def truth(generator: np.random.Generator) -> np.ndarray:
    """Means of the models, a third of them tied in threes."""
    means = generator.normal(0, 0.5, MODELS)
    means[:9] = np.repeat(means[:3], 3)
    return means


def board(generator: np.random.Generator, means: np.ndarray) -> ResultTable:
    shared = generator.normal(size=(4, TASKS))
    own = generator.normal(size=(MODELS, 4)) * 0.5
    values = means[:, None] + own @ shared + generator.normal(0, 0.6, (MODELS, TASKS))
    names = tuple(f"t{number}" for number in range(TASKS))
    return ResultTable(
        "made up",
        tuple(f"m{number:02}" for number in range(MODELS)),
        tuple(Metric(name, name, "higher") for name in names),
        tuple(Benchmark(name) for name in names),
        values,
    )


def holds(places: dict[str, tuple[int, int]], means: np.ndarray) -> bool:
    """Whether every model's interval holds one of its true places."""
    for number, mean in enumerate(means):
        best, worst = 1 + int((means > mean + 1e-12).sum()), int((means >= mean - 1e-12).sum())
        low, high = places[f"m{number:02}"]
        if high < best or low > worst:
            return False
    return True


def by_tasks(values: np.ndarray, generator: np.random.Generator, alpha: float) -> dict[str, tuple[int, int]]:
    """Percentile intervals of each rank, tasks resampled."""
    rows = generator.integers(0, values.shape[1], (2000, values.shape[1]))
    ranks = np.argsort(np.argsort(-values[:, rows].mean(2), axis=0), axis=0) + 1
    low, high = np.quantile(ranks, [alpha / 2, 1 - alpha / 2], axis=1, method="closest_observation")
    return {f"m{number:02}": (int(low[number]), int(high[number])) for number in range(len(values))}


def item_board(generator: np.random.Generator, means: np.ndarray) -> tuple[dict[str, Outcomes], np.ndarray]:
    """Outcomes on 10 tasks of 200 items, and the models' true means over these tasks."""
    hard = generator.normal(0, 0.7, (10, 1))
    shares = 1 / (1 + np.exp(-(2 * means[None] + hard)))
    models, items = tuple(f"m{number:02}" for number in range(MODELS)), tuple(map(str, range(200)))
    outcomes = {}
    for task, share in enumerate(shares):
        right = (generator.random((MODELS, 200)) < share[:, None]).astype(float)
        outcomes[f"t{task}"] = Outcomes(f"t{task}", models, items, right)
    return outcomes, shares.mean(0)


def scores_table(outcomes: dict[str, Outcomes]) -> ResultTable:
    """The tasks' scores alone, as boards have them."""
    values = np.stack([task.scores() for task in outcomes.values()], axis=1)
    models, names = next(iter(outcomes.values())).models, tuple(outcomes)
    metrics = tuple(Metric(name, name, "higher") for name in names)
    return ResultTable("made up", models, metrics, tuple(map(Benchmark, names)), values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="board; what was recorded of others is kept")
    parser.add_argument("--only", choices=("tied", "mixed"), help="boards of which all models are tied, or the others")
    options = parser.parse_args()
    recorded = earlier(Path(__file__).stem) if options.first or options.only else {}
    covered: dict[str, list[bool]] = {}
    width: dict[str, list[float]] = {}
    seconds = []

    def note(name: str, ranks: dict[str, tuple[int, int]], held: bool) -> None:
        covered.setdefault(name, []).append(held)
        width.setdefault(name, []).append(float(np.mean([last - first for first, last in ranks.values()])))

    def ranks_of(ranked: Ranking) -> dict[str, tuple[int, int]]:
        return {place.model: (place.first, place.last) for place in ranked.places}

    for seed in range(options.first, options.first + options.boards):
        generator = np.random.default_rng(seed)
        means, equal = truth(generator), np.zeros(MODELS)
        level, level_items = board(generator, equal), item_board(generator, equal)[0]
        if options.only != "mixed":
            tied = rank_models(level, resamples=1000, seed=seed)
            note("tasks, all models tied", ranks_of(tied), tied.decided == 0)
            tied = rank_outcomes(level_items, resamples=1000, seed=seed)
            note("items, all models tied", ranks_of(tied), tied.decided == 0)
        if options.only == "tied":
            continue
        table = board(generator, means)
        start = time.perf_counter()
        ranks = ranks_of(rank_models(table, resamples=1000, seed=seed))
        seconds.append(time.perf_counter() - start)
        note("tasks", ranks, holds(ranks, means))
        bootstrap = by_tasks(table.values, generator, 0.05)
        note("tasks, percentile bootstrap of each model", bootstrap, holds(bootstrap, means))
        outcomes, share = item_board(generator, means)
        ranks = ranks_of(rank_outcomes(outcomes, resamples=1000, seed=seed))
        note("items", ranks, holds(ranks, share))
        scores = scores_table(outcomes)
        ranks = ranks_of(rank_models(scores, resamples=1000, seed=seed))
        note("items' boards by tasks, simultaneous", ranks, holds(ranks, share))
        for name, alpha in (("of each model", 0.05), ("by Bonferroni", 0.05 / MODELS)):
            bootstrap = by_tasks(scores.values, generator, alpha)
            note(f"items' boards by tasks, percentile bootstrap {name}", bootstrap, holds(bootstrap, share))
    boards, coverage, places = "boards", "coverage", "places in an interval beyond one, mean"
    result = {key: recorded.get(key, {}) for key in (boards, coverage, places)}
    for name, holding in covered.items():
        before = result[boards].get(name, 0)
        result[boards][name] = before + len(holding)
        for figure, values in ((coverage, holding), (places, width[name])):
            total = before * result[figure].get(name, 0.0) + float(np.sum(values))
            result[figure][name] = round(total / result[boards][name], 4)
    time_key = "median seconds of 20 x 31, 1,000 draws"
    speed = round(float(np.median(seconds)), 3) if seconds else recorded.get(time_key)
    record(Path(__file__).stem, {"models": MODELS, "tasks": TASKS, **result, time_key: speed})


if __name__ == "__main__":
    main()

"""Coverage of simultaneous rank intervals on simulated boards, and their width beside a bootstrap over tasks.

    python packages/eevee/benchmarks/ranks.py [--boards 1000]

`tasks`: 20 models on 31 tasks whose true means are partly tied; a model's score on a task is its mean, what the task
shares with neighbouring models, and noise. An interval of all ranks covers where it holds every true rank (tied models
may have any of their places); where all models are tied, nothing may be decided. `items`: the same means as shares of
right answers on 10 fixed tasks of 200 items; the truth is the mean over these tasks. Beside them stand plain 95 %
percentile intervals of each model's rank, by resampling tasks, as boards often have them, on the same boards.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from _setting import record

from eevee import Benchmark, Metric, Outcomes, ResultTable, rank_models, rank_outcomes

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


def by_tasks(values: np.ndarray, generator: np.random.Generator) -> dict[str, tuple[int, int]]:
    """Percentile intervals of each rank, tasks resampled."""
    rows = generator.integers(0, values.shape[1], (500, values.shape[1]))
    ranks = np.argsort(np.argsort(-values[:, rows].mean(2), axis=0), axis=0) + 1
    low, high = np.quantile(ranks, [0.025, 0.975], axis=1, method="closest_observation")
    return {f"m{number:02}": (int(low[number]), int(high[number])) for number in range(len(values))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=1000)
    options = parser.parse_args()
    covered = {"tasks": 0, "tasks, all models tied": 0, "items": 0, "percentile over tasks": 0}
    width: dict[str, list[float]] = {"tasks": [], "items": [], "percentile over tasks, of the items' boards": []}
    seconds = []
    for seed in range(options.boards):
        generator = np.random.default_rng(seed)
        means = truth(generator)
        table = board(generator, means)
        start = time.perf_counter()
        ranked = rank_models(table, resamples=1000, seed=seed)
        seconds.append(time.perf_counter() - start)
        places = {place.model: (place.first, place.last) for place in ranked.places}
        covered["tasks"] += holds(places, means)
        tied = rank_models(board(generator, np.zeros(MODELS)), resamples=1000, seed=seed)
        covered["tasks, all models tied"] += tied.decided == 0
        covered["percentile over tasks"] += holds(by_tasks(table.values, generator), means)
        width["tasks"].append(np.mean([last - first for first, last in places.values()]))
        hard = generator.normal(0, 0.7, (10, 1))
        shares = 1 / (1 + np.exp(-(2 * means[None] + hard)))
        outcomes = {
            f"t{task}": Outcomes(
                f"t{task}", table.models, tuple(map(str, range(200))),
                (generator.random((MODELS, 200)) < shares[task][:, None]).astype(float),
            )
            for task in range(10)
        }  # fmt: skip
        of_items = rank_outcomes(outcomes, resamples=1000, seed=seed)
        places = {place.model: (place.first, place.last) for place in of_items.places}
        covered["items"] += holds(places, shares.mean(0))
        width["items"].append(np.mean([last - first for first, last in places.values()]))
        values = np.stack([one.scores() for one in outcomes.values()], axis=1)
        plain = by_tasks(values, generator)
        width["percentile over tasks, of the items' boards"].append(
            np.mean([last - first for first, last in plain.values()])
        )
    found = {
        "boards": options.boards,
        "models": MODELS,
        "tasks": TASKS,
        "coverage": {name: count / options.boards for name, count in covered.items()},
        "places in an interval beyond one, mean": {name: float(np.mean(values)) for name, values in width.items()},
        "median seconds of 20 x 31, 1,000 draws": float(np.median(seconds)),
    }
    print(json.dumps(found, indent=1))
    record(Path(__file__).stem, found)


if __name__ == "__main__":
    main()

"""How near the searchers come to the exhaustive ridge optimum, k = 8 on the shipped table (5.85 million subsets)."""

from __future__ import annotations

import time

from _setting import record, stop

from eevee import RidgeScorer, load_table
from eevee.searching.search import Evaluator, search
from eevee.searching.space import Constraints, Space
from eevee.tables.standard import standardise


def main() -> None:
    table = load_table("gate")
    data = standardise(table)
    space = Space(table, Constraints(k=8))
    results, seconds = {}, {}
    for method in ("exhaustive", "evolution", "greedy-swap", "greedy", "random"):
        start, clock = time.perf_counter(), time.process_time()
        results[method] = search(method, Evaluator(RidgeScorer(), data), space, seed=0)
        seconds[method] = (round(time.perf_counter() - start, 2), round(time.process_time() - clock, 2))
        print(method, results[method].error, *seconds[method], flush=True)
    best = results["exhaustive"].error
    if any(result.error < best - 1e-12 for result in results.values()):
        stop("a searcher found a lower error than the exhaustive search")
    seeds = [search("evolution", Evaluator(RidgeScorer(), data), space, seed=s).error / best - 1 for s in range(5)]
    record(
        "optimum",
        {
            "k": 8,
            "subsets": results["exhaustive"].asked,
            "optimum": best,
            "benchmarks": [table.benchmark_ids[i] for i in results["exhaustive"].best],
            "above_optimum": {method: round(result.error / best - 1, 5) for method, result in results.items()},
            "evolution_over_5_seeds": [round(gap, 5) for gap in seeds],
            "asked": {method: result.asked for method, result in results.items()},
            "seconds_wall_and_processor": seconds,
        },
    )


if __name__ == "__main__":
    main()

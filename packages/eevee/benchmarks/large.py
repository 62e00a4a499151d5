"""A table of 500 models and 200 benchmarks with 20 % of the cells missing: `select` with k = 12, everything on.

Checks first that the masked closed form equals refitting, on a few models of this very table.
"""

from __future__ import annotations

import time

import numpy as np
from _setting import record, stop

from eevee import Benchmark, Metric, ResultTable, select
from eevee.scorers.bordered import algebra_threads
from eevee.scorers.ridge import held_out_residuals
from eevee.tables.standard import standardise


def table(models: int = 500, benchmarks: int = 200, missing: float = 0.2) -> ResultTable:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(models, 8)) @ generator.normal(size=(8, benchmarks))
    values += generator.normal(size=values.shape)
    values[generator.random(values.shape) < missing] = np.nan
    names = [f"b{i}" for i in range(benchmarks)]
    return ResultTable(
        f"{models} x {benchmarks}",
        tuple(f"m{i}" for i in range(models)),
        tuple(Metric(name, name, "higher") for name in names),
        tuple(Benchmark(name) for name in names),
        values,
    )


def check(results: ResultTable) -> None:
    data = standardise(results)
    chosen = (3, 50, 120)
    ours = held_out_residuals(data, [chosen])[0]
    for i, t in ((0, 7), (3, 100), (400, 199)):
        rows = [j for j in range(len(results.models)) if j != i and data.mask[j, t]]
        x = np.column_stack([data.values[np.ix_(rows, chosen)], np.ones(len(rows))])
        penalty = np.diag([1.0] * 3 + [1e-9])
        coefficients = np.linalg.solve(x.T @ x + penalty, x.T @ data.values[rows, t])
        want = np.append(data.values[i, list(chosen)], 1.0) @ coefficients - data.values[i, t]
        if data.mask[i, t] and abs(want - ours[i, t]) > 1e-9:
            stop(f"model {i}, metric {t}: {ours[i, t]} and {want}")


def main() -> None:
    results = table()
    check(results)
    start, clock = time.perf_counter(), time.process_time()
    chosen = select(
        results, 12, progress=lambda *report: print(f"{time.perf_counter() - start:7.1f} s ", *report, flush=True)
    )
    assert chosen.nested is not None
    record(
        "large",
        {
            "table": results.name,
            "missing": 0.2,
            "k": 12,
            "threads": algebra_threads(),
            "seconds": round(time.perf_counter() - start, 1),
            "processor_seconds": round(time.process_time() - clock, 1),
            "search_seconds": round(chosen.seconds, 1),
            "scored": chosen.scored,
            "error": chosen.error,
            "greedy_swap": chosen.rival.error,
            "better_randoms": chosen.better_randoms,
            "held_out": chosen.nested.outer,
            "wins": f"{chosen.nested.wins} of {chosen.nested.models}",
            "nested_method": chosen.nested.method,
        },
    )


if __name__ == "__main__":
    main()

"""Time and memory: `check` and `select` on 10,000 models x 50 metrics, and 1,000 candidates by the Gaussian process."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _setting import record
from threadpoolctl import threadpool_limits

from eevee import Benchmark, GpScorer, Metric, ResultTable, select, standardise
from eevee.searching.space import Constraints, Space


def made(models, metrics, missing, seed=0):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(models, 6)) @ generator.normal(size=(6, metrics))
    values += generator.normal(size=values.shape)
    gaps = generator.random(values.shape) < missing
    gaps[:, 0] = False
    values[gaps] = np.nan
    ids = [f"b{j}" for j in range(metrics)]
    return ResultTable(
        f"{models} x {metrics}",
        tuple(f"m{i}" for i in range(models)),
        tuple(Metric(key, key, "higher") for key in ids),
        tuple(map(Benchmark, ids)),
        values,
    )


def checked(table):
    """Processor seconds and highest memory of the command, in a process of its own, reading included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        rows = [
            ["model", *table.metric_ids],
            *([m, *v] for m, v in zip(table.models, table.values.tolist(), strict=True)),
        ]
        path.write_text("\n".join(",".join("" if c != c else str(c) for c in row) for row in rows) + "\n")
        command = "import sys, time; from pathlib import Path; from eevee.cli import main; main(sys.argv[1:]); "
        command += "print(time.process_time(), Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
        words = [sys.executable, "-c", command, "check", "--table", str(path), "--direction", "higher"]
        figures = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
    return {"processor_seconds": round(float(figures[0]), 2), "peak_megabytes": round(int(figures[1]) / 1024)}


def selected(table):
    """Seconds of a default search for eight, its held-out comparison and learning curve included, on two threads."""
    start, clock = time.perf_counter(), time.process_time()
    chosen = select(table, 8)
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - clock, 1),
        "scored": chosen.scored,
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    threadpool_limits(1)
    result: dict[str, object] = {}
    for missing in (0.0, 0.1):
        result[f"eevee check of a file of 10,000 x 50, {missing:.0%} missing"] = checked(made(10_000, 50, missing))
    table = made(121, 38, 0.0)
    space, generator = Space(table, Constraints(k=8)), random.Random(0)
    candidates = [space.draw(generator) for _ in range(1000)]
    data = standardise(table)
    clock = time.process_time()
    GpScorer().score(data, candidates)
    result["gp, 1,000 candidates of k = 8 on 121 x 38"] = round(time.process_time() - clock, 2)
    threadpool_limits(2)
    result["select, 10,000 x 50, 10% missing, k = 8"] = selected(made(10_000, 50, 0.1))
    record("scale", result)


if __name__ == "__main__":
    main()

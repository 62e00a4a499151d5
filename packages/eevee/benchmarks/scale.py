"""Processor seconds and memory: `check` on 10,000 models x 50 metrics, and 1,000 candidates by the Gaussian process."""

from __future__ import annotations

import random
import resource
import time

import numpy as np
import torch
from _setting import record

from eevee import Benchmark, Constraints, GpScorer, Metric, ResultTable, Space, check, group_twins, standardise


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


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    for missing in (0.0, 0.1):
        table = made(10_000, 50, missing)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clock = time.process_time()
        check(group_twins(table))
        result[f"check of 10,000 x 50, {missing:.0%} missing"] = {
            "processor_seconds": round(time.process_time() - clock, 2),
            "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "megabytes_before": round(before / 1024),
        }
    table = made(121, 38, 0.0)
    space, generator = Space(table, Constraints(k=8)), random.Random(0)
    candidates = [space.draw(generator) for _ in range(1000)]
    data = standardise(table)
    clock = time.process_time()
    GpScorer().score(data, candidates)
    result["gp, 1,000 candidates of k = 8 on 121 x 38"] = round(time.process_time() - clock, 2)
    record("scale", result)


if __name__ == "__main__":
    main()

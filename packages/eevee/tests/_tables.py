"""Small tables for tests."""

from __future__ import annotations

import numpy as np

from eevee import Benchmark, Metric, ResultTable


def made_up(models=9, benchmarks=6, *, seed=0, missing=0.0, per_benchmark=1, costs=False, groups=()):
    """Three hidden abilities and noise; some cells missing, but no whole row or column."""
    generator = np.random.default_rng(seed)
    columns = benchmarks * per_benchmark
    values = generator.normal(size=(models, 3)) @ generator.normal(size=(3, columns))
    values += 0.3 * generator.normal(size=values.shape)
    if missing:
        gaps = generator.random(values.shape) < missing
        gaps[:4] = False
        gaps[:, 0] = False
        values[gaps] = np.nan
    metrics = tuple(
        Metric(
            f"b{i // per_benchmark}/m{i % per_benchmark}", f"b{i // per_benchmark}", "lower" if i % 3 == 2 else "higher"
        )
        for i in range(columns)
    )
    pool = tuple(
        Benchmark(f"b{i}", task=f"t{i % 3}", family=f"f{i // 2}", cost=1.0 + i if costs else None)
        for i in range(benchmarks)
    )
    names = tuple(f"m{i}" for i in range(models))
    return ResultTable("made up", names, metrics, pool, values, tuple(groups))

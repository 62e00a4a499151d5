"""The benchmarks that exist, and the packs that name several of them."""

from __future__ import annotations

from gate_runner.benchmarks.benchmark import Benchmark, DataRequest
from gate_runner.benchmarks.registry import BENCHMARKS, PACKS, all_benchmarks, find_benchmark, resolve

__all__ = [
    "BENCHMARKS",
    "PACKS",
    "Benchmark",
    "DataRequest",
    "all_benchmarks",
    "find_benchmark",
    "resolve",
]

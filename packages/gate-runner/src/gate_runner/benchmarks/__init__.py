"""The benchmarks that exist, and the packs that name several of them."""

from __future__ import annotations

from gate_data.request import DataRequest, SplitName
from gate_runner.benchmark import Benchmark
from gate_runner.benchmarks.registry import BENCHMARKS, PACKS, all_benchmarks
from gate_runner.benchmarks.resolving import find_benchmark, resolve

__all__ = [
    "BENCHMARKS",
    "PACKS",
    "Benchmark",
    "DataRequest",
    "SplitName",
    "all_benchmarks",
    "find_benchmark",
    "resolve",
]

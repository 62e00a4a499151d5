"""The benchmarks that exist, and the packs that name several of them."""

from __future__ import annotations

from gate_data.request import DataRequest as DataRequest
from gate_data.request import SplitName as SplitName
from gate_runner.benchmark import Benchmark
from gate_runner.benchmarks.registry import BENCHMARKS, PACKS
from gate_runner.benchmarks.registry import all_benchmarks as all_benchmarks
from gate_runner.benchmarks.resolving import find_benchmark as find_benchmark
from gate_runner.benchmarks.resolving import resolve as resolve

__all__ = ["BENCHMARKS", "PACKS", "Benchmark"]

"""A benchmark of one's own as a TOML file: read, checked, guessed from a folder, and run like any other."""

from __future__ import annotations

from gate_runner.own_data.guessing import guess, values_at, write_benchmark
from gate_runner.own_data.making import own_benchmark
from gate_runner.own_data.originals import originals_of
from gate_runner.own_data.reading import read_benchmark
from gate_runner.own_data.spec import OwnBenchmark

__all__ = ["OwnBenchmark", "guess", "originals_of", "own_benchmark", "read_benchmark", "values_at", "write_benchmark"]

"""Data of one's own: a TOML file that says what a folder holds, read, checked, and guessed from the folder."""

from __future__ import annotations

from gate_data.own.guessing import benchmark_text, guess, values_at, write_benchmark
from gate_data.own.originals import originals_from, originals_of
from gate_data.own.reading import read_benchmark
from gate_data.own.spec import Guess, OwnBenchmark
from gate_data.own.summary import summary

__all__ = [
    "Guess",
    "OwnBenchmark",
    "benchmark_text",
    "guess",
    "originals_from",
    "originals_of",
    "read_benchmark",
    "summary",
    "values_at",
    "write_benchmark",
]

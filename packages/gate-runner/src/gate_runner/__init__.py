"""Score a vision encoder on GATE's tasks: one command, or `run` from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gate_runner.__about__ import __version__

if TYPE_CHECKING:
    from gate_runner.benchmarks import BENCHMARKS, PACKS, Benchmark
    from gate_runner.encoders import load_encoder
    from gate_runner.runs import Result, RunRequest, run

_HOMES = {
    "BENCHMARKS": "gate_runner.benchmarks",
    "PACKS": "gate_runner.benchmarks",
    "Benchmark": "gate_runner.benchmarks",
    "Result": "gate_runner.runs",
    "RunRequest": "gate_runner.runs",
    "load_encoder": "gate_runner.encoders",
    "run": "gate_runner.runs",
}

__all__ = ["BENCHMARKS", "PACKS", "Benchmark", "Result", "RunRequest", "__version__", "load_encoder", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line must not wait for torch."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gate_runner' has no attribute {name!r}")

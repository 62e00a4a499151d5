"""Runs: a folder of results that the same command continues."""

from __future__ import annotations

from gate_runner.runs.execute import RunRequest, run
from gate_runner.runs.results import Result

__all__ = ["Result", "RunRequest", "run"]

"""Runs: a request, its parts, and a folder of results that the same command continues."""

from __future__ import annotations

from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

__all__ = ["Result", "RunRequest"]

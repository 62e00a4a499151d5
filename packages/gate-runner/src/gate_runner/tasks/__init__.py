"""Task types: how features of a frozen encoder become one score."""

from __future__ import annotations

from gate_runner.tasks.job import Job, Outcome, Progress, TaskScore
from gate_runner.tasks.run import run_task

__all__ = ["Job", "Outcome", "Progress", "TaskScore", "run_task"]

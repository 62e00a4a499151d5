"""Task types: how features of an encoder become one score."""

from __future__ import annotations

from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.registry import find_task_type, run_task, task_types
from gate_runner.tasks.task import Drawing, TaskType
from vision_adapters.progress import Progress

__all__ = ["Drawing", "Job", "Outcome", "Progress", "Score", "TaskType", "find_task_type", "run_task", "task_types"]

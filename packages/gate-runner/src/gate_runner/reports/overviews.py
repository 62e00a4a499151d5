"""What task types show of all their results together."""

from __future__ import annotations

from collections.abc import Sequence

from gate_data.imports import named
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type
from gate_runner.tasks.task import Overview


def overviews(runs: Sequence[StoredRun]) -> list[Overview]:
    """Of each task type that has one, tables and figures over all its results; those without a table are left out.

    Example:
        >>> overviews([])
        []
    """
    tasks = dict.fromkeys(result.task for run in runs for result in run.results)
    makers = [known_task_type(task).overview for task in tasks]
    shown: list[Overview] = [named(maker)(runs) for maker in makers if maker]
    return [maker for maker in shown if maker.tables]

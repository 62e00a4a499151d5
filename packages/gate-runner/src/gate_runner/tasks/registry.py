"""The task types that there are, of this package and of plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gate_runner.errors import UsageError, unknown
from gate_runner.plugins import with_plugins
from gate_runner.tasks.builtin import TASK_TYPES
from gate_runner.tasks.task import TaskType

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job, Outcome

ENTRY_POINTS = "gate_runner.tasks"
"""Entry-point group of plug-ins: each value is a `TaskType`, several, or a function that returns either."""


def task_types() -> dict[str, TaskType]:
    """The task types of this package and of plug-ins, by id, in the order in which reports show them.

    Example:
        >>> next(iter(task_types()))
        'image-classification'
    """
    return with_plugins(ENTRY_POINTS, TaskType, {one.id: one for one in TASK_TYPES})


def find_task_type(name: str) -> TaskType:
    """One task type by its id.

    Raises:
        UsageError: there is none; the message shows the nearest.

    Example:
        >>> find_task_type("few-shot").grows
        False
    """
    ours = {one.id: one for one in TASK_TYPES}
    known = ours if name in ours else task_types()
    if name not in known:
        raise unknown("task type", name, known)
    return known[name]


def known_task_type(name: str) -> TaskType:
    """The same for readers of stored results, to whom one whose plug-in is gone must stay readable."""
    try:
        return find_task_type(name)
    except UsageError:
        return TaskType(name, "unknown here", _gone)


def _gone(job: Job) -> Outcome:
    raise UsageError(f"the plug-in with the task type {job.benchmark.task!r} is not installed")

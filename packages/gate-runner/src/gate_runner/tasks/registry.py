"""The task types that there are, of this package and of plug-ins, and how a job is given to its own."""

from __future__ import annotations

from gate_data.imports import named
from gate_runner.errors import UsageError, unknown
from gate_runner.plugins import with_plugins
from gate_runner.tasks.builtin import TASK_TYPES
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.task import Run, TaskType

ENTRY_POINTS = "gate_runner.tasks"
"""Entry-point group of plug-ins: each value is a `TaskType`, several, or a function that returns either."""


def task_types() -> dict[str, TaskType]:
    """The task types of this package and of plug-ins, by id, in the order in which reports show them.

    Example:
        >>> next(iter(task_types()))
        'image-classification'
    """
    return with_plugins(ENTRY_POINTS, TaskType, {task.id: task for task in TASK_TYPES})


def find_task_type(name: str) -> TaskType:
    """One task type by its id.

    Raises:
        UsageError: there is none; the message shows the nearest.

    Example:
        >>> find_task_type("few-shot").grows
        False
    """
    ours = {task.id: task for task in TASK_TYPES}
    known_types = ours if name in ours else task_types()
    if name not in known_types:
        raise unknown("task type", name, known_types)
    return known_types[name]


def known_task_type(name: str) -> TaskType:
    """The same for readers of stored results, to whom one whose plug-in is gone must stay readable."""
    try:
        return find_task_type(name)
    except UsageError:
        return TaskType(name, "unknown here", _gone)


def _gone(job: Job) -> Outcome:
    raise UsageError(f"the plug-in with the task type {job.benchmark.task!r} is not installed")


def run_task(job: Job) -> Outcome:
    """Encode, fit the task's head, and score the test split once.

    Where the encoder is trained, too, its head begins where it ends on the frozen features, unless the recipe has it
    otherwise.

    Args:
        job: one benchmark, one encoder, one seed.

    Raises:
        UsageError: the encoder lacks what the task needs, or the data is too small for it.

    Example:
        >>> from gate_runner.benchmarks import BENCHMARKS, DataRequest
        >>> from vision_features.encoders import load_encoder
        >>> digits = BENCHMARKS["digits"]
        >>> data = digits.load("built-in", DataRequest(None, 40))
        >>> run_task(Job(load_encoder("micro-clip/random"), digits, data)).scores[0].metric
        'acc@1'
    """
    task = find_task_type(job.benchmark.task)
    run: Run = named(task.run)
    if job.training.get("readout") in ("auto", "all"):
        from gate_runner.tasks.readout_selection import choose_readout

        return choose_readout(job, run, task.readouts)
    return run(job)

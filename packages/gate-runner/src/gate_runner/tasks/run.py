"""From a job to its outcome."""

from __future__ import annotations

from gate_runner.imports import named
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.registry import find_task_type
from gate_runner.tasks.task import Run


def run_task(job: Job) -> Outcome:
    """Encode, fit the task's head, and score the test split once.

    Args:
        job: one benchmark, one encoder, one seed.

    Returns:
        Scores, per-sample outcomes and how the training went.

    Raises:
        UsageError: the encoder lacks what the task needs, or the data is too small for it.
    """
    run: Run = named(find_task_type(job.benchmark.task).run)
    return run(job)

"""From a job to its outcome."""

from __future__ import annotations

from gate_data.imports import named
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.registry import find_task_type
from gate_runner.tasks.task import Run


def run_task(job: Job) -> Outcome:
    """Encode, fit the task's head, and score the test split once.

    Where the encoder is trained, too, its head begins where it ends on the frozen features, unless the recipe has it
    otherwise.

    Args:
        job: one benchmark, one encoder, one seed.

    Returns:
        Scores, per-sample outcomes and how the training went.

    Raises:
        UsageError: the encoder lacks what the task needs, or the data is too small for it.

    Example:
        >>> from gate_runner.benchmarks import BENCHMARKS, DataRequest
        >>> from gate_runner.encoders import load_encoder
        >>> digits = BENCHMARKS["digits"]
        >>> data = digits.load("built-in", DataRequest(None, 40))
        >>> run_task(Job(load_encoder("micro-clip/random"), digits, data)).scores[0].metric
        'acc@1'
    """
    task = find_task_type(job.benchmark.task)
    run: Run = named(task.run)
    if job.training.get("readout") in ("auto", "all"):
        from gate_runner.tasks.reading import choose_readout

        return choose_readout(job, run, task.readouts)
    return run(job)

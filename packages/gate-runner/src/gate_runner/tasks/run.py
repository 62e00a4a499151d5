"""From a benchmark's task type to the function that runs it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from gate_runner.tasks.job import Job, Outcome

_FUNCTIONS = {
    "image-classification": "classification:run",
    "few-shot": "few_shot:run",
    "segmentation": "segmentation:run",
    "medical-segmentation": "segmentation:run_medical",
    "relational": "relational:run",
    "video-regression": "video:run",
    "pair-scoring": "pair_scoring:run",
    "zero-shot": "zero_shot:run",
    "entity-linking": "entity_linking:run",
}


def run_task(job: Job) -> Outcome:
    """Encode, fit the task's head, and score the test split once.

    Args:
        job: one benchmark, one encoder, one seed.

    Returns:
        Scores, per-sample outcomes and how the training went.

    Raises:
        UsageError: the encoder lacks what the task needs, or the data is too small for it.
    """
    module, _, function = _FUNCTIONS[job.benchmark.task].partition(":")
    run: Callable[[Job], Outcome] = getattr(importlib.import_module(f"gate_runner.tasks.{module}"), function)
    return run(job)

"""SLURM through submitit: one job for each part, as an array."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate_runner.errors import UsageError
from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.remote import compute, described, numbers_in, order, outcome_of, tell_started
from gate_runner.executors.slot import failed
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

_LOOK = 0.5
_DAY = 24 * 60
"""Minutes that a job asks for where neither an option nor a time limit says it."""


class PartJob:
    """A part as submitit calls it; a job that SLURM takes its node from is queued again and goes on from there."""

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute it."""
        return compute(values)

    def checkpoint(self, values: Mapping[str, Any]) -> Any:
        """Asked by submitit before a job is stopped: the same part again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, values)


class SlurmExecutor:
    """Submits parts as jobs. All nodes must have gate-runner installed, and see the run folder.

    Args:
        request: ``executor_options`` are submitit's parameters (``slurm_partition``, ``gpus_per_node``,
            ``cpus_per_task``, ``mem_gb``, ``timeout_min``, ``slurm_array_parallelism`` …), and ``cluster``:
            ``slurm``, or ``local`` and ``debug`` for trying without one.

    Raises:
        ImportError: submitit is not installed.
        UsageError: an option that submitit does not know, or SLURM is not there.
    """

    def __init__(self, request: RunRequest) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ImportError("--executor slurm needs submitit: pip install 'gate-runner[slurm]'") from error
        self.request = request
        self.failures = (submitit.core.utils.FailedJobError, submitit.core.utils.UncompletedJobError)
        options = numbers_in(request.settings.executor_options)
        cluster = options.pop("cluster", "slurm")
        limit, tries = request.settings.time_limit, request.settings.retries + 1
        minutes = _DAY if limit is None else math.ceil(limit * tries / 60) + 10
        try:
            self.executor = submitit.AutoExecutor(folder=request.output / "slurm" / "%j", cluster=cluster)
            self.executor.update_parameters(**{"timeout_min": minutes, "name": "gate-runner", **options})
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise UsageError(f"slurm: {' '.join(str(error).split())}") from error
        self.pending: list[tuple[Any, Part]] = []

    def open(self) -> Opening:
        """Describe the encoder on this machine."""
        self.opening = described(self.request)
        return self.opening

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Submit all parts, and hand on what comes back."""
        with self.executor.batch():
            jobs = [self.executor.submit(PartJob(), order(part, self.opening)) for part in parts]
        self.pending = list(zip(jobs, parts, strict=True))
        started: set[tuple[str, int]] = set()
        while self.pending:
            tell_started([part for _, part in self.pending], started, observer)
            over = [(job, part) for job, part in self.pending if job.done()]
            for job, part in over:
                self.pending.remove((job, part))
                yield self._outcome(job, part)
            if not over:
                time.sleep(_LOOK)

    def close(self) -> None:
        """Cancel what still runs."""
        for job, _ in self.pending:
            job.cancel()

    def _outcome(self, job: Any, part: Part) -> Result | Postponed:
        try:
            return outcome_of(part, job.result())
        except self.failures as error:
            lines = [line for line in str(error).splitlines() if line.strip(" -")]
            return failed(
                part, self.opening, f"its job {job.job_id} failed: {lines[-1].strip() if lines else 'no message'}"
            )

"""SLURM through submitit: one job for each part, as an array."""

from __future__ import annotations

import json
import math
import os
import platform
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gate_runner.errors import StorageError, UsageError, printable
from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.slot import Slot, failed
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

_LOOK = 0.5
_LOG_BYTES, _LOG_LETTERS = 4096, 200
"""How much of a job's log is read, and shown."""
_DAY = 24 * 60
"""Minutes that a job asks for where neither an option nor a time limit says it."""


class PartJob:
    """A part as submitit calls it; a job that SLURM takes its node from is queued again and goes on from there."""

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute a part on the job's machine, in a worker of its own."""
        part = Part.from_mapping(values["part"])
        if not part.folder.manifest_file.exists():
            raise StorageError(
                f"{part.output} holds no manifest.json on {platform.node()}: "
                "the run folder must lie on a file system that all nodes share"
            )
        opening = Opening(values["description"], {}, values["outputs"])
        part.folder.check(opening.identity(part.settings))
        slot = Slot(part.encoder, part.settings.device, directory=values["directory"])
        slot.opening = opening
        try:
            outcome = slot.run(part, lambda: None, lambda phase, done, total: None)
        finally:
            slot.close()
        if isinstance(outcome, Postponed):
            return {"busy": outcome.owner}
        return {"result": json.loads(outcome.to_json())}

    def checkpoint(self, values: Mapping[str, Any]) -> Any:
        """Asked by submitit before a job is stopped: the same part again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, values)


class SlurmExecutor:
    """Submits parts as jobs. All nodes must have gate-runner installed, and see the run folder.

    The request's ``executor_options`` are submitit's parameters (``slurm_partition``, ``gpus_per_node``,
    ``cpus_per_task``, ``mem_gb``, ``timeout_min``, ``slurm_array_parallelism`` …), and ``cluster``: ``slurm``, or
    ``local`` and ``debug`` for trying without one.
    """

    def __init__(self, request: RunRequest) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ImportError("--executor slurm needs submitit: pip install 'gate-runner[slurm]'") from error
        self.request = request
        self.failures = (submitit.core.utils.FailedJobError, submitit.core.utils.UncompletedJobError)
        os.environ["PYTHONSAFEPATH"] = "1"  # for jobs: python -m takes libraries from the working folder first
        jobs = RunFolder(request.output.absolute()).place("slurm")
        _refuse_in_scripts("output", str(jobs), "%")  # SLURM and submitit fill in what follows a %
        options = dict(request.settings.executor_options)
        for key, value in options.items():
            _refuse_in_scripts(f"executor_options {key}", value)
        cluster = options.pop("cluster", "slurm")
        limit, tries = request.settings.time_limit, request.settings.retries + 1
        minutes = _DAY if limit is None else math.ceil(limit * tries / 60) + 10
        try:
            self.executor = submitit.AutoExecutor(folder=_folder_of_jobs(jobs) / "%j", cluster=cluster)
            self.executor.update_parameters(
                **{
                    "timeout_min": minutes,
                    "name": "gate-runner",
                    **{key: _number(value) for key, value in options.items()},
                }
            )
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise UsageError(f"slurm: {' '.join(str(error).split())}") from error
        self.pending: list[tuple[Any, Part]] = []

    def open(self) -> Opening:
        """Load the encoder on this machine's CPU, in a process apart, to know whose results the folder will hold."""
        assert isinstance(self.request.encoder, str)
        slot = Slot(self.request.encoder, "cpu")
        try:
            self.opening = slot.open()
        finally:
            slot.close()
        return self.opening

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Submit all parts, and hand on what comes back."""
        with self.executor.batch():
            jobs = [self.executor.submit(PartJob(), self._order(part)) for part in parts]
        self.pending = list(zip(jobs, parts, strict=True))
        started: set[tuple[str, int]] = set()
        while self.pending:
            for _, part in self.pending:
                key = (part.name, part.seed)
                if key not in started and part.folder.lock_file(*key).exists():  # it has begun on some node
                    started.add(key)
                    observer.started(*key)
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

    def _order(self, part: Part) -> dict[str, Any]:
        """All that another machine needs for a part, JSON-ready."""
        return {
            "part": part.to_mapping(),
            "description": dict(self.opening.description),
            "outputs": dict(self.opening.outputs),
            "directory": os.getcwd(),  # noqa: PTH109 - text, for a module of the user's beside which the run started
        }

    def _outcome(self, job: Any, part: Part) -> Result | Postponed:
        try:
            answer = job.result()
        except self.failures as error:
            lines = [line for line in str(error).splitlines() if line.strip(" -")]
            reason = lines[-1].strip() if lines else "no message"
            log = _last_line((job.paths.stderr, job.paths.stdout))
            return failed(part, self.opening, f"its job {job.job_id} failed: {reason}{log and f' ({log})'}")
        if "busy" in answer:
            return Postponed(part.name, part.seed, str(answer["busy"]))
        return Result.from_mapping(answer["result"], part.name)


def _last_line(logs: Sequence[Path]) -> str:
    """The last line of the first log that holds one, as far as a table shows it."""
    for log in logs:
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
            if lines:
                return printable(lines[-1])[:_LOG_LETTERS]
    return ""


def _folder_of_jobs(jobs: Path) -> Path:
    """A new folder that nobody can have filled before: submitit believes the pickles that lie beside a job's log."""
    return jobs / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(8)}"


def _refuse_in_scripts(what: str, text: str, letters: str = "") -> None:
    """Refuse what cannot stand in a line of a batch script: a line break would begin a command."""
    if printable(text) != text or any(letter in text for letter in letters):
        without = f" or {letters}" if letters else ""
        raise UsageError(f"slurm: {what} is {text!r}: expected a text without control characters{without}")


def _number(text: str) -> int | float | str:
    """An option with a whole or decimal number as that number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

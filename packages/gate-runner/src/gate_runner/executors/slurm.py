"""SLURM through submitit: one job for each part, as an array."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.errors import StorageError, UsageError, printable
from gate_runner.executors import jobs
from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.slot import Slot, failed
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result
from wary_files.locks import held

_LOG = logging.getLogger(__name__)
_LOOK = 0.5
_SUBMITTING, _SHARED = 300.0, 15.0
"""Seconds that another submitter may take, and that a file of a job may need to be seen from another machine."""
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
        _leave_when_taken(slot)
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


def _leave_when_taken(slot: Slot) -> None:
    """Go at SLURM's SIGTERM, and leave no result behind: whether the job failed or runs again, SLURM says.

    One that only announces a preemption lets it go on, until submitit's signal or SLURM ends it.
    """
    if os.environ.get("SUBMITIT_EXECUTOR") != "slurm":
        return

    def leave(number: int, frame: object) -> None:
        if not jobs.taken(os.environ["SLURM_JOB_ID"]):
            return
        with suppress(OSError, AttributeError):
            os.killpg(slot.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


class _Awaited(NamedTuple):
    """A part whose job is waited for; ``job`` is None where another process submitted it."""

    part: Part
    number: str
    folder: Path
    job: Any
    since: float = 0.0

    @property
    def answer(self) -> Path:
        """The file that submitit writes at the end; nothing is read from another's."""
        return self.folder / f"{self.number}_0_result.pkl"


class SlurmExecutor:
    """Submits parts as jobs, but waits for those that a job of the same run folder computes already.

    All nodes must have gate-runner installed, and see the run folder.

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
        self.place = RunFolder(request.output.absolute()).place("slurm")
        _refuse_in_scripts("output", str(self.place), "%")  # SLURM and submitit fill in what follows a %
        options = dict(request.settings.executor_options)
        for key, value in options.items():
            _refuse_in_scripts(f"executor_options {key}", value)
        cluster = options.pop("cluster", "slurm")
        self.watch = jobs.Watch() if cluster == "slurm" else None
        limit, tries = request.settings.time_limit, request.settings.retries + 1
        minutes = _DAY if limit is None else math.ceil(limit * tries / 60) + 10
        self.options = {"timeout_min": minutes, "name": "gate-runner"}
        self.options |= {key: _number(value) for key, value in options.items()}
        if self.watch is not None:
            self.options["slurm_additional_parameters"] = {"requeue": True}  # what is preempted is queued again
            if shutil.which("srun") and not shutil.which("squeue"):
                raise UsageError("slurm: there is no program squeue here: expected the client programs of SLURM")
        self.cluster, self.submitit = cluster, submitit
        self._prepare()
        self.pending: list[_Awaited] = []

    def _prepare(self) -> None:
        """Make a submitter with a folder of its own, for one array of jobs."""
        self.folder = _folder_of_jobs(self.place)
        try:
            self.executor = self.submitit.AutoExecutor(folder=self.folder / "%j", cluster=self.cluster)
            self.executor.update_parameters(**self.options)
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise UsageError(f"slurm: {' '.join(str(error).split())}") from error

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
        """Submit the parts that no job of the folder computes, and hand on what comes back."""
        with held(self.place / ".submitting", wait=_SUBMITTING):
            self.pending = self._running(parts)
            keys = {(awaited.part.name, awaited.part.seed) for awaited in self.pending}
            self.pending += self._submit([part for part in parts if (part.name, part.seed) not in keys])
        started: set[tuple[str, int]] = set()
        while self.pending:
            for awaited in self.pending:
                key = (awaited.part.name, awaited.part.seed)
                if key not in started and awaited.part.folder.lock_file(*key).exists():  # it has begun on some node
                    started.add(key)
                    observer.started(*key)
            over = self._over()
            for awaited, job in over:
                self.pending.remove(awaited)
                yield self._outcome(awaited, job)
            if not over:
                time.sleep(_LOOK)

    def close(self) -> None:
        """Cancel what this process submitted and still runs; jobs that it only waits for are another's."""
        for awaited in self.pending:
            if awaited.job is not None:
                awaited.job.cancel(check=False)

    def leave(self) -> None:
        """Let jobs go on when this process is told to end (SIGTERM): who submits next waits for them."""
        count = sum(awaited.job is not None for awaited in self.pending)
        self.pending = []
        if count:
            _LOG.warning("%d jobs of %s go on in SLURM; the same command waits for them", count, self.place.parent)

    def _running(self, parts: Sequence[Part]) -> list[_Awaited]:
        """Those parts that jobs compute which SLURM knows to be of this run folder."""
        if self.watch is None or not self.watch.look(now=True):
            return []
        running = jobs.of_folder(self.watch.jobs, self.place)
        both = [(part, running.get((part.name, part.seed))) for part in parts]
        now = time.time()
        return [
            _Awaited(part, job.id, Path(job.script).parent / job.id, None, now) for part, job in both if job is not None
        ]

    def _submit(self, parts: Sequence[Part]) -> list[_Awaited]:
        if not parts:
            return []
        if self.folder.exists():  # of a submission before
            self._prepare()
        jobs.note_parts(self.folder, [(part.name, part.seed) for part in parts])
        try:
            with self.executor.batch():
                submitted = [self.executor.submit(PartJob(), self._order(part)) for part in parts]
        except (self.submitit.core.utils.FailedSubmissionError, *self.failures, subprocess.SubprocessError) as error:
            lines = [line for line in str(error).splitlines() if line.strip(" -")]
            message = next((line for line in lines if "sbatch: error" in line), lines[-1] if lines else "no message")
            raise UsageError(f"slurm takes no job: {printable(message.strip())}") from error
        return [_Awaited(part, job.job_id, job.paths.folder, job) for job, part in zip(submitted, parts, strict=True)]

    def _over(self) -> list[tuple[_Awaited, jobs.Job | None]]:
        """What came back or will not, with what SLURM says of a job that left no answer."""
        if self.watch is None:
            return [(awaited, None) for awaited in self.pending if awaited.job.done()]
        over: list[tuple[_Awaited, jobs.Job | None]] = []
        waiting = list[_Awaited]()
        for awaited in self.pending:
            if awaited.answer.exists():
                over.append((awaited, None))
            else:
                waiting.append(awaited)
        ended = self.watch.ended([awaited.number for awaited in waiting])
        return over + [(awaited, ended[awaited.number]) for awaited in waiting if awaited.number in ended]

    def _order(self, part: Part) -> dict[str, Any]:
        """All that another machine needs for a part, JSON-ready."""
        return {
            "part": part.to_mapping(),
            "description": dict(self.opening.description),
            "outputs": dict(self.opening.outputs),
            "directory": os.getcwd(),  # noqa: PTH109 - text, for a module of the user's beside which the run started
        }

    def _outcome(self, awaited: _Awaited, job: jobs.Job | None) -> Result | Postponed:
        part = awaited.part
        if job is not None and job.state == "COMPLETED":
            _await(awaited.answer)
        if awaited.job is None or (self.watch is not None and not awaited.answer.exists()):
            return self._left(awaited, job)
        try:
            answer = awaited.job.result()
        except self.failures as error:
            lines = [line for line in str(error).splitlines() if line.strip(" -")]
            reason = lines[-1].strip() if lines else "no message"
            return self._failed(awaited, reason)
        if "busy" in answer:
            return Postponed(part.name, part.seed, str(answer["busy"]))
        return Result.from_mapping(answer["result"], part.name)

    def _left(self, awaited: _Awaited, job: jobs.Job | None) -> Result | Postponed:
        """What a job left in the run folder, from which no answer comes."""
        part = awaited.part
        result = part.finished()
        if result is not None:
            return result
        path = part.folder.result_file(part.name, part.seed)
        if awaited.job is None and path.exists() and path.stat().st_mtime >= awaited.since:
            result = Result.from_file(path)
            if result.status == "failed":
                return result
            return Postponed(part.name, part.seed, f"job {awaited.number}")  # it kept less than is asked for here
        return self._failed(
            awaited, (job and job.over) or "it ended without a result", 0.0 if job is None else job.seconds
        )

    def _failed(self, awaited: _Awaited, reason: str, seconds: float = 0.0) -> Result | Postponed:
        stem = awaited.folder / f"{awaited.number}_0_log"
        log = _last_line((stem.with_suffix(".err"), stem.with_suffix(".out")))
        text = f"its job {awaited.number} failed: {reason}{log and f' ({log})'}"
        return failed(awaited.part, self.opening, text, seconds)


def _await(path: Path) -> None:
    """Give a file that another machine wrote the time to be seen here."""
    end = time.monotonic() + _SHARED
    while not path.exists() and time.monotonic() < end:
        with suppress(OSError):
            path.parent.chmod(path.parent.stat().st_mode)  # a network's file system looks again
        time.sleep(_LOOK)


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

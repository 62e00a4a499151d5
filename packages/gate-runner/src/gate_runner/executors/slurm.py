"""SLURM through submitit: one job for each unit, as an array."""

from __future__ import annotations

import io
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
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.errors import StorageError, UsageError, printable
from gate_runner.executors import jobs
from gate_runner.executors.executor import EncoderInfo, LockedElsewhere
from gate_runner.executors.worker_process import WorkerProcess, failed
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit
from wary_files.locks import held

_LOG = logging.getLogger(__name__)
_LOOK = 0.5
_SUBMITTING, _SHARED = 300.0, 15.0
"""Seconds that another submitter may take, and that a file of a job may need to be seen from another machine."""
_LOG_BYTES, _LOG_LETTERS = 4096, 200
"""How much of a job's log is read, and shown."""
_TOO_OFTEN = "timed-out too many times"
"""What submitit raises in a job that it has queued again three times shortly before SLURM's time limit."""
_TASKS = ("nodes", "tasks_per_node", "ntasks_per_node", "ntasks")
"""Options by which a job has several tasks."""
_MINUTES = ("timeout_min",)
_SAFE = "PYTHONSAFEPATH"
_DAY = 24 * 60
"""Minutes that a job asks for where neither an option nor a time limit says it."""


@contextmanager
def safe_imports() -> Iterator[None]:
    """Let jobs import nothing of the working folder, from which ``python -m`` takes libraries first."""
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE)
        if before is not None:
            os.environ[_SAFE] = before


class UnitJob:
    """A unit as submitit calls it; a job that SLURM takes its node from is queued again and goes on from there."""

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute a unit on the job's machine, in a worker of its own."""
        unit = EvalUnit.from_mapping(values["unit"])
        if not unit.folder.manifest_file.exists():
            raise StorageError(
                f"{unit.output} holds no manifest.json on {platform.node()}: "
                "the run folder must lie on a file system that all nodes share"
            )
        opening = EncoderInfo(values["description"], {}, values["outputs"])
        unit.folder.check(opening.identity(unit.settings))
        slot = WorkerProcess(unit.encoder, unit.settings.device, directory=values["directory"])
        slot.opening = opening
        _leave_when_taken(slot)
        try:
            outcome = slot.run(unit, lambda: None, lambda phase, done, total: None)
        finally:
            slot.close()
        if isinstance(outcome, LockedElsewhere):
            return {"busy": outcome.owner}
        return {"result": json.loads(outcome.to_json())}

    def checkpoint(self, values: Mapping[str, Any]) -> Any:
        """Asked by submitit before a job is stopped: the same unit again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, values)


def _leave_when_taken(slot: WorkerProcess) -> None:
    """Go at SLURM's SIGTERM, and leave no result behind: whether the job failed or runs again, SLURM says.

    One that only announces a preemption lets it go on, until submitit's signal or SLURM ends it.
    """
    if os.environ.get("SUBMITIT_EXECUTOR") != "slurm":
        return

    def leave(number: int, frame: object) -> None:
        if not jobs.taken(os.environ):
            return
        with suppress(OSError, AttributeError):
            os.killpg(slot.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


class _Awaited(NamedTuple):
    """A unit whose job is waited for; ``job`` is None where another process submitted it."""

    unit: EvalUnit
    number: str
    folder: Path
    job: Any
    since: float = 0.0

    @property
    def answer(self) -> Path:
        """The file that submitit writes at the end; nothing is read from another's."""
        return self.folder / f"{self.number}_0_result.pkl"


class SlurmExecutor:
    """Submits units as jobs, but waits for those that a job of the same run folder computes already.

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
        self.place = RunFolder(request.output.absolute()).place("slurm")
        _refuse_in_scripts("output", str(self.place), "%")  # SLURM and submitit fill in what follows a %
        options = dict(request.settings.executor_options)
        for key, value in options.items():
            _refuse_in_scripts(f"executor_options {key}", value)
            _refuse_of_several(key, value)
        cluster = options.pop("cluster", "slurm")
        self.watch = jobs.Watch() if cluster == "slurm" else None
        limit, tries = request.settings.time_limit, request.settings.retries + 1
        minutes = _DAY if limit is None else math.ceil(limit * tries / 60) + 10
        self.options = {"timeout_min": minutes, "name": "gate-runner"}
        self.options |= {key: _number(value) for key, value in options.items()}
        if self.watch is not None:
            self.options["slurm_additional_parameters"] = {"requeue": True}  # what is preempted is queued again
            if shutil.which("srun"):  # without it submitit says what is missing
                jobs.refuse_without_slurm(options.get("slurm_partition", ""))
        self.cluster, self.submitit = cluster, submitit
        self._prepare()
        self.pending: list[_Awaited] = []

    def _prepare(self) -> None:
        """Make a submitter with a folder of its own, for one array of jobs."""
        self.folder = _folder_of_jobs(self.place)
        try:
            self.executor = self.submitit.AutoExecutor(folder=self.folder / "%j", cluster=self.cluster)
            self.executor.update_parameters(**self.options)
        except (RuntimeError, ValueError, NameError, TypeError, AssertionError) as error:
            raise UsageError(f"slurm: {' '.join(str(error).split())}") from error

    def open(self) -> EncoderInfo:
        """Load the encoder on this machine's CPU, in a process apart, to know whose results the folder will hold."""
        assert isinstance(self.request.encoder, str)
        slot = WorkerProcess(self.request.encoder, "cpu")
        try:
            self.opening = slot.open()
        finally:
            slot.close()
        return self.opening

    def run(self, units: Sequence[EvalUnit], observer: Observer) -> Iterator[Result | LockedElsewhere]:
        """Submit the units that no job of the folder computes, and hand on what comes back."""
        with held(self.place / ".submitting", wait=_SUBMITTING):
            self.pending = self._running(units)
            keys = {(awaited.unit.name, awaited.unit.seed) for awaited in self.pending}
            self.pending += self._submit([unit for unit in units if (unit.name, unit.seed) not in keys])
        started: set[tuple[str, int]] = set()
        while self.pending:
            for awaited in self.pending:
                key = (awaited.unit.name, awaited.unit.seed)
                if key not in started and awaited.unit.folder.lock_file(*key).exists():  # it has begun on some node
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

    def _running(self, units: Sequence[EvalUnit]) -> list[_Awaited]:
        """Those units that jobs compute which SLURM knows to be of this run folder."""
        if self.watch is None or not self.watch.look(now=True):
            return []
        running = jobs.of_folder(self.watch.jobs, self.place)
        both = [(unit, running.get((unit.name, unit.seed))) for unit in units]
        now = time.time()
        return [
            _Awaited(unit, job.id, Path(job.script).parent / job.id, None, now) for unit, job in both if job is not None
        ]

    def _submit(self, units: Sequence[EvalUnit]) -> list[_Awaited]:
        if not units:
            return []
        if self.folder.exists():  # of a submission before
            self._prepare()
        jobs.note_parts(self.folder, [(unit.name, unit.seed) for unit in units])
        try:
            # submitit prints what it also raises
            with redirect_stderr(io.StringIO()), safe_imports(), self.executor.batch():
                submitted = [self.executor.submit(UnitJob(), self._order(unit)) for unit in units]
        except (self.submitit.core.utils.FailedSubmissionError, *self.failures, subprocess.SubprocessError) as error:
            raise UsageError(f"slurm takes no job: {jobs.message(str(error))}") from error
        return [_Awaited(unit, job.job_id, job.paths.folder, job) for job, unit in zip(submitted, units, strict=True)]

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

    def _order(self, unit: EvalUnit) -> dict[str, Any]:
        """All that another machine needs for a unit, JSON-ready."""
        return {
            "unit": unit.to_mapping(),
            "description": dict(self.opening.description),
            "outputs": dict(self.opening.outputs),
            "directory": os.getcwd(),  # noqa: PTH109 - text, for a module of the user's beside which the run started
        }

    def _outcome(self, awaited: _Awaited, job: jobs.Job | None) -> Result | LockedElsewhere:
        unit = awaited.unit
        if job is not None and job.state == "COMPLETED":
            _await(awaited.answer)
        if awaited.job is None or (self.watch is not None and not awaited.answer.exists()):
            return self._left(awaited, job)
        try:
            answer = awaited.job.result()
        except self.failures as error:
            return self._failed(awaited, _reason(str(error)), self._seconds(awaited.number))
        if "busy" in answer:
            return LockedElsewhere(unit.name, unit.seed, str(answer["busy"]))
        return Result.from_mapping(answer["result"], unit.name)

    def _left(self, awaited: _Awaited, job: jobs.Job | None) -> Result | LockedElsewhere:
        """What a job left in the run folder, from which no answer comes."""
        unit = awaited.unit
        result = unit.finished()
        if result is not None:
            return result
        path = unit.folder.result_file(unit.name, unit.seed)
        if awaited.job is None and path.exists() and path.stat().st_mtime >= awaited.since:
            result = Result.from_file(path)
            if result.status == "failed":
                return result
            return LockedElsewhere(unit.name, unit.seed, f"job {awaited.number}")  # it kept less than is asked for here
        return self._failed(
            awaited, (job and job.over) or "it ended without a result", 0.0 if job is None else job.seconds
        )

    def _seconds(self, number: str) -> float:
        """How long a job ran, as SLURM says after its end."""
        if self.watch is None:
            return 0.0
        self.watch.look(now=True)
        job = self.watch.jobs.get(number)
        return 0.0 if job is None else job.seconds

    def _failed(self, awaited: _Awaited, reason: str, seconds: float = 0.0) -> Result | LockedElsewhere:
        stem = awaited.folder / f"{awaited.number}_0_log"
        log = _last_line((stem.with_suffix(".err"), stem.with_suffix(".out")))
        text = f"its job {awaited.number} failed: {reason}{f' ({log})' if log and log not in reason else ''}"
        return failed(awaited.unit, self.opening, text, seconds)


def _reason(text: str) -> str:
    """The error itself out of what submitit tells of it: a traceback between rules, then the paths of the logs."""
    if _TOO_OFTEN in text:
        return "it reached SLURM's time limit again and again (executor_options timeout_min)"
    rows = text.split("\n")
    rules = [number for number, row in enumerate(rows) if row.startswith("---")]
    inside = rows[rules[0] + 1 : rules[1]] if len(rules) > 1 else rows
    lines = [line for line in inside if line.strip()]
    return printable(lines[-1].strip()) if lines else "no message"


def _await(path: Path) -> None:
    """Give a file that another machine wrote the time to be seen here."""
    end = time.monotonic() + _SHARED
    while not path.exists() and time.monotonic() < end:
        with suppress(OSError):
            path.parent.chmod(path.parent.stat().st_mode)  # a network's file system looks again
        time.sleep(_LOOK)


def _last_line(logs: Sequence[Path]) -> str:
    """The last line of the first log that holds one, as far as a table shows it; srun's own only if it stands alone."""
    for log in logs:
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LOG_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
            if lines:
                last = next((line for line in reversed(lines) if not line.startswith("srun: ")), lines[-1])
                return printable(last)[:_LOG_LETTERS]
    return ""


def _folder_of_jobs(jobs: Path) -> Path:
    """A new folder that nobody can have filled before: submitit believes the pickles that lie beside a job's log."""
    return jobs / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(8)}"


def _refuse_in_scripts(what: str, text: str, letters: str = "") -> None:
    """Refuse what cannot stand in a line of a batch script: a line break would begin a command."""
    if printable(text) != text or any(letter in text for letter in letters):
        without = f" or {letters}" if letters else ""
        raise UsageError(f"slurm: {what} is {text!r}: expected a text without control characters{without}")


def _refuse_of_several(key: str, value: str) -> None:
    """Refuse jobs of several tasks, each of which would compute the unit, and those without time."""
    if key.removeprefix("slurm_") in _TASKS and value != "1":
        raise UsageError(f"slurm: executor_options {key} is {value!r}: expected 1, for a job computes one benchmark")
    number = _number(value) if key in _MINUTES else 1
    if isinstance(number, str) or not 0 < number < math.inf:
        raise UsageError(f"slurm: executor_options {key} is {value!r}: expected minutes above 0")


def _number(text: str) -> int | float | str:
    """An option with a whole or decimal number as that number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

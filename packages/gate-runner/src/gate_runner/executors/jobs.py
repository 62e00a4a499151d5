"""What SLURM says of the user's jobs, and which of them compute units of a run folder.

SLURM alone says which jobs there are: a run folder may be a stranger's, and what lies in it names no job. ``squeue``
answers without an accounting database, also for some minutes about jobs that are over.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gate_runner.errors import UsageError, printable
from wary_files.folders import write
from wary_files.limits import refuse_special

_LOG = logging.getLogger(__name__)
_PARTS = "parts.json"
_FIRST, _LAST = 2.0, 30.0
"""Seconds between two questions to SLURM, growing from the first to the last: many share its controller."""
_ADVICE = "If munged is up, restart"
"""A line of SLURM's that stands before the one that says what failed."""
_ANSWER = 60.0
"""Seconds that an answer may take."""
_FIELDS = "%i|%T|%M|%r|%o"
_ORDINARY = ("None", "BeginTime", "Cleaning", "JobArrayTaskLimit", "Priority", "Resources")
"""Why a job waits that will start without anybody's doing."""
_OVER = {
    "BOOT_FAIL": "its node did not start",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "it ended without a result",
    "DEADLINE": "it reached its deadline",
    "FAILED": "it failed",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it had too little memory",
    "PREEMPTED": "it was preempted, and is not queued again on this cluster",
    "REVOKED": "it was taken by another cluster",
    "TIMEOUT": "it reached SLURM's time limit (executor_options timeout_min)",
}
"""States in which SLURM does nothing more for a job, in words; one that is queued again is in none of them."""
_HOLDING = ("RUNNING", "SIGNALING", "SUSPENDED", "STOPPED", "RESIZING")
"""States of a job that has its node and keeps it; SLURM shows SIGNALING until a signal has reached the node."""


class Job(NamedTuple):
    """A job as ``squeue`` shows it; ``seconds`` is how long it ran, ``reason`` why it waits.

    Example:
        >>> Job("11_0", "CANCELLED", 62.0, "").over, Job("11_1", "COMPLETING", 62.0, "").over
        ('it was cancelled', None)
    """

    id: str
    state: str
    seconds: float
    script: str
    reason: str = ""

    @property
    def over(self) -> str | None:
        """How it ended, in words; None while it waits, runs or is about to be queued again."""
        return _OVER.get(self.state)


def ask(*which: str) -> dict[str, Job]:
    """Ask ``squeue`` about jobs, those that are over for some minutes included.

    Raises:
        OSError, subprocess.SubprocessError: SLURM does not answer.
    """
    jobs = dict[str, Job]()
    for line in _output("squeue", "--noheader", "--array", "--states=all", f"--format={_FIELDS}", *which).splitlines():
        words = line.split("|", 4)
        if len(words) == 5:
            jobs[words[0]] = Job(words[0], words[1], _seconds(words[2]), words[4].strip(), words[3])
    return jobs


def message(text: str) -> str:
    r"""What is wrong, in one line, of what a program of SLURM printed.

    Example:
        >>> message("sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge failed")
        'sbatch: error: Munge failed'
    """
    lines = [line for line in text.split("\n") if line.strip(" -") and _ADVICE not in line]
    errors = [line for line in lines if ": error: " in line]
    return printable((errors or lines[-1:] or ["no message"])[0].strip())


def refuse_without_slurm(partitions: str) -> None:
    """See before anything is loaded whether SLURM answers, and has some partitions (with commas between).

    Raises:
        UsageError: with what SLURM says.
    """
    for name in ("sbatch", "squeue"):
        if shutil.which(name) is None:
            raise UsageError(f"slurm: there is no program {name} here: expected the client programs of SLURM")
    try:
        ask(f"--user={os.getuid()}")
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"slurm does not answer: {_words(error)}") from error
    with suppress(OSError, subprocess.SubprocessError):  # sbatch refuses them later
        known = _output("sinfo", "--all", "--noheader", "--format=%R").split()
        for name in filter(None, partitions.split(",")):
            if known and name not in known:
                raise UsageError(f"slurm has no partition {name!r}: expected {', '.join(sorted(set(known)))}")


def _words(error: Exception) -> str:
    return message(getattr(error, "stderr", None) or str(error))


def _output(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_ANSWER, check=True)
    return answer.stdout


def taken(environment: Mapping[str, str]) -> bool:
    """Whether SLURM takes the node from the job of an environment now; False also where SLURM does not answer.

    Before SLURM kills a job, for whatever reason, it calls it neither running nor signalled. A job that is only warned,
    because its grace before preemption begins, is in one of these states. The number of the last job of an array is the
    array's, which `squeue` answers with all of its jobs.
    """
    number = environment["SLURM_JOB_ID"]
    if "SLURM_ARRAY_TASK_ID" in environment:
        number = f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"
    try:
        job = ask(f"--jobs={number}").get(number)
    except (OSError, subprocess.SubprocessError):
        return False
    return job is not None and job.state not in _HOLDING


class Watch:
    """The user's jobs as SLURM showed them last."""

    def __init__(self) -> None:
        self.jobs: Mapping[str, Job] = {}
        self.asked_at, self.pause = -_LAST, _FIRST
        self.absent, self.warned, self.told = set[str](), False, set[str]()

    def look(self, *, now: bool = False) -> bool:
        """Ask SLURM, where the last answer is old; whether it was asked and answered."""
        if not now and time.monotonic() - self.asked_at < self.pause:
            return False
        self.asked_at, self.pause = time.monotonic(), min(_LAST, self.pause * 1.5)
        try:
            self.jobs = ask(f"--user={os.getuid()}")
        except (OSError, subprocess.SubprocessError) as error:
            if not self.warned:
                _LOG.warning("squeue does not answer (%s): jobs are waited for all the same", _words(error))
            self.warned = True
            return False
        return True

    def ended(self, numbers: list[str]) -> dict[str, Job]:
        """Which of some jobs are over, if SLURM was asked just now; those that it forgot are, at the second look."""
        if not self.look():
            return {}
        over = {number: job for number in numbers if (job := self.jobs.get(number)) is not None and job.over}
        self._tell_why(numbers)
        gone = {number for number in numbers if number not in self.jobs}
        forgotten = {number: Job(number, "COMPLETED", 0.0, "") for number in gone & self.absent}
        self.absent = gone
        return over | forgotten

    def _tell_why(self, numbers: list[str]) -> None:
        """Warn once of each reason for which jobs wait that does not pass by itself."""
        waiting = [job for number in numbers if (job := self.jobs.get(number)) is not None and job.state == "PENDING"]
        for reason in sorted({job.reason for job in waiting} - {*_ORDINARY, ""} - self.told):
            self.told.add(reason)
            count = sum(job.reason == reason for job in waiting)
            jobs = "1 job waits" if count == 1 else f"{count} jobs wait"
            _LOG.warning("%s in SLURM's queue: %s", jobs, printable(reason))


def note_parts(folder: Path, keys: list[tuple[str, int]]) -> None:
    """Note which units the array of jobs computes whose scripts lie in a folder."""
    write(folder / _PARTS, json.dumps(keys).encode())


def of_folder(jobs: Mapping[str, Job], place: Path) -> dict[tuple[str, int], Job]:
    """The jobs that are not over and whose scripts lie in a run folder's place for them, by name and seed."""
    running = dict[tuple[str, int], Job]()
    for job in jobs.values():
        folder = Path(job.script).parent
        with suppress(OSError, ValueError, TypeError, IndexError, RecursionError):
            if job.over or not folder.parent.samefile(place) or folder.is_symlink():
                continue
            refuse_special(folder / _PARTS)
            keys = json.loads((folder / _PARTS).read_text())
            name, seed = keys[int(job.id.partition("_")[2] or 0)]
            running[str(name), int(seed)] = job
    return running


def _seconds(text: str) -> float:
    """Seconds of ``days-hours:minutes:seconds``, of which the first may be left out."""
    days, _, clock = text.rpartition("-")
    total = 0
    with suppress(ValueError):
        for word in clock.split(":"):
            total = total * 60 + int(word)
        total += int(days or 0) * 24 * 60 * 60
    return float(total)

"""A place where one unit at a time is computed, in a worker process that is watched and replaced when it dies."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from gate_runner.errors import EncoderError, StorageError
from gate_runner.executors.executor import EncoderInfo, LockedElsewhere
from gate_runner.executors.worker import COMMAND
from gate_runner.machine.resources import killed_for_memory
from gate_runner.runs.display import clock
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit, halved
from vision_features.encoders.spec import agree
from wary_files.locks import BusyError

_LOG = logging.getLogger(__name__)
_QUIET = 600.0
"""Seconds without a word from a worker after which this is said, once a unit."""
_DYING = 10.0
"""Seconds in which a worker whose own watcher was lost notices it and goes."""

Tell = Callable[[str, int, int], None]
"""Told a phase, and how much of it is done."""


class WorkerProcess:
    """Computes units for one encoder, each as its settings ``isolate``, ``time_limit`` and ``retries`` say."""

    def __init__(
        self,
        encoder: str,
        device: str = "auto",
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> None:
        self.encoder, self.device = encoder, device
        self.environment = dict(environment or {})
        self.directory = directory if directory is not None and Path(directory).is_dir() else None
        self.opening: EncoderInfo | None = None
        self.process: subprocess.Popen[str] | None = None
        self.events: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self.used = self.closed = False
        self.said_quiet: str | None = None

    def open(self) -> EncoderInfo:
        """Start the worker, where none runs, and load the encoder."""
        if self.process is not None and self.opening is not None:
            return self.opening
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
            cwd=self.directory,
            start_new_session=True,  # Ctrl-C is for the process that watches
        )
        assert self.process.stdout is not None
        self.events = queue.Queue()
        threading.Thread(target=_listen, args=(self.process.stdout, self.events), daemon=True).start()
        if self.closed:  # in the meantime, by another thread
            self._stop()
        self._send({"open": {"encoder": self.encoder, "device": self.device}})
        event = self._heard(f"encoder {self.encoder!r} is still loading", None)
        if event is None:
            raise EncoderError(f"encoder {self.encoder!r}: the process that loads it died: {self._stop()}")
        if event["event"] == "refused":
            self._stop()
            raise EncoderError(str(event["reason"]))
        opening = EncoderInfo(event["description"], event["circumstances"], event["outputs"])
        if self.opening is not None and opening.description != self.opening.description:
            self._stop()
            raise EncoderError(
                f"encoder {self.encoder!r} has other weights each time it is loaded (fingerprints "
                f"{self.opening.description['fingerprint']} and {opening.description['fingerprint']}): seed them"
            )
        if self.opening is not None and not agree(self.opening.outputs, opening.outputs):
            self._stop()
            raise EncoderError(
                f"encoder {self.encoder!r} gives other features each time it is loaded, with the same weights: it "
                "draws at random, or its code was changed"
            )
        self.opening = opening
        return opening

    def run(self, unit: EvalUnit, started: Callable[[], None], tell: Tell) -> Result | LockedElsewhere:
        """Compute a unit; a crash, or a time limit, is its reason. Loading the encoder does not count as time."""
        retries = unit.settings.retries
        while True:
            started()
            outcome = self._attempt(unit, tell)
            if isinstance(outcome, EvalUnit):  # killed for want of memory: smaller, and no retry used up
                unit = outcome
                continue
            if isinstance(outcome, LockedElsewhere) or outcome.status != "failed" or retries == 0:
                return outcome
            retries -= 1

    def close(self) -> None:
        """Stop the worker, whatever it does; may be called from any thread."""
        self.closed = True
        self._stop()

    def _attempt(self, unit: EvalUnit, tell: Tell) -> Result | LockedElsewhere | EvalUnit:
        if unit.settings.isolate == "benchmark" and self.used:
            self._stop()
        opening, self.used = self.open(), True
        kills, phase, limit = killed_for_memory(), "data", unit.settings.time_limit
        start, name = time.monotonic(), f"{unit.name} seed {unit.seed}"
        self._send({"unit": unit.to_mapping()})
        while True:
            seconds = time.monotonic() - start
            try:
                remaining = None if limit is None else limit - seconds
                event = self._heard(f"{name} is still in {phase}", remaining, once=name)
            except queue.Empty:
                self._stop()
                reason = f"stopped at its time limit of {clock(limit or 0)}; it goes on from there next time"
                return failed(unit, opening, reason, time.monotonic() - start)
            if event is None:
                how = self._stop()
                if self.closed:
                    raise EncoderError("closed")  # nobody listens any more
                if how == _killed(signal.SIGKILL) and killed_for_memory() != kills:
                    smaller = halved(unit, phase.partition(" ")[0]) if phase != "data" else None
                    if smaller is not None:
                        return smaller
                    how = "the system had too little memory for it"
                return failed(unit, opening, f"its process died: {how}", time.monotonic() - start)
            kind = event["event"]
            if kind == "progress":
                phase = str(event["phase"])
                tell(phase, int(event["done"]), int(event["total"]))
            elif kind == "busy":
                return LockedElsewhere(unit.name, unit.seed, str(event["owner"]))
            elif kind == "storage":
                raise StorageError(str(event["reason"]))
            else:
                result = Result.from_mapping(event["result"], unit.name)
                if "CUDA" in result.reason:  # after some errors a process can no longer use its GPU
                    self._stop()
                return result

    def _heard(self, what: str, seconds: float | None, *, once: str = "") -> Mapping[str, Any] | None:
        """Return the worker's next event; raise `queue.Empty` after so many seconds. Long silence is reported once."""
        if self.said_quiet != once and (seconds is None or seconds > _QUIET):
            with suppress(queue.Empty):
                return self.events.get(timeout=_QUIET)
            self.said_quiet = once
            advice = "Ctrl-C stops, and --setting time_limit=SECONDS ends what hangs"
            _LOG.warning("%s, and its process has given no sign for %s: %s", what, clock(_QUIET), advice)
            seconds = None if seconds is None else seconds - _QUIET
        return self.events.get(timeout=None if seconds is None else max(0, seconds))

    def _send(self, order: Mapping[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):  # it is dead: its last event says so
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def _stop(self) -> str:
        """End the worker's whole process group; how it had ended by itself, in words."""
        process, self.process = self.process, None
        if process is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0 if self.closed else 0.2)
        status = process.poll()
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if status is None:
            return "stopped"
        return _killed(-status) if status < 0 else f"exit status {status}"


def _listen(lines: IO[str], events: queue.Queue[Mapping[str, Any] | None]) -> None:
    with suppress(ValueError, OSError):  # closed, or cut in the middle of a line
        for line in lines:
            events.put(json.loads(line))
    events.put(None)


def _killed(number: int) -> str:
    return f"signal {number} ({signal.strsignal(number)})"


def failed(unit: EvalUnit, opening: EncoderInfo, reason: str, seconds: float = 0.0) -> Result | LockedElsewhere:
    """Write a failed result for a unit whose process, or machine, could not."""
    result = replace(unit.blank(opening.description), reason=reason, seconds={"total": seconds})
    try:
        with unit.folder.working(unit.name, unit.seed, wait=_DYING):
            return unit.save(result, None)
    except BusyError as error:
        return LockedElsewhere(unit.name, unit.seed, error.owner)

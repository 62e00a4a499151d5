"""The process that computes: it loads the encoder once, and takes units from its standard input until that ends.

Both directions are lines of JSON. In: ``{"open": {"encoder", "device"}}``, ``{"unit": {...}}``. Out: ``opened``,
``refused``, ``progress``, ``result``, ``busy`` and ``storage``, each under ``"event"``. When standard input ends,
because the process that started this one is gone, this one ends too, in the middle of whatever it does.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from gate_runner.errors import StorageError, UsageError
from wary_files.locks import BusyError

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder

COMMAND = [sys.executable, "-P", "-c", "from gate_runner.executors.worker import main; main()"]
"""``-P``: a file beside the user that is called like a library must not be imported in its place."""
_EVERY = 0.1
"""Seconds between two lines about the progress of one phase."""


def main() -> None:
    """Serve until standard input ends."""
    if "SLURM_JOB_ID" in os.environ:  # a job that is requeued is not failed: SLURM's SIGKILL ends it, not this warning
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable()
    if os.environ.get("GATE_RUNNER_DEBUG"):
        logging.basicConfig(level=logging.DEBUG, format="%(name)s: %(message)s")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not stand between the lines
    orders: queue.Queue[Mapping[str, Any]] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin, orders), daemon=True).start()
    Worker(out).serve(iter(orders.get, None))


def _receive(lines: Iterable[str], orders: queue.Queue[Mapping[str, Any]]) -> None:
    for line in lines:
        orders.put(json.loads(line))
    os._exit(0)


class Worker:
    """Answers orders."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.encoder: Encoder | None = None
        self.description: dict[str, Any] = {}
        self.phase, self.reported_at = "", 0.0

    def serve(self, orders: Iterable[Mapping[str, Any]]) -> None:
        """Answer one order after another."""
        for order in orders:
            if "open" in order:
                self.say(self.open(**order["open"]))
            else:
                self.say(self.compute(order["unit"]))

    def say(self, event: Mapping[str, Any]) -> None:
        """Write one line."""
        try:
            self.out.write(json.dumps(event) + "\n")
        except BrokenPipeError:
            os._exit(0)

    def open(self, encoder: str, device: str) -> dict[str, Any]:
        """Load the encoder."""
        try:
            from gate_runner.machine.resources import circumstances
            from vision_features.encoders.loading import device_for, load_encoder

            self.encoder = load_encoder(encoder, device=device_for(device))
            self.description = self.encoder.describe()
        except (UsageError, OSError, ImportError) as error:
            return {"event": "refused", "reason": " ".join(str(error).split()) or type(error).__name__}
        except Exception as error:
            logging.getLogger(__name__).debug("the encoder cannot be loaded", exc_info=True)
            text = " ".join(str(error).split())
            return {"event": "refused", "reason": f"encoder {encoder!r}: {type(error).__name__}: {text}".rstrip(": ")}
        return {
            "event": "opened",
            "description": self.description,
            "circumstances": circumstances(),
            "outputs": self.encoder.outputs,
        }

    def compute(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute a unit."""
        from gate_runner.runs.compute import run_unit
        from gate_runner.runs.unit import EvalUnit

        assert self.encoder is not None
        try:
            result = run_unit(EvalUnit.from_mapping(values), self.encoder, self.description, self.progress)
        except BusyError as error:
            return {"event": "busy", "owner": error.owner}
        except StorageError as error:
            return {"event": "storage", "reason": str(error)}
        return {"event": "result", "result": json.loads(result.to_json())}

    def progress(self, phase: str, done: int, total: int) -> None:
        """Pass on how far the unit is, not too often."""
        now = time.monotonic()
        if phase == self.phase and done < total and now - self.reported_at < _EVERY:
            return
        self.phase, self.reported_at = phase, now
        self.say({"event": "progress", "phase": phase, "done": done, "total": total})

"""In this process, one part after another: nothing is started, and a crash ends the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.threads import thread_settings
from gate_runner.runs.circumstances import circumstances
from gate_runner.runs.compute import run_part
from gate_runner.runs.lock import BusyError
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder


class HereExecutor:
    """Loads the encoder once, or takes the one that the request holds.

    Args:
        request: what is to be run.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        if "torch" not in sys.modules:  # else it has its threads
            os.environ.update(thread_settings())

    def open(self) -> Opening:
        """Load the encoder and describe it."""
        from gate_runner.encoders import load_encoder
        from gate_runner.encoders.device import device_for
        from gate_runner.encoders.probe import probe

        given, device = self.request.encoder, device_for(self.request.settings.device)
        if isinstance(given, str):
            self.encoder: Encoder = load_encoder(given, device=device)
        else:
            given.to(device)
            given.outputs = probe(given)
            self.encoder = given
        self.description = self.encoder.describe()
        return Opening(self.description, circumstances(), self.encoder.outputs)

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Compute one part after another."""
        for part in parts:
            try:
                yield self._attempt(part, observer)
            except BusyError as error:
                yield Postponed(part.name, part.seed, error.owner)

    def close(self) -> None:
        """Nothing to stop."""

    def _attempt(self, part: Part, observer: Observer) -> Result:
        def progress(phase: str, done: int, total: int) -> None:
            observer.progress(part.name, part.seed, phase, done, total)

        left = self.request.settings.retries
        while True:
            observer.started(part.name, part.seed)
            result = run_part(part, self.encoder, self.description, progress)
            if result.status != "failed" or left == 0:
                return result
            left -= 1

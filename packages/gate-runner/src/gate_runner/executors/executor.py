"""What an executor is, and the plainest of them, which computes in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from gate_runner.executors.threads import thread_settings
from gate_runner.machine.resources import circumstances
from gate_runner.runs.compute import forget, run_unit
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import SCHEMA, Result
from gate_runner.runs.unit import EvalUnit
from wary_files.locks import BusyError

if TYPE_CHECKING:
    from gate_runner.settings import Settings
    from vision_features.encoders.encoder import Encoder


class EncoderInfo(NamedTuple):
    """What an executor knows once the encoder was loaded.

    Args:
        description: what `Encoder.describe` says.
        circumstances: for the manifest.
        outputs: what the encoder gave on fixed probes, see `vision_features.encoders.spec`.

    Example:
        >>> EncoderInfo({"spec": "micro-clip"}, {"host": "here"}).description["spec"]
        'micro-clip'
    """

    description: Mapping[str, Any]
    circumstances: Mapping[str, Any]
    outputs: Mapping[str, Any] = MappingProxyType({})

    def identity(self, settings: Settings) -> dict[str, Any]:
        """What must not differ between runs that share a folder."""
        return {"encoder": self.description, "outputs": dict(self.outputs), "schema": SCHEMA, **settings.identity()}


class LockedElsewhere(NamedTuple):
    """A unit that was not computed, because another process does.

    Example:
        >>> LockedElsewhere("digits", 0, "process 811 on lab-3").owner
        'process 811 on lab-3'
    """

    name: str
    seed: int
    owner: str


class Executor(Protocol):
    """Computes units, somewhere. `WorkerProcess` does all of it for one unit, in a process apart.

    Example:
        >>> from gate_runner.executors.worker_process import WorkerProcess
        >>> slot = WorkerProcess("micro-clip", "cpu")
        >>> slot.close()
    """

    def open(self) -> EncoderInfo:
        """Load the encoder, or see on some machine that it can be loaded."""

    def run(self, units: Sequence[EvalUnit], observer: Observer) -> Iterator[Result | LockedElsewhere]:
        """Compute units and write their files into their run folder."""

    def close(self) -> None:
        """Stop everything that still runs; called once, also after an interruption."""


@runtime_checkable
class Leaving(Protocol):
    """An executor whose work goes on elsewhere without this process.

    Example:
        >>> from gate_runner.executors.slurm import SlurmExecutor
        >>> issubclass(SlurmExecutor, Leaving)
        True
    """

    def leave(self) -> None:
        """Let it go on, and say so: this process was told to end."""


class HereExecutor:
    """Loads the encoder once, or takes the one that the request holds."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        if "torch" not in sys.modules:  # else it has its threads
            os.environ.update(thread_settings())

    def open(self) -> EncoderInfo:
        """Load the encoder and describe it."""
        from vision_features.encoders.loading import device_for, load_encoder
        from vision_features.encoders.probe import probe

        encoder, device = self.request.encoder, device_for(self.request.settings.device)
        if isinstance(encoder, str):
            self.encoder: Encoder = load_encoder(encoder, device=device)
        else:
            encoder.to(device)
            encoder.outputs = probe(encoder)
            self.encoder = encoder
        self.description = self.encoder.describe()
        return EncoderInfo(self.description, circumstances(), self.encoder.outputs)

    def run(self, units: Sequence[EvalUnit], observer: Observer) -> Iterator[Result | LockedElsewhere]:
        """Compute one unit after another."""
        for unit in units:
            try:
                yield self._attempt(unit, observer)
            except BusyError as error:
                yield LockedElsewhere(unit.name, unit.seed, error.owner)

    def close(self) -> None:
        """Let go of what the units of a sweep hand on in this process."""
        forget()

    def _attempt(self, unit: EvalUnit, observer: Observer) -> Result:
        def progress(phase: str, done: int, total: int) -> None:
            observer.progress(unit.name, unit.seed, phase, done, total)

        retries = self.request.settings.retries
        while True:
            observer.started(unit.name, unit.seed)
            result = run_unit(unit, self.encoder, self.description, progress)
            if result.status != "failed" or retries == 0:
                return result
            retries -= 1

"""What an executor is, and the plainest of them, which computes in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from gate_runner.executors.threads import thread_settings
from gate_runner.machine import circumstances
from gate_runner.runs.compute import forget, run_part
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import SCHEMA, Result
from wary_files.locks import BusyError

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.settings import Settings


class Opening(NamedTuple):
    """What an executor knows once the encoder was loaded.

    Args:
        description: what `Encoder.describe` says.
        circumstances: for the manifest.
        outputs: what the encoder gave on fixed probes, see `gate_runner.encoders.spec`.

    Example:
        >>> Opening({"spec": "micro-clip"}, {"host": "here"}).description["spec"]
        'micro-clip'
    """

    description: Mapping[str, Any]
    circumstances: Mapping[str, Any]
    outputs: Mapping[str, Any] = MappingProxyType({})

    def identity(self, settings: Settings) -> dict[str, Any]:
        """What must not differ between runs that share a folder."""
        return {"encoder": self.description, "outputs": dict(self.outputs), "schema": SCHEMA, **settings.identity()}


class Postponed(NamedTuple):
    """A part that was not computed, because another process does.

    Example:
        >>> Postponed("digits", 0, "process 811 on lab-3").owner
        'process 811 on lab-3'
    """

    name: str
    seed: int
    owner: str


class Executor(Protocol):
    """Computes parts, somewhere. `gate_runner.executors.slot.Slot` does all of it for one part in a process apart.

    Example:
        >>> from gate_runner.executors.slot import Slot
        >>> slot = Slot("micro-clip", "cpu")
        >>> slot.close()
    """

    def open(self) -> Opening:
        """Load the encoder, or see on some machine that it can be loaded."""

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Compute parts and write their files into their run folder."""

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

    def open(self) -> Opening:
        """Load the encoder and describe it."""
        from gate_runner.encoders.loading import device_for, load_encoder
        from gate_runner.encoders.probe import probe

        encoder, device = self.request.encoder, device_for(self.request.settings.device)
        if isinstance(encoder, str):
            self.encoder: Encoder = load_encoder(encoder, device=device)
        else:
            encoder.to(device)
            encoder.outputs = probe(encoder)
            self.encoder = encoder
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
        """Let go of what the units of a sweep hand on in this process."""
        forget()

    def _attempt(self, part: Part, observer: Observer) -> Result:
        def progress(phase: str, done: int, total: int) -> None:
            observer.progress(part.name, part.seed, phase, done, total)

        retries = self.request.settings.retries
        while True:
            observer.started(part.name, part.seed)
            result = run_part(part, self.encoder, self.description, progress)
            if result.status != "failed" or retries == 0:
                return result
            retries -= 1

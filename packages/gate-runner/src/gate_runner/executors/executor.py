"""What an executor is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gate_runner.runs.results import SCHEMA

if TYPE_CHECKING:
    from gate_runner.runs.observers import Observer
    from gate_runner.runs.part import Part
    from gate_runner.runs.results import Result
    from gate_runner.settings import Settings


class Opening(NamedTuple):
    """What an executor knows once the encoder was loaded.

    Args:
        description: what `Encoder.describe` says.
        circumstances: for the manifest.
        outputs: what the encoder gave on fixed probes, see `gate_runner.encoders.outputs`.

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
        """Load the encoder, or see on some machine that it can be loaded.

        Raises:
            EncoderError: it cannot.
        """

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Compute parts and write their files into their run folder.

        Args:
            parts: in the order in which they should start.
            observer: to be told ``started`` and ``progress``, from the thread that iterates.

        Yields:
            One outcome for each part, as each is over; one that failed is a result like the others.

        Raises:
            StorageError: the run folder cannot be written.
        """

    def close(self) -> None:
        """Stop everything that still runs; called once, also after an interruption."""

"""What an executor is, and the ones that there are."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gate_runner.errors import unknown

if TYPE_CHECKING:
    from gate_runner.runs.observers import Observer
    from gate_runner.runs.part import Part
    from gate_runner.runs.request import RunRequest
    from gate_runner.runs.results import Result

ENTRY_POINTS = "gate_runner.executors"
"""Entry-point group of plug-ins: each value is a function from a `RunRequest` to an `Executor`."""

_MODULES = {
    "local": "gate_runner.executors.local:LocalExecutor",
    "ray": "gate_runner.executors.ray_cluster:RayExecutor",
    "slurm": "gate_runner.executors.slurm:SlurmExecutor",
}


class Opening(NamedTuple):
    """What an executor knows once the encoder was loaded: its description, and the circumstances for the manifest."""

    description: Mapping[str, Any]
    circumstances: Mapping[str, Any]


class Postponed(NamedTuple):
    """A part that was not computed, because another process does."""

    name: str
    seed: int
    owner: str


class Executor(Protocol):
    """Computes parts, somewhere. `gate_runner.executors.slot.Slot` does all of it for one part in a process apart."""

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


def executor_names() -> list[str]:
    """The names that ``--executor`` takes, plug-ins last.

    Example:
        >>> executor_names()[:3]
        ['local', 'ray', 'slurm']
    """
    return [*_MODULES, *(point.name for point in entry_points(group=ENTRY_POINTS))]


def make_executor(request: RunRequest) -> Executor:
    """The executor that a request asks for.

    Args:
        request: its ``executor``, ``isolate`` and ``executor_options`` decide.

    Returns:
        The executor, not yet opened.

    Raises:
        UsageError: no executor has this name, or its options are wrong.
        ImportError: it needs an extra that is not installed; the message names it.
    """
    if request.isolate == "none":
        from gate_runner.executors.here import HereExecutor

        return HereExecutor(request)
    if request.executor in _MODULES:
        module, _, name = _MODULES[request.executor].partition(":")
        made: Executor = getattr(importlib.import_module(module), name)(request)
        return made
    found = list(entry_points(group=ENTRY_POINTS, name=request.executor))
    if not found:
        raise unknown("executor", request.executor, executor_names())
    plugin: Executor = found[0].load()(request)
    return plugin

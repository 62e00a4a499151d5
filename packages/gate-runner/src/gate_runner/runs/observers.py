"""What a run tells about itself, and to whom: displays, trackers, anything that wants to look on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gate_runner.runs.results import Result


class Planned(NamedTuple):
    """A unit before it starts: the seconds that a plan ``measured``, or its cost, and whether its result is there.

    None where nobody knows them; where the encoder is ``trained`` and no plan measured it, they are the frozen one's.
    ``steps`` says whether its head is trained step by step, not solved.
    """

    name: str
    seed: int
    seconds: float | None
    done: bool
    measured: bool = False
    trained: bool = False
    steps: bool = False


class Observer:
    """Told of a run, in the process and thread that started it; every method may be left out.

    Parts may be computed elsewhere and at the same time: calls of different (name, seed) can alternate, those of one
    unit come in order.
    """

    def opened(self, encoder: str, output: Path) -> None:
        """All names are known; the encoder is about to be loaded."""

    def planned(self, units: Sequence[Planned]) -> None:
        """The checks are over; this is what will run."""

    def started(self, name: str, seed: int) -> None:
        """A unit starts, perhaps again."""

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """A unit is so far; phases are ``data``, ``images`` (their number), ``encode SPLIT``, ``train`` and others."""

    def postponed(self, name: str, seed: int, owner: str) -> None:
        """Another process computes this unit; its result is waited for after the others."""

    def finished(self, result: Result) -> None:
        """A unit is over, and its files are written."""

    def closed(self, results: Sequence[Result]) -> None:
        """Everything is over."""


class ObserverList(Observer):
    """Several observers as one. One that raises is warned about and told nothing more: the run goes on."""

    def __init__(self, members: Sequence[Observer]) -> None:
        self.members = list(members)

    def _tell(self, event: str, *about: Any) -> None:
        for member in tuple(self.members):
            try:
                getattr(member, event)(*about)
            except Exception as error:  # noqa: BLE001 - whatever an onlooker raises must not end the run
                self.members.remove(member)
                warnings.warn(
                    f"{type(member).__name__} failed and is told nothing more: {type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )


for _event in ("opened", "planned", "started", "progress", "postponed", "finished", "closed"):
    setattr(ObserverList, _event, partialmethod(ObserverList._tell, _event))

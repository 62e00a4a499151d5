"""How long work tells what it has done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
_EVERY = 1 << 14

Say = Callable[[str], None]
"""Takes one finished line: what was planned, chosen or measured."""


class Progress(Protocol):
    """Takes how far a phase of the work is."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Called every so often, and with `done == total` at a phase's end; a total that is an estimate may move."""
        ...


def told(items: Iterable[T], phase: str, total: int, progress: Progress | None) -> Iterator[T]:
    """The same items; progress is told how many have passed, every so often and at the end."""
    done = 0
    for done, item in enumerate(items, start=1):
        yield item
        if progress is not None and done % _EVERY == 0:
            progress(phase, done, total)
    if progress is not None:
        progress(phase, done, total)


def in_stages(progress: Progress | None, stages: Sequence[str]) -> Progress | None:
    """Number the phases of a longer piece of work: "names (2 of 7)".

    Phases that are not among the stages keep their names.

    Example:
        >>> report = in_stages(lambda *step: print(*step), ("entities", "names"))
        >>> report("names", 10, 20)
        names (2 of 2) 10 20
    """
    if progress is None:
        return None

    def report(phase: str, done: int, total: int) -> None:
        if phase in stages:
            phase = f"{phase} ({stages.index(phase) + 1} of {len(stages)})"
        progress(phase, done, total)

    return report

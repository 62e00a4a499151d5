"""How long work tells what it has done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

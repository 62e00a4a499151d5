"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as work goes on: the phase, and how much of it is done.

    Example:
        >>> told: Progress = lambda phase, done, total: print(f"{phase}: {done} of {total}")
        >>> told("train", 10, 100)
        train: 10 of 100
    """

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Note that `done` of `total` steps of `phase` are over."""

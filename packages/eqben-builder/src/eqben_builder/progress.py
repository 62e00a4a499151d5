"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Is told how far some work is.

    Example:
        >>> def show(phase: str, done: int, total: int) -> None:
        ...     print(f"{phase}: {done} of {total}")
        >>> say: Progress = show
        >>> say("pictures", 3, 8)
        pictures: 3 of 8
    """

    def __call__(self, phase: str, done: int, total: int) -> None:
        """`done` of `total` steps of a phase are finished."""

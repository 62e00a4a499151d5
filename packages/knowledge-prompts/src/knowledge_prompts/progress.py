"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with the name of what is being done, how much of it is done, and how much there is.

    Example:
        >>> def shown(phase: str, done: int, total: int) -> None:
        ...     print(f"{phase}: {done} of {total}")
        >>> told: Progress = shown
        >>> told("encode", 2, 8)
        encode: 2 of 8
    """

    def __call__(self, phase: str, done: int, total: int, /) -> None:
        """Take note."""
        ...

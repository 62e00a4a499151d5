"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as work advances; the work waits until it returns.

    Example:
        >>> def show(phase: str, done: int, total: int) -> None:
        ...     print(f"{phase} {done}/{total or '?'}")
        >>> report: Progress = show
        >>> report("search", 500, 6500)
        search 500/6500
    """

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take a report."""

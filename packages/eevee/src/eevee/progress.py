"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as work advances; the work waits until it returns."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Take a report."""

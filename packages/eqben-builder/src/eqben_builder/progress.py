"""How long work tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Is told how far some work is."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """`done` of `total` steps of a phase are finished."""

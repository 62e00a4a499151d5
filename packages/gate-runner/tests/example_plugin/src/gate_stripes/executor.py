"""``--executor backwards``: everything in this process, the last benchmark first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gate_runner.executors import LockedElsewhere
from gate_runner.executors.executor import HereExecutor
from gate_runner.runs import Result
from gate_runner.runs.observers import Observer
from gate_runner.runs.unit import EvalUnit


class Backwards(HereExecutor):
    """Takes parts from the end."""

    def run(self, parts: Sequence[EvalUnit], observer: Observer) -> Iterator[Result | LockedElsewhere]:
        """Compute one part after another."""
        return super().run(parts[::-1], observer)

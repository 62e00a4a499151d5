"""From names to trackers, with missing extras found before anything runs."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable

from gate_runner.errors import UsageError, unknown
from gate_runner.runs.observers import Observer

TRACKERS = {
    "tensorboard": "gate_runner.trackers.tensorboard:TensorBoardTracker",
    "wandb": "gate_runner.trackers.wandb:WandbTracker",
}
"""Trackers by name; the extra that each needs has the same name."""


def make_trackers(names: Iterable[str]) -> list[Observer]:
    """Trackers that write beside a run's results, each once.

    Args:
        names: ``"tensorboard"``, ``"wandb"``.

    Returns:
        Observers for `gate_runner.executors.run`, which warns about one that fails and goes on.

    Raises:
        UsageError: no tracker has this name, or its extra is not installed; the message names it.

    Example:
        >>> make_trackers([])
        []
    """
    trackers = []
    for name in dict.fromkeys(names):
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"--tracker {name} needs the extra: pip install 'gate-runner[{name}]'")
        module, _, tracker = TRACKERS[name].partition(":")
        observer: Observer = getattr(importlib.import_module(module), tracker)()
        trackers.append(observer)
    return trackers

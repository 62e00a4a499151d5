"""Which runs can score shifted test images, and which results hold their scores; without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gate_runner.errors import UsageError

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings

_TASKS = ("image-classification", "multi-label", "zero-shot", "knn", "elevater")


def refuse_unshifted(settings: Settings, benchmarks: Sequence[Benchmark]) -> None:
    """Refuse a run whose test images cannot be shifted.

    Raises:
        UsageError: an unknown shift, a trained encoder, chosen items, folds, or a benchmark of another task type.
    """
    from gate_runner.shifts import named_shifts

    named_shifts(settings.shift)
    if settings.tune != "frozen" or settings.items is not None or settings.folds is not None:
        raise UsageError(
            "setting shift is for frozen encoders and a test split of its own: leave out --tune, --items and folds"
        )
    for benchmark in benchmarks:
        if benchmark.task not in _TASKS:
            kinds = ", ".join(_TASKS)
            raise UsageError(
                f"setting shift: {benchmark.id} is {benchmark.task}; expected image classification ({kinds})"
            )


def has_shifts(training: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether a result's ``training`` holds the scores of all shifts that names ask for."""
    from gate_runner.shifts import named_shifts

    scored = {(row["shift"], row["strength"]) for row in training.get("shifts", ())}
    return all((shift.name, shift.strength) in scored for shift in named_shifts(names))

"""What a classifier did within each class, kept in its result: who was taken for whom, precision, recall, F1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_runner.tasks.task import Details

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job, Outcome

_CELLS = 200
"""Of the most frequent confusions, at most: a thousand classes have a million pairs."""
_NOTED = 5


def with_classes(job: Job, outcome: Outcome) -> Outcome:
    """The outcome with what it did within each class, of what was predicted and the test targets."""
    from vision_adapters.metrics import by_class, confusion, evaluate

    guessed, classes = outcome.predicted, job.data.classes
    if guessed is None or guessed.ndim != 1 or len(guessed) != len(job.data.test):
        return outcome
    true = np.asarray(job.data.test.targets)
    table = confusion(guessed, true, len(classes))
    off = np.argwhere((table > 0) & ~np.eye(len(classes), dtype=bool))
    order = sorted(off.tolist(), key=lambda cell: (-table[cell[0], cell[1]], cell))
    found: dict[str, Any] = {
        "scores": {
            name: {"value": one.value, "low": one.low, "high": one.high}
            for name in ("macro_f1", "micro_f1")
            for one in [evaluate(name, guessed, true, seed=job.seed)]
        },
        "rows": [
            {"class": classes[row.label], "support": row.support, "predicted": row.predicted,
             "precision": _plain(row.precision), "recall": _plain(row.recall), "f1": _plain(row.f1)}
            for row in by_class(guessed, true, len(classes), seed=job.seed)
        ],
        "confused": [[classes[row], classes[column], int(table[row, column])] for row, column in order[:_CELLS]],
    }  # fmt: skip
    return replace(outcome, training={**outcome.training, "by_class": found})


def _plain(interval: tuple[float, float, float] | None) -> list[float] | None:
    """As a result's file has it, so that a unit of another process gives the same."""
    return None if interval is None else list(interval)


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """The classes from the worst F1 on, and what is confused most.

    Example:
        >>> rows = [{"class": "cat", "support": 2, "predicted": 1, "precision": [1, 0.2, 1], "recall": [0.5, 0, 0.9],
        ...          "f1": [0.667, 0.2, 1]}]
        >>> found = details({"by_class": {"rows": rows, "confused": [["cat", "dog", 1]], "scores": {}}}, "micro-clip")
        >>> found.notes, found.rows[0][:2]
        (['Confused most: cat taken for dog 1.'], ['cat', '2'])
    """
    found = training.get("by_class")
    heads = ["class", "samples", "predicted", "precision", "recall", "F1"]
    if not found:
        return Details([], heads, [])
    f1s = [f"{name.replace('_f1', ' F1')} {one['value']:.3f} ({one['low']:.3f} to {one['high']:.3f})"
           for name, one in found["scores"].items()]  # fmt: skip
    notes = [", ".join(f1s) + "."] if f1s else []
    if found["confused"]:
        pairs = ", ".join(f"{true} taken for {said} {count}" for true, said, count in found["confused"][:_NOTED])
        notes.append(f"Confused most: {pairs}.")
    rows = sorted(found["rows"], key=lambda row: (row["f1"] or [1.0])[0])
    listed = [
        [row["class"], str(row["support"]), str(row["predicted"])]
        + [_interval(row[name]) for name in ("precision", "recall", "f1")]
        for row in rows
    ]
    return Details(notes, heads, listed)


def _interval(value: Any) -> str:
    return "–" if value is None else f"{value[0]:.3f} ({value[1]:.3f} to {value[2]:.3f})"

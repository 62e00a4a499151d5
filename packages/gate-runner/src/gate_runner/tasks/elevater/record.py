"""Units of a sweep as rows of the papers' tables, from a run's results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gate_runner.axes import Variant
from gate_runner.errors import DataError


class Cell(NamedTuple):
    """Where a number stands in the tables: a data set, a `Variant`'s five fields, and a seed."""

    dataset: str
    shots: int
    tune: str
    init: str
    projection: str
    knowledge: str
    seed: int

    @property
    def variant(self) -> Variant:
        """The point of the sweep."""
        return Variant(*self[1:6])


@dataclass(frozen=True)
class Record:
    """What the tables show of a unit.

    Args:
        cell: where.
        status: ``"ok"``, ``"failed"``, or ``"skipped"``, which does not apply.
        reason: of a unit without a value.
        metric: that was taken.
        value: on the test split.
        low: lower end of its 95 % interval over test images.
        high: upper end.
        validation: the metric by which ``auto`` chooses, or None where nothing could be validated.
        trained: numbers that were trained.
        chosen: hyper-parameters, or the knowledge that ``auto`` chose.
        known: classes about which the knowledge says something.
        draw: SHA-256 of the drawn images' indices.
        short: classes with fewer images than shots, of which all were taken.
        shared: whether the numbers are those of another unit.
        seconds: that computing took.
    """

    cell: Cell
    status: str
    reason: str = ""
    metric: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    validation: float | None = None
    trained: int = 0
    chosen: dict[str, Any] = field(default_factory=dict)
    known: int = 0
    draw: str = ""
    short: int = 0
    shared: bool = False
    seconds: float = 0.0


def records_of(results: Iterable[Any]) -> list[Record]:
    """The units of sweeps among results."""
    return [_record(result) for result in results if result.task == "elevater"]


def _record(result: Any) -> Record:
    dataset, _, name = result.benchmark.partition("@")
    cell = Cell(dataset, *Variant.parse(name), result.seed)
    score, training = result.headline, result.training
    seconds = float(result.seconds.get("total", 0.0))
    if score is None:
        return Record(cell, result.status, result.reason, seconds=seconds)
    try:
        return Record(
            cell, "ok", "", score.metric, score.value, score.low, score.high, training["validated"],
            int(training["trained_parameters"]), dict(training["chosen"]), int(training.get("known", 0)),
            str(training["draw"]), int(training["short_classes"]), bool(training.get("shared", False)), seconds,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"result of {result.name} seed {result.seed}: its training is not a sweep's: {error!r}"
        ) from error

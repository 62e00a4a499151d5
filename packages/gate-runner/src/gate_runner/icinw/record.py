"""A cell's file: what was reached, with what, and why not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gate_runner.errors import DataError
from gate_runner.icinw.cells import Cell
from gate_runner.runs.folder import write

SCHEMA = "gate-runner/grid-cell/1"
Status = Literal["ok", "failed", "skipped"]
_TYPICAL = Cell("digits", 0, "frozen", "language", "2p", "none", 0)


@dataclass(frozen=True)
class Record:
    """What is known of a cell.

    Args:
        cell: which.
        status: ``"ok"``; ``"failed"``, which is tried again; or ``"skipped"``, which does not apply.
        reason: of a cell without a value.
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
        texts: digest of the class texts; cells with equal ones share their numbers.
        shared: whether the numbers are those of another cell.
        seconds: that computing took.
    """

    cell: Cell
    status: Status
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
    texts: str = ""
    shared: bool = False
    seconds: float = 0.0

    def to_json(self) -> str:
        """The file's text."""
        return json.dumps({"schema": SCHEMA, **asdict(self), "cell": self.cell._asdict()}, indent=1) + "\n"

    def moved(self, cell: Cell) -> Record:
        """The same numbers in another cell."""
        return replace(self, cell=cell, shared=True, seconds=0.0)

    @classmethod
    def from_file(cls, path: Path) -> Record:
        """Read a cell.

        Raises:
            DataError: it is no cell's file; the message names it.
        """
        try:
            raw = json.loads(path.read_text())
            if raw.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            record = cls(**{**raw, "cell": Cell(**raw["cell"])})
            numbers = (record.value, record.low, record.high, record.validation, record.trained, record.known,
                       record.short, record.seconds)  # fmt: skip
            if not all(one is None or type(one) in (int, float) for one in numbers):
                raise ValueError("a number is none")
            if [type(one) for one in record.cell] != [type(one) for one in _TYPICAL]:
                raise ValueError("its cell has a field of another type")
            if not isinstance(record.chosen, dict):
                raise ValueError("what it chose is no object")
            return record
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(f"{path} is not a cell of a grid: {error!r}; remove it to compute it again") from error


def cell_file(folder: Path, cell: Cell) -> Path:
    """Where a cell lies in a run folder."""
    return folder / "cells" / cell.dataset / f"{cell.name}.json"


def predictions_file(folder: Path, cell: Cell) -> Path:
    """Where a cell's probabilities lie, if they are kept."""
    return folder / "predictions" / cell.dataset / f"{cell.name}.npz"


def save(folder: Path, record: Record) -> Record:
    """Write a cell, whole or not at all."""
    write(cell_file(folder, record.cell), record.to_json().encode())
    return record


def read_cells(folder: Path) -> list[Record]:
    """All cells of a run folder, sorted by their names.

    Raises:
        DataError: a file that is no cell.

    Example:
        >>> import tempfile
        >>> cell = Cell("digits", 0, "frozen", "language", "2p", "none", 0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = save(Path(folder), Record(cell, "ok", metric="accuracy", value=0.75))
        ...     [(one.cell.dataset, one.value) for one in read_cells(Path(folder))]
        [('digits', 0.75)]
    """
    return [Record.from_file(path) for path in sorted((folder / "cells").glob("*/*.json"))]


def is_grid_folder(folder: Path) -> bool:
    """Whether a run folder holds a grid."""
    try:
        kind = json.loads((folder / "manifest.json").read_text())["identity"].get("kind")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return bool(kind == "grid")

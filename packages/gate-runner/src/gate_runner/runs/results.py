"""A result: one benchmark with one seed, as a row of the table and as a JSON file.

The file's fields are described in the package's ``RESULTS.md``; `SCHEMA` changes whenever one of them does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from gate_runner.errors import DataError

SCHEMA = "gate-runner/result/1"


@dataclass(frozen=True)
class Score:
    """A metric on the test split, with its 95 % interval and what chance would score."""

    metric: str
    direction: str
    value: float
    low: float
    high: float
    chance: float


@dataclass(frozen=True)
class Result:
    """What a run knows about one benchmark and seed.

    Args:
        benchmark: its id.
        name: its name in reports; stand-ins begin with ``micro/``.
        task: its task type.
        source: ``"local"``, ``"built-in"`` or ``"micro"``.
        seed: of the head and the batches.
        status: ``"ok"`` or ``"failed"``.
        reason: why it failed, in one line; empty where it did not.
        note: what a reader must know, e.g. "synthetic stand-in".
        limit: the cap on samples per split that was asked for, or None.
        encoder: what `Encoder.describe` says.
        scores: the headline first; empty where it failed.
        data: number of samples in each split, classes, and a digest.
        training: how the head's training went.
        seconds: time in each phase; not comparable between runs.
    """

    benchmark: str
    name: str
    task: str
    source: str
    seed: int
    status: Literal["ok", "failed"]
    reason: str = ""
    note: str = ""
    limit: int | None = None
    encoder: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[Score, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def headline(self) -> Score | None:
        """The score that selects, or None where the benchmark failed."""
        return self.scores[0] if self.scores else None

    def to_json(self) -> str:
        """The file's text; equal results give equal text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_file(cls, path: Path) -> Result:
        """Read a result.

        Args:
            path: a file that `to_json` wrote.

        Returns:
            The result.

        Raises:
            DataError: the file is not JSON, of another schema, or lacks a field; the message names file and field.
        """
        try:
            raw = json.loads(path.read_text())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a result file: {error}; delete it to compute it again") from error
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
            found = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
            raise DataError(f"{path}: schema is {found!r}, expected {SCHEMA!r}; choose another --output")
        known = {entry.name for entry in fields(cls)}
        missing, extra = known - set(raw), set(raw) - known - {"schema"}
        if missing or extra:
            raise DataError(f"{path}: missing fields {sorted(missing)}, unknown fields {sorted(extra)}")
        values = {name: raw[name] for name in known}
        values["scores"] = tuple(Score(**score) for score in raw["scores"])
        return cls(**values)

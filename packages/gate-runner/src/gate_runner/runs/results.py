"""A result: one benchmark with one seed, as a row of the table and as a JSON file.

What an encoder that was never trained scores is shipped beside it, so that a reader can tell a good score.

The file's fields are described in the package's ``RESULTS.md``; `SCHEMA` changes whenever one of them does.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gate_data.ragged import Outcomes, Ragged
from gate_runner.errors import DataError
from gate_runner.machine.resources import OWN
from gate_runner.tasks.job import Score
from wary_files.limits import refuse_special

SCHEMA = "gate-runner/result/4"
IMPORTED = "imported"
"""The source of scores that another tool computed: they have no outcomes, and what data they are of is unknown."""


@dataclass(frozen=True)
class Result:
    """What a run knows about one benchmark and seed.

    Args:
        benchmark: its id.
        name: its name in reports; stand-ins begin with ``micro/``.
        task: its task type.
        source: ``"local"``, ``"hub"``, ``"built-in"``, ``"micro"`` or `IMPORTED`.
        seed: of the head and the batches.
        status: ``"ok"``, ``"failed"``, or ``"skipped"``, a unit of a sweep that does not apply.
        reason: why there is no score, in one line; empty where there is one.
        note: what a reader must know, e.g. "synthetic stand-in".
        settings: those that results must have in common to be compared, see `Settings.identity`.
        encoder: what `Encoder.describe` says.
        scores: the headline first; empty where it failed.
        data: number of samples in each split, classes, and a digest.
        training: how the head's training went.
        samples_sha256: digest of the per-sample outcomes, see `samples_digest`; empty where it failed or was imported.
        memory: ``peak_bytes`` of the process while this part ran, and ``gpu_peak_bytes`` where it ran on a GPU, where
            the system tells; rows of features that were ``encoded`` here, and ``reused`` from what other parts and
            runs encoded. Not comparable between runs.
        seconds: time in each phase; not comparable between runs.
        energy: joules by device and phase, and for each device without a counter the reason; not comparable either.

    Example:
        >>> failed = Result("digits", "digits", "image-classification", "built-in", 0, "failed", "no space left")
        >>> failed.headline is None, Result.from_mapping(json.loads(failed.to_json()), "it") == failed
        (True, True)
    """

    benchmark: str
    name: str
    task: str
    source: str
    seed: int
    status: Literal["ok", "failed", "skipped"]
    reason: str = ""
    note: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    encoder: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[Score, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    samples_sha256: str = ""
    memory: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    energy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def imported(self) -> bool:
        """Whether another tool computed it: without outcomes, on data that are unknown."""
        return self.source == IMPORTED

    @property
    def headline(self) -> Score | None:
        """The score that selects, or None where the benchmark failed."""
        return self.scores[0] if self.scores else None

    def to_json(self) -> str:
        """The file's text, with a digest of all that it says; equal results give equal text."""
        content = {"schema": SCHEMA, **asdict(self)}
        content["scores"] = [
            {name: None if name in _MAY_LACK and math.isnan(value) else value for name, value in score.items()}
            for score in content["scores"]
        ]
        return json.dumps({**content, "digest": _digest(content)}, indent=2, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_file(cls, path: Path) -> Result:
        """Read a result."""
        refuse_special(path)
        try:
            raw = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path} is not a result file: {error}; --setting recompute=true computes it again"
            ) from error
        return cls.from_mapping(raw, str(path))

    @classmethod
    def from_mapping(cls, raw: object, where: str) -> Result:
        """Read a result from the content of its JSON."""
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
            schema = raw.get("schema") if isinstance(raw, dict) else type(raw).__name__
            raise DataError(f"{where}: schema is {schema!r}, expected {SCHEMA!r}; choose another --output")
        names = {entry.name for entry in fields(cls)}
        missing, extra = (names | {"digest"}) - set(raw), set(raw) - names - {"schema", "digest"}
        if missing or extra:
            raise DataError(f"{where}: missing fields {sorted(missing)}, unknown fields {sorted(extra)}")
        try:
            digest = _digest({key: value for key, value in raw.items() if key != "digest"})
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where} is not a result file: {error}; --setting recompute=true computes it again"
            ) from error
        if digest != raw["digest"]:
            raise DataError(
                f"{where} was changed after it was written: its digest does not fit; --setting recompute=true "
                "computes it again"
            )
        values = {name: raw[name] for name in names}
        validated(_Shape, values, where)
        values["scores"] = tuple(
            Score(**(score | {name: math.nan for name in _MAY_LACK if score[name] is None})) for score in raw["scores"]
        )
        return cls(**values)


def validated(shape: type[BaseModel], values: object, where: str) -> None:
    """Refuse JSON whose fields are of other types than its writer gives them.

    A digest is no proof that it wrote them.
    """
    text = json.dumps(values, ensure_ascii=False)
    try:
        shape.model_validate_json(text.encode("utf-8", "replace"), strict=True)  # a path may hold other bytes
    except ValidationError as error:
        first, *more = error.errors(include_url=False)
        field = ".".join(map(str, first["loc"]))
        also = f" (and {len(more)} more)" if more else ""
        raise DataError(f"{where}: field {field!r} is {first['input']!r:.80}: {first['msg']}{also}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} cannot be read: {error}") from None


_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, le=1e15)]


class _ScoreShape(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    metric: str
    direction: Literal["higher", "lower"]
    value: float
    low: float | None
    high: float | None
    chance: float | None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"its interval is {self.low:g} to {self.high:g}")
        return self


_MAY_LACK = ("low", "high", "chance")
"""What an imported score may lack: null in the file, NaN in memory."""


class _Point(BaseModel):
    """A row of a training's validation: the step, and values by metric."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]
    step: _Count


class _SliceRow(BaseModel):
    """A slice of the test samples, see `paired_scores.slices.Slice`."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    name: str
    samples: _Count
    value: float | None
    low: float | None
    high: float | None
    difference: float | None
    p: float | None
    p_adjusted: float | None


class _SliceTable(BaseModel):
    """All slices by one property, see `paired_scores.slices.Slices`."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    by: str
    rows: list[_SliceRow]
    worst: str
    low: float | None
    high: float | None
    gap: float | None
    p_gap: float | None
    clusters: _Count | None

    @model_validator(mode="after")
    def _has_its_worst(self) -> Self:
        if self.worst and [row.name for row in self.rows].count(self.worst) != 1:
            raise ValueError(f"the worst slice {self.worst[:40]!r} is not one of its rows")
        return self


class _Shifted(BaseModel):
    """A score under a shift: with its interval, and the change with its own."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    shift: str
    strength: Annotated[int, Field(ge=0, le=100)]
    value: float
    low: float
    high: float
    change: tuple[float, float, float]


class _Training(BaseModel):
    model_config = ConfigDict(extra="allow")
    slices: list[_SliceTable] = []
    shifts: list[_Shifted] = []
    steps: _Count | None = None
    chosen_step: _Count | None = None
    validation: list[_Point] = []


class _Data(BaseModel):
    model_config = ConfigDict(extra="allow")
    test: _Count | None = None
    test_items: list[int] | None = None
    sha256: str | None = None
    versions: dict[str, str] = {}


class _Energy(BaseModel):
    model_config = ConfigDict(extra="allow")
    joules: dict[str, dict[str, _Amount]] = {}
    unmeasured: dict[str, str] = {}
    used: dict[str, dict[str, _Amount]] = {}


class _Shape(BaseModel):
    """What readers of results rely on: types of fields, and of what stands in some of them."""

    model_config = ConfigDict(extra="forbid")
    benchmark: str
    name: Annotated[str, Field(min_length=1)]
    task: str
    source: str
    seed: _Count
    status: Literal["ok", "failed", "skipped"]
    reason: str
    note: str
    settings: dict[str, Any]
    encoder: dict[str, Any]
    scores: list[_ScoreShape]
    data: _Data
    training: _Training
    samples_sha256: str
    memory: dict[str, _Count]
    seconds: dict[str, _Amount]
    energy: _Energy

    @model_validator(mode="after")
    def _scored(self) -> Self:
        if self.status == "ok" and not self.scores:
            raise ValueError("it is 'ok', but has no score")
        if self.source != IMPORTED and any(None in (row.low, row.high, row.chance) for row in self.scores):
            raise ValueError("a score has no interval or no chance, which imported ones alone may lack")
        return self


def other_versions(results: Iterable[Result]) -> tuple[str, ...]:
    """Return which of our own packages had other versions for other results, such as ``gate-data 0.1.0 and 0.2.0``.

    Their code reads the data and scores them, and results are not known by it. Results without versions count nowhere.
    """
    seen: dict[str, dict[str, None]] = {}
    for result in results:
        for name, version in result.data.get("versions", {}).items():
            if name in OWN:
                seen.setdefault(name, {})[version] = None
    return tuple(f"{name} {' and '.join(sorted(held))}" for name, held in sorted(seen.items()) if len(held) > 1)


def samples_digest(samples: Outcomes) -> str:
    """SHA-256 over the values of per-sample outcomes, their type and shape."""
    if isinstance(samples, Ragged):
        ragged = hashlib.sha256()
        samples.note_in(ragged)
        return ragged.hexdigest()
    digest = hashlib.sha256(f"{samples.dtype.str} {samples.shape}".encode())
    digest.update(np.ascontiguousarray(samples).tobytes())
    return digest.hexdigest()


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


ENCODER = "micro-clip/random"
"""Whose scores they are: micro-clip's architecture with random weights."""


def untrained(result: Result) -> float | None:
    """The headline that the untrained encoder reached on the same data with the same head."""
    score = result.headline
    if score is None or {name for name, value in result.settings.items() if name != "limit" and value}:
        return None
    shipped = _table().get((result.name, str(result.data.get("sha256")), score.metric))
    return None if shipped is None else float(shipped)


def baseline_note(results: Iterable[Result]) -> str:
    """What a reader must know of these figures, or that there are none."""
    trained = [result for result in results if "/random" not in str(result.encoder.get("spec"))]
    scored = {result.name: untrained(result) for result in trained if result.headline is not None}
    lacking = sorted(name for name, value in scored.items() if value is None)
    if not scored:
        return ""
    if len(lacking) == len(scored):
        return f"No score of an untrained encoder is shipped for these data; --encoder {ENCODER} computes one."
    sentence = f"untrained: the same heads on {ENCODER}, whose weights are random."
    return f"{sentence} None is shipped for {', '.join(lacking)}." if lacking else sentence


def as_table(results: Iterable[Result]) -> dict[str, Any]:
    """The table's content from results of the untrained encoder."""
    rows = [
        {
            "name": result.name,
            "data_sha256": str(result.data["sha256"]),
            "metric": result.scores[0].metric,
            "value": result.scores[0].value,
        }
        for result in results
        if result.scores
    ]
    return {"encoder": ENCODER, "schema": SCHEMA, "rows": rows}


@cache
def _table() -> Mapping[tuple[str, str, str], float]:
    """Values by name, digest and metric; empty where the table was made for other forms of results."""
    table = json.loads(files("gate_runner").joinpath("runs", "untrained.json").read_text(encoding="utf-8"))
    if table["schema"] != SCHEMA:
        return {}
    return {(row["name"], row["data_sha256"], row["metric"]): row["value"] for row in table["rows"]}

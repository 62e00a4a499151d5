"""Reading tables: wide or long CSV, or a data frame; every complaint names the line and the column."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from eevee.errors import EeveeError
from eevee.table import Benchmark, Direction, Metric, ResultTable

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "-"})
COLUMN_FIELDS = ("metric", "benchmark", "task", "family", "direction", "cost")
Row = tuple[int, dict[str, str]]


@dataclass
class _Draft:
    """What has been read so far; becomes a table at the end."""

    where: str
    directions: dict[str, str | None] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    cells: dict[tuple[str, str], float] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)

    def column(self, line: int, row: dict[str, str], default: str | None) -> str:
        benchmark = row.get("benchmark", "") or row.get("metric", "").split("/")[0]
        if not benchmark:
            raise EeveeError(f"{self.where}, line {line}: empty column 'benchmark'; expected a benchmark id")
        metric = row.get("metric", "") or benchmark
        direction = row.get("direction", "") or default
        known = self.directions.get(metric)
        if known and direction and known != direction:
            raise EeveeError(
                f"{self.where}, line {line}: metric {metric!r} has the direction {direction!r}, and {known!r} before"
            )
        if self.owners.setdefault(metric, benchmark) != benchmark:
            raise EeveeError(
                f"{self.where}, line {line}: metric {metric!r} belongs to {benchmark!r}, and to "
                f"{self.owners[metric]!r} before"
            )
        self.directions[metric] = known or direction
        facts = self.facts.setdefault(benchmark, {})
        for name in ("task", "family", "cost"):
            if row.get(name):
                facts[name] = row[name]
        return metric

    def cell(self, line: int, model: str, metric: str, text: str) -> None:
        if not model:
            raise EeveeError(f"{self.where}, line {line}: empty model id")
        self.models.setdefault(model)
        if (model, metric) in self.cells:
            raise EeveeError(f"{self.where}, line {line}: model {model!r}, metric {metric!r} appears twice")
        self.cells[model, metric] = number(text, f"{self.where}, line {line}, model {model!r}, metric {metric!r}")

    def table(self, name: str) -> ResultTable:
        metrics = []
        for key, owner in self.owners.items():
            direction = self.directions[key]
            if not direction:
                raise EeveeError(f"{self.where}: metric {key!r} has no direction; expected 'higher' or 'lower'")
            metrics.append(Metric(key, owner, cast(Direction, direction)))
        benchmarks = []
        for key, facts in self.facts.items():
            cost = number(facts.get("cost", ""), f"{self.where}, cost of benchmark {key!r}")
            benchmarks.append(
                Benchmark(key, facts.get("task", ""), facts.get("family", ""), None if math.isnan(cost) else cost)
            )
        values = np.full((len(self.models), len(metrics)), np.nan)
        rows = {key: i for i, key in enumerate(self.models)}
        columns = {metric.id: j for j, metric in enumerate(metrics)}
        for (model, metric_id), value in self.cells.items():
            values[rows[model], columns[metric_id]] = value
        groups = tuple(self.groups.get(model) or model for model in self.models)
        try:
            return ResultTable(name, tuple(self.models), tuple(metrics), tuple(benchmarks), values, groups)
        except EeveeError as error:
            raise EeveeError(f"{self.where}: {error}") from None


def number(text: str, where: str) -> float:
    """A cell's number; NaN for an empty cell or a word for missing.

    Example:
        >>> number(" 1.5", "here"), number("n/a", "here")
        (1.5, nan)
    """
    stripped = text.strip()
    if stripped.lower() in MISSING:
        return math.nan
    try:
        value = float(stripped)
    except ValueError:
        raise EeveeError(f"{where}: {text!r}; expected a number, or an empty cell where it is missing") from None
    if not math.isfinite(value):
        raise EeveeError(f"{where}: {text!r}; expected a finite number")
    return value


def read_csv_text(
    text: str, *, name: str, where: str | None = None, direction: str | None = None, about: str | None = None
) -> ResultTable:
    r"""Read a table from CSV text, in whichever of three shapes its header says.

    - long: columns `model`, `benchmark`, `value`, and optionally `metric`, `direction`, `cost`, `task`, `family`,
      `group`;
    - wide, a row for each model: column `model`, optionally `group`, and one column for each metric, named
      `benchmark` or `benchmark/metric`; the directions come from `about` or from `direction`;
    - wide, a row for each metric: columns `benchmark`, `direction`, optionally `metric`, `cost`, `task`, `family`, and
      one column for each model.

    Args:
        text: the file's text.
        name: the table's name.
        where: what errors call the file; `name` by default.
        direction: `higher` or `lower`, for metrics whose own row does not say.
        about: text of a second CSV with columns `metric` or `benchmark`, and any of `direction`, `cost`, `task`,
            `family`.

    Raises:
        EeveeError: naming the file, the line, the column and the value.

    Example:
        >>> rows = "model,x,y/loss\n" + "".join(f"m{i},{i},{-i}\n" for i in range(5))
        >>> read_csv_text(rows, name="toy", direction="higher").metric_ids
        ('x', 'y/loss')
    """
    where = where or name
    header, rows = _records(text, where)
    draft = _Draft(where)
    if about is not None:
        _read_about(draft, about, f"{where} (about)")
    if {"model", "value", "benchmark"} <= set(header):
        for line, row in rows:
            metric = draft.column(line, row, direction)
            _note_group(draft, line, row)
            draft.cell(line, row["model"], metric, row["value"])
    elif "model" in header:
        columns = [key for key in header if key not in ("model", "group")]
        for key in columns:
            stated = draft.directions.get(key) or draft.directions.get(key.split("/")[0])
            draft.column(1, {"metric": key, "benchmark": draft.owners.get(key, "")}, stated or direction)
        for line, row in rows:
            if row["model"] in draft.models:
                raise EeveeError(f"{where}, line {line}: model {row['model']!r} appears twice; ids must be unique")
            _note_group(draft, line, row)
            for key in columns:
                draft.cell(line, row["model"], key, row[key])
    elif "benchmark" in header:
        models = [key for key in header if key not in COLUMN_FIELDS]
        seen: set[str] = set()
        for line, row in rows:
            metric = draft.column(line, row, direction)
            if metric in seen:
                raise EeveeError(f"{where}, line {line}: metric {metric!r} appears twice; ids must be unique")
            seen.add(metric)
            for model in models:
                draft.cell(line, model, metric, row[model])
    else:
        raise EeveeError(f"{where}, line 1: header {', '.join(header)!r}; expected a column 'model' or 'benchmark'")
    _drop_unmeasured(draft)
    return draft.table(name)


def load_table(source: Any, *, direction: str | None = None, about: str | Path | None = None) -> ResultTable:
    """Load a table: a shipped name, a CSV file or a data frame.

    Args:
        source: `gate`, `gate-full`, the path of a CSV file (see `read_csv_text` for the shapes), a pandas data frame
            with the
            same columns (or with the models as its index), or a `ResultTable`, which is returned as it is.
        direction: `higher` or `lower` for metrics that do not say theirs.
        about: path of a CSV with columns `metric` or `benchmark`, and `direction`, `cost`, `task`, `family`.

    Raises:
        EeveeError: naming the file, line, column and value that is wrong.

    Example:
        >>> load_table("gate").shape
        (21, 30)
    """
    from eevee.gate import SHIPPED, load_gate

    if isinstance(source, ResultTable):
        return source
    extra = None if about is None else _read_text(Path(about))
    if hasattr(source, "to_csv") and hasattr(source, "columns"):
        indexed = "model" not in source.columns and "benchmark" not in source.columns
        text = source.rename_axis("model").to_csv() if indexed else source.to_csv(index=False)
        return read_csv_text(text, name="data frame", direction=direction, about=extra)
    if str(source) in SHIPPED and not Path(source).exists():
        return load_gate(str(source))
    path = Path(source)
    return read_csv_text(_read_text(path), name=path.name, where=str(path), direction=direction, about=extra)


def read_scores(path: str | Path) -> dict[str, dict[str, float]]:
    """Scores of new models: a CSV with a column `model` and one for each subset metric; empty cells are left out.

    Raises:
        EeveeError: naming the file, line and column of what is wrong.
    """
    where = Path(path)
    header, rows = _records(_read_text(where), str(where))
    if "model" not in header:
        raise EeveeError(f"{where}, line 1: header {', '.join(header)!r}; expected a column 'model'")
    scores: dict[str, dict[str, float]] = {}
    for line, row in rows:
        model = row.pop("model")
        if not model or model in scores:
            raise EeveeError(f"{where}, line {line}: model {model!r} is empty or appears twice")
        values = {key: number(text, f"{where}, line {line}, column {key!r}") for key, text in row.items()}
        scores[model] = {key: value for key, value in values.items() if not math.isnan(value)}
    return scores


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise EeveeError(f"{path}: byte {error.start} is not UTF-8; expected a CSV file in UTF-8") from None


def _records(text: str, where: str) -> tuple[list[str], list[Row]]:
    reader = csv.reader(io.StringIO(text))
    try:
        lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise EeveeError(f"{where}, line {reader.line_num}: {error}") from None
    if len(lines) < 2:
        raise EeveeError(f"{where}: {len(lines)} lines; expected a header and rows")
    header = [cell.strip() for cell in lines[0][1]]
    for key in header:
        if not key or header.count(key) > 1:
            raise EeveeError(f"{where}, line 1: column {key!r} is empty or appears twice; ids must be unique")
    rows = []
    for line, cells in lines[1:]:
        if len(cells) != len(header):
            raise EeveeError(f"{where}, line {line}: {len(cells)} cells; expected {len(header)}, as in the header")
        rows.append((line, {key: cell.strip() for key, cell in zip(header, cells, strict=True)}))
    return header, rows


def _read_about(draft: _Draft, text: str, where: str) -> None:
    header, rows = _records(text, where)
    unknown: Sequence[str] = [key for key in header if key not in COLUMN_FIELDS]
    if unknown or not {"metric", "benchmark"} & set(header):
        raise EeveeError(
            f"{where}, line 1: columns {', '.join(header)}; expected metric or benchmark, and {COLUMN_FIELDS[2:]}"
        )
    for line, row in rows:
        draft.column(line, row, None)


def _note_group(draft: _Draft, line: int, row: dict[str, str]) -> None:
    group = row.get("group", "")
    if group and draft.groups.setdefault(row["model"], group) != group:
        raise EeveeError(
            f"{draft.where}, line {line}: model {row['model']!r} is in group {group!r}, and "
            f"{draft.groups[row['model']]!r} before"
        )


def _drop_unmeasured(draft: _Draft) -> None:
    """Forget what the second file describes and the first does not measure."""
    measured = {metric for _, metric in draft.cells}
    draft.owners = {key: owner for key, owner in draft.owners.items() if key in measured}
    owners = set(draft.owners.values())
    draft.facts = {key: facts for key, facts in draft.facts.items() if key in owners}

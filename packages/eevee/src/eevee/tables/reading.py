"""Reading tables: wide or long CSV, or a data frame; every complaint names the line and the column.

One file of more than 400 lines: what a table may look like is told step by step, and each step has its complaints.
"""

from __future__ import annotations

import csv
import io
import logging
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.table import Benchmark, Direction, Metric, ResultTable
from wary_files.text import comma_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[int, dict[str, str]]

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number as files have it: Python also reads `1_0` as ten, and digits of other scripts."""
LONGEST_FIELD = 2**24
"""Characters of a cell; Python's csv refuses more than 131,072, until somebody sets another limit."""
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "-"})
MODEL_NAMES = ("model", "model_name", "model_id", "name", "checkpoint", "run")
BENCHMARK_NAMES = ("benchmark", "dataset", "data_set", "eval_dataset", "benchmark_name")
VALUE_NAMES = ("value", "score", "result")
_LOG = logging.getLogger(__name__)
FACTS = ("metric", "benchmark", "task", "family", "direction", "cost", "low", "high")
MODEL_FACTS = ("group", "model_family", "model_date")


class Layout(NamedTuple):
    """What the user says of a CSV's columns; what is left empty is told by names and content."""

    model: tuple[str, ...] = ()  # columns that together name a model, such as ("name", "pretrained"); joined by a space
    value: str = ""  # the column of scores, which makes the file a long one
    drop: tuple[str, ...] = ()  # columns to leave out


def _read_records(text: str, where: str) -> tuple[list[str], list[Row]]:
    """Header and rows of a CSV, commas or tabs, with one header row or two.

    Of two header rows the first names benchmarks (an empty cell repeats the one before), the second metrics.
    """
    lines = _lines_of(text, where)
    if len(lines) < 2:
        raise EeveeError(f"{where}: {len(lines)} lines; expected a header and rows")
    header, body = lines[0][1], lines[1:]
    repeats = len(set(header)) < len(header) or "" in header[1:]
    if repeats and len(body) > 1 and len(body[0][1]) == len(header) and not any(map(_is_number, body[0][1])):
        header, body = _joined(header, body[0][1]), body[1:]
    for key in header:
        if not key or header.count(key) > 1:
            raise EeveeError(f"{where}, line 1: column {key!r} is empty or appears twice; ids must be unique")
    for line, cells in body:
        if len(cells) != len(header):
            raise EeveeError(f"{where}, line {line}: {len(cells)} cells; expected {len(header)}, as in the header")
    return header, [(line, dict(zip(header, cells, strict=True))) for line, cells in body]


def _lines_of(text: str, where: str) -> list[tuple[int, list[str]]]:
    """Cells of the rows that hold some, with the number of the line in which each begins."""
    head = text.split("\n", 1)[0]
    if ";" in head and "," not in head and "\t" not in head:
        raise EeveeError(f"{where}, line 1: cells are separated by ';'; expected ',': save it as CSV with commas")
    if csv.field_size_limit() < LONGEST_FIELD:
        csv.field_size_limit(LONGEST_FIELD)
    delimiter = "\t" if "\t" in head and "," not in head else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[tuple[int, list[str]]] = []
    while True:
        first = reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return lines
        except csv.Error as error:
            unclosed = "a quote opens in this row and is never closed" if "end of data" in str(error) else str(error)
            raise EeveeError(f"{where}, line {first}: {unclosed}") from None
        if torn := [cell for cell in cells if "\n" in cell]:
            raise EeveeError(f"{where}, line {first}: a quote opens in this row and holds the next, {torn[0]!r:.60}")
        if any(cells):
            lines.append((first, cells))


def _joined(first: list[str], second: list[str]) -> list[str]:
    out: list[str] = []
    last = ""
    for top, bottom in zip(first, second, strict=True):
        last = top or last
        out.append((f"{last}/{bottom}" if last else bottom) if bottom else last)
    return out


def _arrange(header: list[str], rows: list[Row], layout: Layout, where: str) -> tuple[list[str], list[Row]]:
    """The same table with the columns called `model`, `benchmark` and `value` where that is what they are."""
    for key in (*layout.model, *layout.drop, *filter(None, [layout.value])):
        if key not in header:
            raise EeveeError(f"{where}: no column {key!r}; the file has: {', '.join(header)}")
    names = [key for key in header if key not in layout.drop]
    if "benchmark" in names and not {"value", "model"} & set(names) and not layout.value and not layout.model:
        return names, [(line, {key: row[key] for key in names}) for line, row in rows]

    def first_of(options: Sequence[str], among: Sequence[str]) -> str:
        return next((key for name in options for key in among if key.lower() == name), "")

    texts = [key for key in names if _kind(key, rows) != "numbers" and key not in (*FACTS, *MODEL_FACTS)]
    unique = [key for key in texts if len({row[key] for _, row in rows}) == len(rows)]
    model = layout.model or tuple(filter(None, [first_of(MODEL_NAMES, names)]))
    model = model or (tuple(unique) if len(unique) == 1 and len(rows) > 1 else ())
    if not model:
        raise EeveeError(
            f"{where}, line 1: header {', '.join(header[:20])!r}; expected a column 'model' or 'benchmark', or say "
            f"which columns name a model (--model-column); its columns: {_taken_for(names, rows)}"
        )
    metrics = [key for key in names if key not in model]
    value = layout.value or first_of(VALUE_NAMES, metrics)
    benchmark = first_of(BENCHMARK_NAMES, [key for key in metrics if _kind(key, rows) != "numbers"])
    if layout.value and not benchmark:
        raise EeveeError(
            f"{where}: {layout.value!r} is to hold the scores, and no column names the benchmark (expected one of "
            f"{', '.join(BENCHMARK_NAMES)}); its columns: {_taken_for(names, rows)}"
        )
    renamed = {key: key for key in metrics} | ({value: "value", benchmark: "benchmark"} if value and benchmark else {})
    return ["model", *renamed.values()], [
        (line, {"model": " ".join(row[key] for key in model if row[key]), **{renamed[k]: row[k] for k in metrics}})
        for line, row in rows
    ]


def _kind(key: str, rows: Sequence[Row]) -> str:
    cells = [row[key] for _, row in rows[:200] if row[key].lower() not in MISSING]
    return "numbers" if cells and all(map(_is_number, cells)) else "text" if cells else "empty"


def _taken_for(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Each column with what its content looks like, for an error."""
    shown = []
    for key in names[:20]:
        example = next((row[key] for _, row in rows[:200] if row[key].lower() not in MISSING), None)
        shown.append(f"{key} ({_kind(key, rows)}{f', such as {example!r:.80}' if example else ''})")
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _facts_differ(first: str, second: str) -> bool:
    """Whether two cells say different things: as texts, and as numbers, of which 1 and 1.0 are one."""
    if first == second:
        return False
    return not (_is_number(first) and _is_number(second)) or number(first, "") != number(second, "")


def _is_number(text: str) -> bool:
    digits = text.removesuffix("%").rstrip()
    return NUMBER.fullmatch(digits) is not None or digits.lower() in ("inf", "-inf", "nan")


@dataclass
class _Draft:
    """What has been read so far; becomes a table at the end."""

    where: str
    directions: dict[str, str | None] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    ends: dict[tuple[str, str], float] = field(default_factory=dict)
    percents: dict[str, set[bool]] = field(default_factory=dict)
    cells: dict[tuple[str, str], float] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)

    def column(self, line: int, row: dict[str, str], default: str | None) -> str:
        benchmark = row.get("benchmark", "") or row.get("metric", "").split("/")[0]
        if not benchmark:
            raise EeveeError(f"{self.where}, line {line}: empty column 'benchmark'; expected a benchmark id")
        metric = row.get("metric", "") or benchmark
        direction = row.get("direction", "") or default
        earlier = self.directions.get(metric)
        if earlier and direction and earlier != direction:
            raise EeveeError(
                f"{self.where}, line {line}: metric {metric!r} has the direction {direction!r}, and {earlier!r} before"
            )
        if self.owners.setdefault(metric, benchmark) != benchmark:
            raise EeveeError(
                f"{self.where}, line {line}: metric {metric!r} belongs to {benchmark!r}, and to "
                f"{self.owners[metric]!r} before"
            )
        self.directions[metric] = earlier or direction
        facts = self.facts.setdefault(benchmark, {})
        for name in ("task", "family", "cost"):
            if row.get(name) and _facts_differ(facts.setdefault(name, row[name]), row[name]):
                raise EeveeError(
                    f"{self.where}, line {line}: benchmark {benchmark!r} has the {name} {row[name]!r}, and "
                    f"{facts[name]!r} before"
                )
        for name in ("low", "high"):
            if row.get(name):
                end = number(row[name], f"{self.where}, line {line}, column {name!r}")
                if self.ends.setdefault((metric, name), end) != end:
                    raise EeveeError(
                        f"{self.where}, line {line}: metric {metric!r} has the bound {name} {end:g}, and "
                        f"{self.ends[metric, name]:g} before"
                    )
        return metric

    def cell(self, line: int, model: str, metric: str, text: str) -> None:
        if not model:
            raise EeveeError(f"{self.where}, line {line}: empty model id")
        self.models.setdefault(model)
        if (model, metric) in self.cells:
            raise EeveeError(f"{self.where}, line {line}: model {model!r}, metric {metric!r} appears twice")
        plain = not text or NUMBER.fullmatch(text) is not None
        value = float(text) if plain and text else math.nan
        if not plain or math.isinf(value):  # a percentage, a word for missing, or a mistake that is to be named
            value = number(text, f"{self.where}, line {line}, model {model!r}, metric {metric!r}")
        self.cells[model, metric] = value
        if not math.isnan(value):
            self.percents.setdefault(metric, set()).add(text[-1] == "%")

    def table(self, name: str) -> ResultTable:
        metrics = []
        for key, owner in self.owners.items():
            direction = self.directions[key]
            if not direction:
                raise EeveeError(
                    f"{self.where}: metric {key!r} has no direction; expected 'higher' or 'lower': a column "
                    f"'direction', or for all metrics --direction higher (in Python direction='higher')"
                )
            if len(self.percents.get(key, ())) > 1:
                raise EeveeError(
                    f"{self.where}: metric {key!r} has values with a percent sign and values without; expected one or "
                    f"the other"
                )
            low, high = self.ends.get((key, "low")), self.ends.get((key, "high"))
            if (low is None) != (high is None):
                raise EeveeError(f"{self.where}: metric {key!r} has one bound, {low} to {high}; expected both or none")
            bounds = None if low is None or high is None else (low, high)
            metrics.append(Metric(key, owner, cast(Direction, direction), bounds))
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
        groups = tuple(self.notes.get(model, {}).get("group") or model for model in self.models)
        families, dates = (
            tuple(self.notes.get(model, {}).get(key, "") for model in self.models)
            for key in ("model_family", "model_date")
        )
        try:
            return ResultTable(
                name,
                tuple(self.models),
                tuple(metrics),
                tuple(benchmarks),
                values,
                groups,
                families if any(families) else (),
                dates if any(dates) else (),
            )
        except EeveeError as error:
            raise EeveeError(f"{self.where}: {error}") from None


def number(text: str, where: str) -> float:
    """A cell's number; NaN for an empty cell or a word for missing."""
    stripped = text.strip()
    if stripped.lower() in MISSING:
        return math.nan
    digits = stripped.removesuffix("%").rstrip()
    if not NUMBER.fullmatch(digits) and digits.lower() not in ("inf", "+inf", "-inf", "infinity", "-infinity"):
        hint = comma_hint(text) or ", or an empty cell where it is missing"
        raise EeveeError(f"{where}: {text!r:.80}; expected a number{hint}")
    value = float(digits)
    if not math.isfinite(value):
        raise EeveeError(f"{where}: {text!r:.80}; expected a finite number")
    return value


def read_csv_text(
    text: str,
    *,
    name: str,
    where: str | None = None,
    direction: str | None = None,
    about: str | None = None,
    models: str | None = None,
    layout: Layout | None = None,
) -> ResultTable:
    r"""Read a table from CSV text, in whichever of three shapes its header says.

    - long: columns `model`, `benchmark`, `value`, and optionally `metric`, `direction`, `cost`, `task`, `family`,
      `low`, `high`, and what is known of models (below); a metric name that several benchmarks share becomes
      `benchmark/metric`;
    - wide, a row for each model: column `model`, optionally what is known of models, and one column for each metric,
      named `benchmark` or `benchmark/metric`; the directions come from `about` or from `direction`;
    - wide, a row for each metric: columns `benchmark`, `direction`, optionally `metric`, `cost`, `task`, `family`,
      `low`, `high`, and one column for each model.

    Known of models: `group` (near-twins), `model_family`, `model_date`. Cells may have percent signs (75.3 % is 75.3);
    a wide file may have two header rows, benchmarks over metrics. Columns with other names are told by `layout`, and
    where that is silent by their content.
    """
    where = where or name
    header, rows = _arrange(*_read_records(text, where), layout or Layout(), where)
    draft = _Draft(where)
    if about is not None:
        _read_about(draft, about, f"{where} (about)")
    if {"model", "value", "benchmark"} <= set(header):
        _read_long(draft, header, rows, direction)
    elif "model" in header:
        _read_wide(draft, header, rows, direction)
    else:
        _read_by_metric(draft, header, rows, direction)
    if models is not None:
        _read_models(draft, models, f"{where} (models)")
    _drop_unmeasured(draft)
    return draft.table(name)


def _read_long(draft: _Draft, header: list[str], rows: list[Row], direction: str | None) -> None:
    owners: dict[str, set[str]] = {}
    for _, row in rows:
        if row.get("metric"):
            owners.setdefault(row["metric"], set()).add(row["benchmark"])
    # a name with a slash says whose it is: two owners are then a mistake
    plain = {key: metrics for key, metrics in owners.items() if "/" not in key and key not in metrics}
    shared = set(plain) if any(len(metrics) > 1 for metrics in plain.values()) else set()
    for line, row in _finished(draft, header, rows):
        own = {**row, "metric": f"{row['benchmark']}/{row['metric']}"} if row.get("metric") in shared else row
        metric = draft.column(line, own, direction)
        _note_model(draft, line, row)
        draft.cell(line, row["model"], metric, row["value"])


def _finished(draft: _Draft, header: list[str], rows: list[Row]) -> list[Row]:
    """Rows that hold a score: of gate-runner's export those that did not fail, seeds by their mean."""
    if not {"status", "seed", "reason"} <= set(header):
        return rows
    failed = [(line, row) for line, row in rows if row["status"] not in ("", "ok")]
    for line, row in failed:
        _LOG.warning(
            "%s, line %d: left out: %s of %s failed: %s",
            draft.where,
            line,
            row["benchmark"],
            row["model"],
            row["reason"],
        )
    by_cell: dict[tuple[str, str, str], list[Row]] = {}
    for line, row in rows:
        if row["status"] in ("", "ok"):
            by_cell.setdefault((row["model"], row["benchmark"], row.get("metric", "")), []).append((line, row))
    if rows and not by_cell:
        raise EeveeError(f"{draft.where}: all {len(rows)} rows failed; expected rows with a score")
    merged = []
    for seeds in by_cell.values():
        line, row = seeds[0]
        digests = {seed.get("data_sha256", "") for _, seed in seeds}
        if len({seed["seed"] for _, seed in seeds}) < len(seeds) or len(digests) > 1:
            raise EeveeError(
                f"{draft.where}, line {seeds[1][0]}: {row['benchmark']} of {row['model']} appears twice with one seed, "
                f"or on other data; expected one run of each model"
            )
        values = [number(seed["value"], f"{draft.where}, line {at}, column 'value'") for at, seed in seeds]
        merged.append((line, row if len(seeds) == 1 else {**row, "value": repr(sum(values) / len(values))}))
    merged = [(line, {**row, "low": "", "high": ""}) for line, row in merged]  # of each score's interval, not bounds
    return _of_one_data(draft, merged)


def _of_one_data(draft: _Draft, rows: list[Row]) -> list[Row]:
    """Without the benchmarks that models saw on different data."""
    digests: dict[str, set[str]] = {}
    for _, row in rows:
        digests.setdefault(row["benchmark"], set()).add(row.get("data_sha256", ""))
    unlike = [benchmark for benchmark, seen in digests.items() if len(seen) > 1]
    if unlike:
        _LOG.warning("%s: left out: %s, which models saw on different data", draft.where, ", ".join(unlike))
    return [(line, row) for line, row in rows if row["benchmark"] not in unlike]


def _read_wide(draft: _Draft, header: list[str], rows: list[Row], direction: str | None) -> None:
    columns = [key for key in header if key not in ("model", *MODEL_FACTS)]
    for key in columns:
        cells = [row[key] for _, row in rows if row[key].lower() not in MISSING]
        if cells and not any(map(_is_number, cells)):
            raise EeveeError(
                f"{draft.where}: column {key!r} was taken for a metric and holds text ({cells[0]!r:.80}); say which "
                f"columns name the model (--model-column) or are to be left out (--drop); taken: "
                f"{_taken_for(header, rows)}"
            )
        stated = draft.directions.get(key) or draft.directions.get(key.split("/")[0])
        draft.column(1, {"metric": key, "benchmark": draft.owners.get(key, "")}, stated or direction)
    models: set[str] = set()
    for line, row in rows:
        if row["model"] in models:
            raise EeveeError(
                f"{draft.where}, line {line}: model {row['model']!r} appears twice; ids must be unique (several "
                f"columns may name one: --model-column)"
            )
        models.add(row["model"])
        _note_model(draft, line, row)
        for key in columns:
            draft.cell(line, row["model"], key, row[key])


def _read_by_metric(draft: _Draft, header: list[str], rows: list[Row], direction: str | None) -> None:
    models = [key for key in header if key not in FACTS]
    metrics: set[str] = set()
    for line, row in rows:
        metric = draft.column(line, row, direction)
        if metric in metrics:
            raise EeveeError(f"{draft.where}, line {line}: metric {metric!r} appears twice; ids must be unique")
        metrics.add(metric)
        for model in models:
            draft.cell(line, model, metric, row[model])


def read_scores(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Scores of new models: a CSV with a column `model` and one for each subset metric; empty cells are left out.

    Raises:
        EeveeError: naming the file, line and column of what is wrong.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "new.csv"
        >>> _ = path.write_text("model,mini,ucf\nmine,93.0,\n")
        >>> read_scores(path)
        {'mine': {'mini': 93.0}}
    """
    where = Path(path)
    header, rows = _read_records(read_text(where), str(where))
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


def read_text(path: Path) -> str:
    """A file's text; an `EeveeError` that names it where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise EeveeError(f"{path}: byte {error.start} is not UTF-8; expected a CSV file in UTF-8") from None


def _read_about(draft: _Draft, text: str, where: str) -> None:
    header, rows = _read_records(text, where)
    unknown: Sequence[str] = [key for key in header if key not in FACTS]
    if unknown or not {"metric", "benchmark"} & set(header):
        raise EeveeError(f"{where}, line 1: columns {', '.join(header)}; expected metric or benchmark, and {FACTS[2:]}")
    for line, row in rows:
        draft.column(line, row, None)


def _read_models(draft: _Draft, text: str, where: str) -> None:
    header, rows = _read_records(text, where)
    names = {"family": "model_family", "date": "model_date"}
    header = [names.get(key, key) for key in header]
    if "model" not in header or not set(header) <= {"model", *MODEL_FACTS}:
        raise EeveeError(f"{where}, line 1: columns {', '.join(header)}; expected model, and any of {MODEL_FACTS}")
    for line, row in rows:
        cells = {names.get(key, key): cell for key, cell in row.items()}
        if cells["model"] not in draft.models:
            raise EeveeError(f"{where}, line {line}: model {cells['model']!r} is not in the table")
        _note_model(draft, line, cells, where)


def _note_model(draft: _Draft, line: int, row: dict[str, str], where: str = "") -> None:
    notes = draft.notes.setdefault(row["model"], {})
    for key in MODEL_FACTS:
        stated = row.get(key, "")
        if stated and notes.setdefault(key, stated) != stated:
            label = key.removeprefix("model_")
            raise EeveeError(
                f"{where or draft.where}, line {line}: model {row['model']!r} is in {label} {stated!r}, and "
                f"{notes[key]!r} before"
            )


def _drop_unmeasured(draft: _Draft) -> None:
    """Forget what the second file describes and the first does not measure."""
    measured = {metric for _, metric in draft.cells}
    draft.owners = {key: owner for key, owner in draft.owners.items() if key in measured}
    owners = set(draft.owners.values())
    draft.facts = {key: facts for key, facts in draft.facts.items() if key in owners}

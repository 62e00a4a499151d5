"""What each column of a CSV is taken for: by its name, by what the user says, else by its content."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[int, dict[str, str]]
Line = tuple[int, list[str]]

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number as files have it: Python also reads `1_0` as ten, and digits of other scripts."""
MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "-"})
MODEL_NAMES = ("model", "model_name", "model_id", "name", "checkpoint", "run")
BENCHMARK_NAMES = ("benchmark", "dataset", "data_set", "eval_dataset", "benchmark_name")
VALUE_NAMES = ("value", "score", "result")
FACTS = ("metric", "benchmark", "task", "family", "direction", "cost", "low", "high")
MODEL_FACTS = ("group", "model_family", "model_date")


@dataclass(frozen=True)
class Layout:
    """What the user says of a CSV's columns; what is left empty is told by names and content.

    Args:
        model: columns that together name a model, such as ("name", "pretrained"); joined by a space.
        value: the column of scores, which makes the file a long one.
        drop: columns to leave out.

    Example:
        >>> Layout(model=("name", "pretrained"), drop=("params",)).value
        ''
    """

    model: tuple[str, ...] = ()
    value: str = ""
    drop: tuple[str, ...] = ()


def read_records(text: str, where: str) -> tuple[list[str], list[Row]]:
    r"""Header and rows of a CSV, commas or tabs, with one header row or two.

    Of two header rows the first names benchmarks (an empty cell repeats the one before), the second metrics.
    """
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in first and "," not in first else ",")
    try:
        lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise EeveeError(f"{where}, line {reader.line_num}: {error}") from None
    if len(lines) < 2:
        raise EeveeError(f"{where}: {len(lines)} lines; expected a header and rows")
    header = [cell.strip() for cell in lines[0][1]]
    body = lines[1:]
    if _second_header(header, body):
        header = _joined(header, [cell.strip() for cell in body[0][1]])
        body = body[1:]
    for key in header:
        if not key or header.count(key) > 1:
            raise EeveeError(f"{where}, line 1: column {key!r} is empty or appears twice; ids must be unique")
    rows = []
    for line, cells in body:
        if len(cells) != len(header):
            raise EeveeError(f"{where}, line {line}: {len(cells)} cells; expected {len(header)}, as in the header")
        rows.append((line, {key: cell.strip() for key, cell in zip(header, cells, strict=True)}))
    return header, rows


def arrange(header: list[str], rows: list[Row], layout: Layout, where: str) -> tuple[list[str], list[Row]]:
    """The same table with the columns called `model`, `benchmark` and `value` where that is what they are."""
    for key in (*layout.model, *layout.drop, *filter(None, [layout.value])):
        if key not in header:
            raise EeveeError(f"{where}: no column {key!r}; the file has: {', '.join(header)}")
    dropped = set(layout.drop)
    names = [key for key in header if key not in dropped]
    by_metric = "benchmark" in names and "value" not in names and "model" not in names and not layout.value
    if by_metric and not layout.model:
        return names, [(line, {key: row[key] for key in names}) for line, row in rows]
    model = layout.model or _model_columns(names, rows)
    if not model:
        raise EeveeError(
            f"{where}, line 1: header {', '.join(header[:20])!r}; expected a column 'model' or 'benchmark', or say "
            f"which columns name a model (--model-column); taken: {taken_for(names, rows)}"
        )
    metrics = [key for key in names if key not in model]
    renamed = {key: key for key in metrics}
    value = layout.value or next((k for k in metrics if k.lower() in VALUE_NAMES), "")
    benchmark = next((k for k in metrics if k.lower() in BENCHMARK_NAMES and not _numeric(k, rows)), "")
    if value and benchmark:
        renamed |= {value: "value", benchmark: "benchmark"}
    elif layout.value:
        raise EeveeError(
            f"{where}: {layout.value!r} is to hold the scores, and no column names the benchmark (expected one of "
            f"{', '.join(BENCHMARK_NAMES)}); taken: {taken_for(names, rows)}"
        )
    out = ["model", *renamed.values()]
    return out, [
        (line, {"model": " ".join(row[key] for key in model if row[key]), **{renamed[k]: row[k] for k in metrics}})
        for line, row in rows
    ]


def taken_for(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Each column with what its content looks like, for an error."""
    shown = []
    for key in names[:20]:
        cells = [row[key] for _, row in rows[:200] if row[key].lower() not in MISSING]
        sort = "numbers" if cells and all(map(is_number, cells)) else "empty" if not cells else "text"
        shown.append(f"{key} ({sort}{f', such as {cells[0]!r}' if cells else ''})")
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def is_number(text: str) -> bool:
    """Whether a cell is a number, a percentage included."""
    digits = text.strip().removesuffix("%").rstrip()
    return NUMBER.fullmatch(digits) is not None or digits.lower() in ("inf", "-inf", "nan")


def _numeric(key: str, rows: Sequence[Row]) -> bool:
    cells = [row[key] for _, row in rows[:200] if row[key].lower() not in MISSING]
    return bool(cells) and all(map(is_number, cells))


def _model_columns(names: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    """The column called so, else the only column of text with one value for each row."""
    for name in MODEL_NAMES:
        for key in names:
            if key.lower() == name:
                return (key,)
    facts = {*FACTS, *MODEL_FACTS}
    unique = [
        key
        for key in names
        if key not in facts and not _numeric(key, rows) and len({row[key] for _, row in rows}) == len(rows)
    ]
    return (unique[0],) if len(unique) == 1 and len(rows) > 1 else ()


def _second_header(header: list[str], body: list[Line]) -> bool:
    if len(body) < 2 or len(body[0][1]) != len(header):
        return False
    if len(set(header)) == len(header) and "" not in header[1:]:
        return False
    cells = [cell.strip() for cell in body[0][1]]
    return not any(is_number(cell) for cell in cells if cell)


def _joined(first: list[str], second: list[str]) -> list[str]:
    out: list[str] = []
    last = ""
    for top, bottom in zip(first, second, strict=True):
        last = top or last
        name = top if not bottom else f"{last}/{bottom}" if last and (top or out) else bottom
        out.append(name or last)
    return out

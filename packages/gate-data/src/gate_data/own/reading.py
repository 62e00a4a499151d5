"""From a TOML file to a checked description, with the line of whatever is wrong in it."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from gate_data.errors import DataError
from gate_data.own.spec import OwnBenchmark
from wary_files.limits import refuse_special


def read_benchmark(path: str | PathLike[str]) -> OwnBenchmark:
    r"""Read and check a benchmark's TOML file.

    Args:
        path: of the file.

    Returns:
        All that it says, defaults filled in.

    Raises:
        DataError: not there, not TOML, a field that does not exist (with the nearest), or one of a wrong type or value;
            the message names file, line and field.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.toml"
        >>> _ = path.write_text('[benchmark]\nid = "birds"\n[data]\nkind = "folders"\n')
        >>> read_benchmark(path).benchmark.task
        'image-classification'
    """
    path = Path(path)
    refuse_special(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = tomllib.loads(text)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}") from error
    try:
        return OwnBenchmark.model_validate(values)
    except ValidationError as error:
        raise DataError(_problem(path, text, error)) from None


def _problem(path: Path, text: str, error: ValidationError) -> str:
    """The first thing that is wrong, where it stands, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path_in_file = [str(part) for part in first["loc"]]
    line = line_of(text, path_in_file)
    where = f"{path}{f', line {line}' if line else ''}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    name = ".".join(path_in_file)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path_in_file[-1], _known(path_in_file[:-1]), n=1, cutoff=0.5)
        hint = f"; nearest: {near[0]}" if near else f"; there are: {', '.join(_known(path_in_file[:-1]))}"
        return f"{where}: no field {name!r}{hint}{more}"
    if first["type"] == "missing":
        return f"{where}: field {name!r} is missing{more}"
    return f"{where}: field {name!r} is {first['input']!r:.80}: {first['msg']}{more}"


def _known(path_in_file: Sequence[str]) -> list[str]:
    """Names of the fields at a place."""
    model: type[BaseModel] = OwnBenchmark
    for name in path_in_file:
        field: Any = model.model_fields[name].annotation
        model = field
    return list(model.model_fields)


def line_of(text: str, path_in_file: Sequence[str]) -> int | None:
    """The line of a key (``a.b`` is ``b`` under ``[a]``), or of the nearest table above it."""
    best = None
    table: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        key = re.match(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*(?:\.|=)""", line)
        if head:
            table = [part.strip(" \"'") for part in head[1].split(".")]
            if list(path_in_file[: len(table)]) == table:
                best = number
        elif key and [*table, key[1]] == list(path_in_file[: len(table) + 1]):
            return number
    return best

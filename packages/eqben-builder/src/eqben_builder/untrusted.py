"""Files of strangers: limits of what they unpack to, JSON and zip with the file named in every error, and texts."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Name -> most of it. `EQBEN_MAX_PIXELS` and so on set others.
LIMITS: dict[str, int] = {
    "pixels": 89_478_485,  # of a picture; Pillow's own
    "member_bytes": 1 << 30,  # of one member of an archive, or one array
    "json_bytes": 1 << 30,  # of a JSON file
}


def most(name: str) -> int:
    """The limit in force."""
    variable = variable_of(name)
    value = os.environ.get(variable, "")
    if not value:
        return LIMITS[name]
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"{variable} is {value!r}, expected a positive whole number")
    return int(value)


def within(size: int, name: str, subject: str) -> None:
    """Refuse what is larger than its limit."""
    limit = most(name)
    if size > limit:
        unit = name.replace("_", " ").split()[-1]
        raise ValueError(f"{subject} has {size:,} {unit}, more than {limit:,}; {variable_of(name)} sets another limit")


def variable_of(name: str) -> str:
    """The environment's variable of a limit."""
    return f"EQBEN_MAX_{name.upper()}"


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse a JSON text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: {error.msg}") from error
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply") from None
    except ValueError as error:  # no UTF-8, or a number of more digits than Python reads
        raise ValueError(f"{where}: {error}") from error


def load_json(path: Path) -> Any:
    """Parse a JSON file."""
    within(path.stat().st_size, "json_bytes", str(path))
    content = path.read_bytes()
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from error
    except (RecursionError, ValueError):
        return parse_json(content, str(path))


def text_of_file(path: Path) -> str:
    """Return the text of a small file."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from error


@contextmanager
def opened_csv(path: Path) -> Iterator[TextIO]:
    """Open a table for the `csv` module; what is no text or no table is a ValueError that names the file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}; save it as UTF-8 (in Excel: 'CSV UTF-8')") from error
    except csv.Error as error:
        raise ValueError(f"{path} is no table: {error}") from error


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with "file, line N"; empty lines are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            within(len(line), "json_bytes", where)
            if not line.strip():
                continue
            yield where, object_of(parse_json(line, where), where)


def object_of(value: Any, where: str) -> dict[str, Any]:
    """The value, if it is an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object, found {type(value).__name__}")
    return value


@contextmanager
def opened_zip(path: Path, name: str = "") -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, and name it in whatever goes wrong while the block reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, ValueError):
        raise
    except Exception as error:  # zipfile raises errors of every kind over broken archives
        raise ValueError(f"{name or path} cannot be read from its archive: {error}") from error

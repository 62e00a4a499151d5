"""Files of strangers: JSON, tables and zip with the file named in every error."""

from __future__ import annotations

import csv
import json
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from wary_files.limits import within
from wary_files.text import parsed_json

if TYPE_CHECKING:
    from collections.abc import Iterator


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse a JSON text."""
    try:
        return parsed_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: {error.msg}") from error
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply") from None
    except ValueError as error:  # no UTF-8, or a number of more digits than Python reads
        raise ValueError(f"{where}: {error}") from error


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
            within(len(line), "bytes", where)
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

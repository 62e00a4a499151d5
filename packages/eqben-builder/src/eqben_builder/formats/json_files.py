"""JSON from strangers: an error names the file and the line, whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.limits import within

if TYPE_CHECKING:
    from collections.abc import Iterator


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

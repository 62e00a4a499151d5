"""The value of a stranger's JSON file, or one line on what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wary_files.errors import DataError
from wary_files.limits import refuse_special, within
from wary_files.text import parsed_json


class JsonFileError(DataError):
    """A file that holds no JSON; ``reason`` leaves the path and the line out, for errors with words of their own.

    Example:
        >>> print(JsonFileError("votes.json", "not JSON (Expecting value)", 3))
        votes.json, line 3: not JSON (Expecting value)
    """

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        super().__init__(f"{path}{'' if line is None else f', line {line}'}: {reason}")
        self.reason, self.line = reason, line


def read_json(path: str | Path) -> Any:
    """Return the value of a JSON file in UTF-8, with or without a byte order mark.

    Args:
        path: of the file.

    Raises:
        OSError: it is not there, or cannot be read.
        JsonFileError: a folder, a pipe, more bytes than the limit, bytes that are not UTF-8, no JSON, a key twice in
            one object, a nesting that is too deep, or a number of too many digits; names the file, and the line if it
            has one.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "votes.json"
        >>> _ = path.write_text('{"cat": 2}')
        >>> read_json(path)
        {'cat': 2}
    """
    path = Path(path)
    if path.is_dir():
        raise JsonFileError(path, "a folder or a pipe, expected a file")
    try:
        refuse_special(path)
    except DataError:
        raise JsonFileError(path, "a folder or a pipe, expected a file") from None
    size = path.stat().st_size
    try:
        within(size, "bytes", "the file")
    except DataError as error:
        raise JsonFileError(path, str(error)) from None
    content = path.read_bytes()
    try:
        return parsed_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JsonFileError(path, f"not UTF-8 (byte {content[error.start]:#04x})", line) from None
    except json.JSONDecodeError as error:
        raise JsonFileError(path, f"not JSON ({error.msg})", error.lineno) from None
    except RecursionError:
        raise JsonFileError(path, "nested too deeply") from None
    except ValueError as error:  # a key that comes twice, a number of more digits than Python reads
        raise JsonFileError(path, str(error)) from None

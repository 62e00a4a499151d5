"""Files of knowledge read whole, with errors that name file and place, and written whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class KnowledgeFileError(ValueError):
    """A file of knowledge is not in its format; the message names file, line and field.

    Example:
        >>> import tempfile
        >>> from knowledge_prompts.sources.elevater_files import read_gpt3
        >>> path = Path(tempfile.mkdtemp()) / "gpt3.tsv"
        >>> _ = path.write_text('[{"classname": "hen"}]')
        >>> read_gpt3(path)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        knowledge_prompts.sources.json_records.KnowledgeFileError: ...gpt3.tsv...
    """


def complaint(path: str | Path, line: int, text: str) -> KnowledgeFileError:
    """The error for one line of a file."""
    return KnowledgeFileError(f"{path}, line {line}: {text}")


def read_text(path: str | Path) -> str:
    """The file's text."""
    raw = Path(path).read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise complaint(path, line, f"not UTF-8 (byte {raw[error.start]:#04x})") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a whole file: a reader sees the old one or the new one. A device or a pipe is written to as it is."""
    from wary_files.durable import write_whole

    write_whole(Path(path), text.encode("utf-8"), follow=True)


def read_json(path: str | Path, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """The one list or object that a file of JSON holds."""
    try:
        content = json.loads(read_text(path), object_pairs_hook=without_repetition)
    except json.JSONDecodeError as error:
        raise complaint(path, error.lineno, f"not JSON ({error.msg})") from None
    except RecursionError:
        raise KnowledgeFileError(f"{path}: lists or objects nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python reads
        if isinstance(error, KnowledgeFileError):
            raise
        raise KnowledgeFileError(f"{path}: {error}") from None
    except KeyError as error:
        raise KnowledgeFileError(f"{path}: key {error.args[0]!r} is given twice in one object") from None
    if not isinstance(content, kind):
        name = "list" if kind is list else "object"
        raise KnowledgeFileError(f"{path}: expected one JSON {name}, found {type(content).__name__}")
    return content


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text's keys and values; a `KeyError` for a key that is given twice."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise KeyError(key)
        content[key] = value
    return content

"""Files of knowledge read whole, with errors that name file and place, and written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wary_files import json_files


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
        content = json_files.read_json(path)
    except json_files.JsonFileError as error:
        raise KnowledgeFileError(str(error)) from None
    if not isinstance(content, kind):
        name = "list" if kind is list else "object"
        raise KnowledgeFileError(f"{path}: expected one JSON {name}, found {type(content).__name__}")
    return content

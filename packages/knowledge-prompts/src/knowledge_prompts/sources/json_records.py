"""JSON read record by record, so that an error can name the line of the record that is wrong."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


class KnowledgeFileError(ValueError):
    """A file of knowledge is not in its format; the message names file, line and field.

    Example:
        >>> import tempfile
        >>> from knowledge_prompts import read_gpt3
        >>> path = Path(tempfile.mkdtemp()) / "gpt3.tsv"
        >>> _ = path.write_text('[{"classname": "hen"}]')
        >>> read_gpt3(path)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        knowledge_prompts.sources.json_records.KnowledgeFileError: ...gpt3.tsv...
    """


class Record(NamedTuple):
    """One element of a JSON list, or one entry of a JSON object, with the line on which it starts."""

    line: int
    key: str
    value: Any


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
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        # A plain open, since the kernel then applies the umask; mkstemp gives nobody else a right, and to read the
        # umask is to set it for every thread.
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def list_records(path: str | Path) -> list[Record]:
    """The elements of a file that holds one JSON list; every key is empty."""
    return list(_Reader(path, "[", "]").records())


def object_records(path: str | Path) -> list[Record]:
    """The entries of a file that holds one JSON object."""
    records = list(_Reader(path, "{", "}").records())
    first: dict[str, int] = {}
    for record in records:
        if record.key in first:
            raise complaint(path, record.line, f"key {record.key!r} was given before, on line {first[record.key]}")
        first[record.key] = record.line
    return records


class _Reader:
    """One pass over the outermost list or object of a text."""

    def __init__(self, path: str | Path, opening: str, closing: str) -> None:
        self.path, self.opening, self.closing = path, opening, closing
        self.text = read_text(path)
        self.at = self.line_at = 0
        self.line = 1

    def records(self) -> Iterator[Record]:
        kind = "list" if self.opening == "[" else "object"
        self.expect(self.opening, f"expected one JSON {kind}")
        if self.peek() == self.closing:
            self.at += 1
        else:
            while True:
                self.peek()
                line, key = self.current_line(), ""
                if self.opening == "{":
                    key = self.value()
                    if not isinstance(key, str):
                        raise complaint(self.path, line, f"expected a key in quotation marks, found {key!r}")
                    self.expect(":", "expected ':' after the key")
                yield Record(line, key, self.value())
                if self.peek() == self.closing:
                    self.at += 1
                    break
                self.expect(",", f"expected ',' or {self.closing!r}")
        if self.peek():
            raise complaint(self.path, self.current_line(), f"text after the end of the JSON {kind}")

    def peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1
        return self.text[self.at : self.at + 1]

    def expect(self, character: str, otherwise: str) -> None:
        if self.peek() != character:
            actual = repr(self.text[self.at : self.at + 20]) if self.peek() else "the end of the file"
            raise complaint(self.path, self.current_line(), f"{otherwise}, found {actual}")
        self.at += 1

    def value(self) -> Any:
        self.peek()
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise complaint(self.path, self.current_line(), f"not JSON ({error.msg})") from None
        except RecursionError:
            raise complaint(self.path, self.current_line(), "lists or objects nested too deeply") from None
        return value

    def current_line(self) -> int:
        self.line += self.text.count("\n", self.line_at, self.at)
        self.line_at = self.at
        return self.line

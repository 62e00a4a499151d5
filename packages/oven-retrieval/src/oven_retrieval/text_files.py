"""Text files, packed or not, whose lines and unpacked sizes have limits, and the records in them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO, cast

from oven_retrieval.entity import EntityFileError
from wary_files.tables import held_row
from wary_files.text import parsed_json

LINE = 64_000_000
"""Characters of one line, at most; the environment's `OVEN_MAX_LINE` sets another limit."""
UNPACKED = 250
"""Times its own size that a packed file may unpack to; `OVEN_MAX_UNPACKED` sets another limit."""
_FREE = 1_000_000_000
"""Characters that any packed file may hold: what is small does no harm."""


def open_text(path: str | Path) -> TextIO:
    r"""Open a UTF-8 file, unpacked where its name ends in `.gz` or `.bz2`; the caller closes it."""
    path = Path(path)
    line, times = _limit("OVEN_MAX_LINE", LINE), _limit("OVEN_MAX_UNPACKED", UNPACKED)
    if path.suffix not in (".gz", ".bz2"):
        return _Lines(path.open("rb"), path, line, None)
    most = max(_FREE, times * path.stat().st_size)
    return _Lines(gzip.open(path, "rb") if path.suffix == ".gz" else bz2.open(path, "rb"), path, line, most)


LONGEST_FIELD = 2**24
"""Characters of a cell; Python's csv refuses more than 131,072, until somebody sets another limit."""


class Reading:
    """How much of a file has been read, for progress."""

    def __init__(self, path: str | Path) -> None:
        self._path, self.file = Path(path), cast("TextIO | None", None)

    def share(self) -> float:
        """Return the share of the file's bytes that has been read, packed ones too; 0 where that is not known."""
        try:
            size = self._path.stat().st_size
            return 0.0 if self.file is None or not size else os.lseek(self.file.fileno(), 0, os.SEEK_CUR) / size
        except (OSError, ValueError):  # a pipe, or a file that is closed
            return 0.0


def numbered_lines(path: str | Path, reading: Reading | None = None) -> Generator[tuple[int, str], None, None]:
    """Yield (line number, line) of a UTF-8 file without its byte order mark; other bytes are an error with a line."""
    number = 0
    with open_text(path) as file:
        if reading is not None:
            reading.file = file
        lines = iter(file)
        while True:
            try:
                line = next(lines)
            except StopIteration:
                return
            except UnicodeDecodeError as error:
                raise EntityFileError(
                    path, number + 1, f"expected UTF-8 (at or after this line): {error.reason}"
                ) from None
            except (EOFError, OSError) as error:
                raise EntityFileError(path, number + 1, f"the compressed file is damaged: {error}") from None
            number += 1
            yield number, line.removeprefix("\ufeff") if number == 1 else line


def json_objects(path: str | Path, reading: Reading | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file; blank lines are skipped."""
    with closing(numbered_lines(path, reading)) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = parsed_json(line)
            except (ValueError, RecursionError) as error:
                raise EntityFileError(path, number, f"expected one JSON object per line: {error}") from None
            if not isinstance(record, dict):
                raise EntityFileError(path, number, f"expected a JSON object, got {type(record).__name__}")
            yield number, record


def csv_objects(
    path: str | Path, reading: Reading | None = None, *, required: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, cells by the header's names) of a CSV file.

    Raises:
        EntityFileError: no header with the required names, or a line with more cells than the header.
    """
    if csv.field_size_limit() < LONGEST_FIELD:
        csv.field_size_limit(LONGEST_FIELD)
    with closing(numbered_lines(path, reading)) as lines:
        yield from _rows_of(path, csv.reader((line for _, line in lines), strict=True), required)


def _rows_of(path: str | Path, reader: Any, required: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    header: list[str] = []
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise EntityFileError(path, first, f"expected CSV: {_quotes(error)}") from None
        if not cells:
            continue
        if not header:
            header = cells
            _check_header(path, header, required)
            continue
        if len(cells) > len(header):
            raise EntityFileError(path, first, f"expected {len(header)} cells, got more")
        record = {**dict.fromkeys(header), **dict(zip(header, cells, strict=False))}
        if held := held_row(cells):
            problem = f"a quote opens in this row and holds the row {held!r:.60}"
            raise EntityFileError(path, first, f"{problem}: close it, or double it where it is a part of the text")
        for field in required:
            lines = (record[field] or "").split("\n")[1:]
            if rows := [line for line in lines if line.count(",") >= len(header) - 1 > 0]:
                raise EntityFileError(
                    path, first, f"expected {field} on one line: a quote opens in it and holds the row {rows[0]!r:.60}"
                )
        yield first, record
    if not header:
        _check_header(path, header, required)


def _quotes(error: csv.Error) -> str:
    if "end of data" in str(error):
        return "a quote opens in this row and is never closed"
    if "expected after" in str(error):
        return (
            "a cell begins with a quote and goes on behind the closing one; double quotes that are a part of the text"
        )
    return str(error)


def _check_header(path: str | Path, header: Sequence[str], required: Sequence[str]) -> None:
    if doubled := [name for name, count in Counter(header).items() if name and count > 1]:
        raise EntityFileError(path, 1, f"column {doubled[0]!r:.80} comes twice")
    if not set(required) <= set(header):
        if len(header) == 1 and ";" in header[0]:
            raise EntityFileError(path, 1, "cells are separated by ';', expected ',': save it as CSV with commas")
        cells = ", ".join(map(repr, header[:12]))[:200] or "empty"
        raise EntityFileError(path, 1, f"expected a header with {' and '.join(required)}; the first line is {cells}")


def text_field(record: Mapping[str, Any], field: str, *, required: bool = True) -> str:
    """A record's text; an empty one where there is none and none is required."""
    value = record.get(field)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        problem = f"missing; the fields are {list(record)[:12]}" if field not in record else f"got {value!r:.80}"
        raise ValueError(f"{field}: expected a text, {problem}")
    return value


def _limit(variable: str, otherwise: int) -> int:
    setting = os.environ.get(variable, "")
    if setting and not (setting.isdecimal() and int(setting) > 0):
        raise ValueError(f"{variable} is {setting!r}, expected a positive whole number")
    return int(setting or otherwise)


class _Lines(io.TextIOWrapper):
    def __init__(self, file: Any, path: Path, line: int, most: int | None) -> None:
        super().__init__(file, encoding="utf-8", newline="")
        self._path, self._line, self._most, self._number, self._read = path, line, most, 0, 0

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # a base of typeshed's gives bytes
        try:
            line = super().readline(self._line + 1 if size < 0 else size)
        except zlib.error as error:  # the others say OSError over a damaged file
            raise OSError(str(error)) from error
        self._number += 1
        self._read += len(line)
        if len(line) > self._line:
            self._refuse(f"a line of more than {self._line:,} characters; OVEN_MAX_LINE sets another limit")
        if self._most is not None and self._read > self._most:
            self._refuse(
                f"the packed file unpacks to more than {self._most:,} characters; OVEN_MAX_UNPACKED sets how many "
                "times its own size it may"
            )
        return line

    def __next__(self) -> str:  # type: ignore[override]  # likewise
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def _refuse(self, problem: str) -> None:
        raise EntityFileError(self._path, self._number, problem)

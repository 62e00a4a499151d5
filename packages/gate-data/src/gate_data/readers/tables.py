"""Tables as rows that know their file and line: CSV, TSV, JSON lines, JSON and, with an extra, Parquet."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from gate_data.errors import DataError
from gate_data.imports import extra
from gate_data.readers.json_lists import entries
from wary_files import json_files
from wary_files.limits import most, reading, refuse_special, variable, within
from wary_files.tables import held_row
from wary_files.text import comma_hint, parsed_json

_LONGEST = 2**24
"""Characters of a field; Python's csv refuses more than 131,072, until somebody sets another limit."""
_AT_ONCE = 256
"""Rows of Parquet: a long text that the file holds once may stand in each of them."""
_UNPACKED = 20
"""A Parquet file may unpack to so many times its bytes, or to what a part of it may have."""


class Row(NamedTuple):
    """One row of a table; a field that is missing or wrong is an error that names file, line and field.

    Example:
        >>> row = Row(Path("labels.csv"), 7, {"age": "31"})
        >>> row.integer("age")
        31
    """

    file: Path
    line: int
    values: Mapping[str, Any]
    unit: str = "line"

    @property
    def where(self) -> str:
        """File and line, or row, as an error names them."""
        return f"{self.file}, {self.unit} {self.line}"

    def error(self, field: str, expected: str) -> DataError:
        """What is wrong with a field, to be raised by the caller."""
        shown = f"is {str(self.values[field])[:80]!r}" if self.values.get(field) is not None else "is missing"
        return DataError(f"{self.where}: field {field!r} {shown}, expected {expected}")

    def text(self, field: str) -> str:
        """A field that must not be empty."""
        text = self._stripped(field)
        if not is_whole(text):
            raise self.error(field, "text without null characters (\\0) and lone surrogates (\\ud800)")
        return text

    def _stripped(self, field: str) -> str:
        value = self.values.get(field)
        blank = not isinstance(value, str | int | float) or not str(value).strip()
        if blank or (isinstance(value, float) and not math.isfinite(value)):
            raise self.error(field, "text")
        return str(value).strip()

    def mark(self, field: str, *, needed: bool = False, most: int = 200) -> str:
        """A text of some letters, a number or a truth value, without blanks around it; empty for none, unless needed.

        It is stored for each sample, so that its length counts as often.
        """
        value = self.values.get(field)
        if value is None or (isinstance(value, float) and math.isnan(value)) or not str(value).strip():
            if needed:
                raise self.error(field, "text")
            return ""
        if isinstance(value, list | dict | bytes):
            raise self.error(field, "a text or a number")
        text = str(value).strip()
        if len(text) > most or not is_whole(text):
            raise self.error(field, f"a text of at most {most:,} characters")
        return text

    def path(self, field: str) -> str:
        """A path inside the folder that the file is about."""
        inner = self._stripped(field)  # whose signs a file's name may have
        if PurePath(inner).is_absolute() or ".." in PurePath(inner).parts or "\0" in inner:
            raise self.error(field, "a path inside the folder of its files")
        return inner

    def number(self, field: str, low: float = -math.inf, high: float = math.inf, blank: float | None = None) -> float:
        """A finite number in a range; ``blank`` stands for an empty field where it is given."""
        value = self.values.get(field)
        if blank is not None and (value is None or str(value).strip() == ""):
            return blank
        try:
            number = math.nan if _odd(value) else float(value)  # type: ignore[arg-type]  # whatever it is, float() says
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (low <= number <= high and math.isfinite(number)):
            raise self.error(field, _span("number", low, high) + comma_hint(value))
        return number

    def integer(self, field: str, low: float = -math.inf, high: float = math.inf) -> int:
        """A whole number in a range, exact: one with a point or an exponent has to be below 2**53."""
        value = self.values.get(field)
        try:
            exact = int(value) if isinstance(value, int | str) and not _odd(value) else None
        except ValueError:
            exact = None
        if exact is None:
            number = self.number(field, low, high)
            if number != int(number) or abs(number) >= 2**53:
                raise self.error(field, "a whole number")
            exact = int(number)
        if not low <= exact <= high:
            raise self.error(field, _span("number", low, high))
        return exact

    def known(self, field: str, ids: Container[int], kind: str) -> int:
        """The id of something of a kind, among those that the file has."""
        identity = self.integer(field)
        if identity not in ids:
            raise self.error(field, f"the id of {kind} of this file")
        return identity

    def one_of(self, field: str, index_of: Mapping[str, int]) -> int:
        """The index of a name among those known."""
        value = self.text(field)
        if value not in index_of:
            names = sorted(index_of)
            raise self.error(field, f"one of {', '.join(names[:8])}{' …' if len(names) > 8 else ''}")
        return index_of[value]


_BROKEN = re.compile("[\0\ud800-\udfff]")


def is_whole(text: str) -> bool:
    """Whether a text can be written and read back: JSON may hold halves of signs, and NumPy drops zeros at the end."""
    return _BROKEN.search(text) is None


def _odd(value: object) -> bool:
    """Whether Python alone would take a value for a number: ``1_0``, digits of other scripts, or true."""
    return isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.isascii()))


def _span(unit: str, low: float, high: float) -> str:
    return f"a {unit}" if math.isinf(low) and math.isinf(high) else f"a {unit} from {low:g} to {high:g}"


def by_id(rows: Iterable[Row]) -> dict[int, Row]:
    """Rows by their field ``id``, in their order."""
    rows_by_id: dict[int, Row] = {}
    for row in rows:
        identity = row.integer("id")
        if identity in rows_by_id:
            raise row.error("id", f"another than that of {rows_by_id[identity].unit} {rows_by_id[identity].line}")
        rows_by_id[identity] = row
    return rows_by_id


def table(path: Path, needed: Sequence[str], delimiter: str | None = None) -> Iterator[Row]:
    r"""The rows of a table with a header.

    Args:
        path: ``.csv``, ``.tsv``, ``.tab``, ``.txt``, ``.jsonl`` or ``.parquet``, by its ending.
        needed: fields that the header must have.
        delimiter: between fields; by the file's ending, or the first line's tabs, where None.

    Yields:
        Rows; their line is that of the file, counted from 1. Parquet has rows instead, counted from 0.

    Raises:
        DataError: a missing file, text that is not UTF-8, a header without a needed field, a row with more fields than
            the header, or no row at all.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("image,level\n10_left,0\n")
        >>> [(row.line, row.text("image"), row.integer("level")) for row in table(path, ["image", "level"])]
        [(2, '10_left', 0)]
    """
    if not path.is_file():
        raise DataError(f"{path} is not there")
    empty = True
    for row in _rows(path, delimiter):
        if empty and (missing := [field for field in needed if field not in row.values]):
            header = "" if row.unit == "row" else ", line 1"
            raise DataError(
                f"{path}{header}: no field {missing[0]!r}, expected {', '.join(needed)}; "
                f"found {', '.join(map(str, row.values))[:200]}"
            )
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} holds no rows; expected {', '.join(needed) or 'at least one'}")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a list that are not blank, stripped, with their numbers from 1; there has to be one.

    Example:
        >>> next(lines(Path("split/test.txt")))  # doctest: +SKIP
        (1, 'owl/1.jpg')
    """
    empty = True
    refuse_special(path)
    with reading(str(path), "UTF-8 text"), path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                empty = False
                yield number, line.strip()
    if empty:
        raise DataError(f"{path} holds no lines")


def fields(path: Path, *names: str, separator: str | None = None, last: bool = False) -> Iterator[Row]:
    """The lines of a list as rows: so many fields between blanks or separators, of which one is all that is left.

    Args:
        path: of the list.
        names: of the fields.
        separator: between fields; any blanks where None.
        last: whether the first field holds what is left, blanks included, and not the last one.

    Example:
        >>> next(fields(Path("images.txt"), "number", "file")).text("file")  # doctest: +SKIP
        'my photos/1.jpg'
    """
    for number, line in lines(path):
        parts = (line.rsplit if last else line.split)(separator, len(names) - 1)
        if len(parts) != len(names):
            raise DataError(f"{path}, line {number}: expected the fields {', '.join(names)}, found {line[:80]!r}")
        yield Row(path, number, dict(zip(names, map(str.strip, parts), strict=True)))


def read_json(path: Path) -> Any:
    """The value of a JSON file within the limit of bytes; a file that is not there is a `DataError` as well."""
    try:
        return json_files.read_json(path)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error


def records(path: Path, field: str) -> Iterator[Row]:
    """The objects in the list under a field of a JSON file, as rows from 0; one of them is in memory at a time.

    Example:
        >>> next(records(Path("train.json"), "images")).integer("id")  # doctest: +SKIP
        5
    """
    empty = True
    try:
        for number, entry in entries(path, field):
            if not isinstance(entry, dict):
                raise DataError(f"{path}: {field}, entry {number} is a {type(entry).__name__}, expected an object")
            empty = False
            yield Row(path, number, entry, "entry")
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path} is no JSON of objects: {error}") from error
    except RecursionError:
        raise DataError(f"{path}: nested too deeply") from None
    if empty:
        raise DataError(f"{path}: {field!r} is missing or empty, expected a list that is not empty")


def objects(path: Path, content: Any, field: str, least: int = 0) -> list[Row]:
    """The same of a file that was read whole; there may be none, if no least number is given."""
    listed = content.get(field) if isinstance(content, dict) else None
    if not isinstance(listed, list) or len(listed) < least or any(not isinstance(entry, dict) for entry in listed):
        raise DataError(f"{path}: {field!r} is no list of {'at least one ' if least else ''}objects")
    return [Row(path, number, entry, f"{field}, entry") for number, entry in enumerate(listed)]


def _rows(path: Path, delimiter: str | None) -> Iterator[Row]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    refuse_special(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if path.suffix == ".jsonl":
                yield from _json_lines(path, file)
                return
            if delimiter is None:
                delimiter = "\t" if path.suffix in (".tsv", ".tab") or "\t" in file.readline() else ","
                file.seek(0)
            yield from _records(path, file, delimiter)
    except UnicodeDecodeError as error:
        with path.open("rb") as file:
            how = "it is UTF-16: " if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else ""
        hint = f"{how}save it as UTF-8 (in Excel: 'CSV UTF-8')"
        raise DataError(f"{path} cannot be read as a table: {error}; {hint}") from error


def _records(path: Path, file: Any, delimiter: str) -> Iterator[Row]:
    """Rows of a CSV or TSV file below its header, with the number of the line in which each begins."""
    if csv.field_size_limit() < _LONGEST:
        csv.field_size_limit(_LONGEST)
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    names: list[str] | None = None
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{path}, line {first} cannot be read as a row: {_problem(error)}") from error
        if not cells:
            continue
        if names is None:
            names = cells
            if len(names) == 1 and ";" in names[0]:
                raise DataError(
                    f"{path}, line 1: fields are separated by ';', expected ',': save it as CSV with commas, "
                    "or as .tsv with tabs"
                )
            if doubled := [name for name, count in Counter(names).items() if name and count > 1]:
                raise DataError(f"{path}, line 1: the field {doubled[0]!r} comes twice")
            continue
        if reader.line_num > first and (held := held_row(cells, delimiter)):
            raise DataError(
                f"{path}, line {first}: a quote opens in this row and holds the rows behind it, such as {held[:60]!r}: "
                "close it, or double it where it is a part of the text"
            )
        if len(cells) > len(names):
            raise DataError(f"{path}, line {first}: {len(cells)} fields, expected {len(names)}")
        given = dict(zip(names, cells, strict=False))
        yield Row(path, first, given if len(cells) == len(names) else {**dict.fromkeys(names), **given})


def _problem(error: csv.Error) -> str:
    if "end of data" in str(error):
        return "a quote opens in it and is never closed; close it, or double it where it is a part of the text"
    if "expected after" in str(error):
        return (
            "a cell begins with a quote and goes on behind the closing one; double quotes that are a part of the text"
        )
    return str(error)


def _json_lines(path: Path, file: Any) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            value = parsed_json(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number} is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise DataError(f"{path}, line {number} holds a {type(value).__name__}, expected an object")
        yield Row(path, number, value)


def _parquet(path: Path) -> Iterator[Row]:
    parquet = extra("hub", "pyarrow.parquet", f"{path} needs pyarrow")
    from pyarrow import ArrowException

    try:
        with parquet.ParquetFile(path) as file:
            names = Counter(file.schema_arrow.names)
            if doubled := [name for name, count in names.items() if count > 1]:
                raise DataError(f"{path}: the field {doubled[0]!r} comes twice")
            sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups)]
            for group, size in enumerate(sizes):
                within(size, "bytes", f"{path}, row group {group}")
            number, unpacked, limit = 0, 0, max(most("bytes"), _UNPACKED * path.stat().st_size)
            for group, size in enumerate(sizes):
                at_once = max(1, min(_AT_ONCE, most("bytes") // max(1, size)))  # each may hold the longest text
                for batch in file.iter_batches(at_once, row_groups=[group]):
                    unpacked += batch.nbytes
                    if unpacked > limit:
                        raise DataError(
                            f"{path} unpacks to more than {limit:,} bytes; {variable('bytes')} sets another limit"
                        )
                    for values in batch.to_pylist():
                        yield Row(path, number, values, "row")
                        number += 1
    except DataError:
        raise
    except (ArrowException, OSError, ValueError, OverflowError) as error:  # such as a date that Python has not
        raise DataError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())[:300]}") from error

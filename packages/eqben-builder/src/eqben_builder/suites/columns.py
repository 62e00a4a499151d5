"""Pictures in the columns of parquet and arrow files, read when they are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.formats import Picture

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ColumnPicture(Picture):
    """A picture in a table; of an arrow file only what is looked at is in memory."""

    table: Any = field(default=None, repr=False, compare=False)
    column: str = ""
    row: int = 0

    def read(self) -> bytes:
        """The bytes as they are stored."""
        held = self.table.column(self.column)[self.row].as_py()
        content = held.get("bytes") if isinstance(held, dict) else held
        if not isinstance(content, bytes) or not content:
            raise ValueError(f"{self.name}: column {self.column!r} holds no picture's bytes in row {self.row}")
        return content


def column_picture(table: Any, column: str, row: int, path: Path) -> ColumnPicture:
    """The picture of a row; a `ValueError` where there is no such column."""
    if column not in table.column_names:
        raise ValueError(f"{path}: no column {column!r}; there are {', '.join(table.column_names)}")
    return ColumnPicture(path, f"{column}, row {row}", table=table, column=column, row=row)


def tables_of(folder: Path, *patterns: str) -> Iterator[tuple[Path, Any]]:
    """The tables of a folder's files, by name, in the folder itself or in its `data`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("parquet and arrow files need pyarrow: pip install 'eqben-builder[parquet]'") from error
    found = [path for pattern in patterns for path in sorted(folder.rglob(pattern))]
    if not found:
        raise FileNotFoundError(f"{folder} holds no {' or '.join(patterns)}")
    for path in found:
        try:
            if path.suffix == ".parquet":
                yield path, pq.read_table(path)
            else:
                yield path, pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} cannot be read: {error}") from error

"""Folders are written beside their place, synced, and take it at once or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import FORMAT, MANIFEST, Array
from wary_files.durable import one_writer, replace_folder, restore, unfinished, write_file

if TYPE_CHECKING:
    from types import TracebackType

_FLUSH = 1 << 20


class Column:
    """One column that is being written: raw little-endian values, hashed on the way."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width
        self.count = 0
        self.path = path
        self._file: BinaryIO = path.open("wb")  # closed by `close` or `discard`
        self._sha = hashlib.sha256()

    def extend(self, values: npt.ArrayLike) -> None:
        """Append values, shape [n, *width]."""
        block = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1, *self.width)
        view = block.data.cast("B") if block.size else memoryview(b"")
        with self._named():
            self._file.write(view)
        self._sha.update(view)
        self.count += len(block)

    def close(self) -> dict[str, Any]:
        """Finish the file; returns its entry of the manifest."""
        with self._named():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        return {"dtype": self.dtype.str, "shape": [self.count, *self.width], "sha256": self._sha.hexdigest()}

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """A full disk, like every failure to write, is told with the file's name, which Python leaves out here."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.path)) from None

    def discard(self) -> None:
        """Close the file without an entry, whatever is still in its buffer."""
        with contextlib.suppress(OSError):
            self._file.close()


class TextColumn:
    """Texts that are being written, as one run of UTF-8 bytes and where each ends."""

    def __init__(self, bytes_column: Column, ends_column: Column, sums_column: Column | None = None) -> None:
        self._bytes, self._ends, self._sums = bytes_column, ends_column, sums_column
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._end = 0

    def append(self, text: str) -> None:
        """Append one text."""
        encoded = text.encode("utf-8", "surrogatepass")
        self._pending.append(encoded)
        self._pending_size += len(encoded)
        if self._pending_size > _FLUSH or len(self._pending) > _FLUSH:
            self.flush()

    def flush(self) -> None:
        """Hand what is pending to the files."""
        if self._pending:
            ends = self._end + np.cumsum([len(text) for text in self._pending], dtype=np.int64)
            self._bytes.extend(np.frombuffer(b"".join(self._pending), dtype=np.uint8))
            self._ends.extend(ends)
            if self._sums is not None:
                self._sums.extend(np.fromiter(map(zlib.crc32, self._pending), np.uint32, len(self._pending)))
            self._end = int(ends[-1])
            self._pending, self._pending_size = [], 0


class FolderWriter:
    """Write columns to `<folder>.partial`, which takes its place at the end: a kill leaves the old folder or the new.

    The folder's lock is held from the beginning to the end, and what a killed writer has left is cleared.
    """

    def __init__(self, path: str | Path, kind: str, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self.kind, self._overwrite = kind, overwrite
        self._check_place()
        self.meta: dict[str, Any] = {}
        self._partial = unfinished(self.path)
        self._lock = contextlib.ExitStack()
        self._columns: dict[str, Column] = {}
        self._texts: list[TextColumn] = []

    def _check_place(self) -> None:
        if self.path.exists() and not self._overwrite:
            raise FileExistsError(f"{self.path} exists; expected a new folder, or overwrite")
        if self.path.exists() and not (self.path / MANIFEST).is_file():
            raise FileExistsError(f"{self.path} exists and holds no {MANIFEST}: it is not overwritten")

    def __enter__(self) -> FolderWriter:
        self._lock.enter_context(one_writer(self.path))
        try:
            restore(self.path)
            self._check_place()
            if self._partial.exists():
                shutil.rmtree(self._partial)
            self._partial.mkdir(parents=True)
        except BaseException:
            self._lock.close()
            raise
        return self

    def column(self, name: str, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> Column:
        """Start a column of numbers."""
        self._columns[name] = Column(self._partial / f"{name}.bin", dtype, width)
        return self._columns[name]

    def texts(self, name: str, *, summed: bool = False) -> TextColumn:
        """Start a column of texts, with a checksum of each where it is to be compared whenever it is read."""
        sums = self.column(f"{name}.sums", np.uint32) if summed else None
        text = TextColumn(self.column(f"{name}.utf8", np.uint8), self.column(f"{name}.ends", np.int64), sums)
        self._texts.append(text)
        return text

    def array(self, name: str, values: Array) -> None:
        """Write a whole column at once."""
        self.column(name, values.dtype, values.shape[1:]).extend(values)

    def table(self, prefix: str, columns: Any) -> None:
        """Write a NamedTuple of columns as `<prefix>_<name>`; those that are None are left out."""
        for name, values in columns._asdict().items():
            if values is not None:
                self.array(f"{prefix}_{name}", values)

    def scratch(self, name: str, dtype: npt.DTypeLike, length: int) -> Array:
        """An array in a file that goes when the folder is finished: the system may take its memory back."""
        if not length:
            return np.empty(0, dtype)
        file = self._partial / f"{name}.scratch"
        mapped = np.memmap(file, dtype=dtype, mode="w+", shape=(length,))
        return cast(Array, mapped.view(np.ndarray))

    def adopt(self, name: str, file: str | Path) -> None:
        """Take a finished file in as a column of bytes; it is hashed in pieces and removed from its old place."""
        column = self.column(name, np.uint8)
        with Path(file).open("rb") as handle:
            while piece := handle.read(_FLUSH * 8):
                column.extend(np.frombuffer(piece, dtype=np.uint8))
        Path(file).unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if kind is not None:
                self._discard()
                return
            try:
                self._finish()
            except BaseException:
                self._discard()
                raise

    def _discard(self) -> None:
        for column in self._columns.values():
            column.discard()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _finish(self) -> None:
        for text in self._texts:
            text.flush()
        entries = {name: column.close() for name, column in self._columns.items()}
        for file in self._partial.glob("*.scratch"):
            file.unlink()
        content = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        manifest = {"format": FORMAT, "kind": self.kind, "hash": content, "meta": self.meta, "columns": entries}
        write_file(self._partial / MANIFEST, json.dumps(manifest, indent=1))
        replace_folder(self._partial, self.path)

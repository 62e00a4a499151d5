"""A folder of memory-mapped columns with a manifest and hashes, written at once or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from types import TracebackType

Array = npt.NDArray[Any]
MANIFEST = "manifest.json"
_FORMAT = 1
_FLUSH = 1 << 20


def replaced(path: Path) -> Path:
    """Where a folder lies while another takes its place."""
    return path.with_name(path.name + ".old")


class FolderError(ValueError):
    """A folder that is not what its manifest says, or not of the kind that was asked for."""


class Column:
    """One column that is being written: raw little-endian values, hashed on the way."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width
        self.count = 0
        self._file: BinaryIO = path.open("wb")  # closed by `close` or `discard`
        self._sha = hashlib.sha256()

    def extend(self, values: npt.ArrayLike) -> None:
        """Append values, shape [n, *width]."""
        block = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1, *self.width)
        view = block.data.cast("B") if block.size else memoryview(b"")
        self._file.write(view)
        self._sha.update(view)
        self.count += len(block)

    def close(self) -> dict[str, Any]:
        """Finish the file; returns its entry of the manifest."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"dtype": self.dtype.str, "shape": [self.count, *self.width], "sha256": self._sha.hexdigest()}

    def discard(self) -> None:
        """Close the file without an entry, whatever is still in its buffer."""
        with contextlib.suppress(OSError):
            self._file.close()


class TextColumn:
    """Texts that are being written, as one run of UTF-8 bytes and where each ends."""

    def __init__(self, bytes_column: Column, ends_column: Column) -> None:
        self._bytes, self._ends = bytes_column, ends_column
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
            self._end = int(ends[-1])
            self._pending, self._pending_size = [], 0


class FolderWriter:
    """Write columns to `<folder>.partial` and rename it at the end, so that a killed build leaves no half folder.

    Args:
        path: where the folder shall be; it must not exist unless `overwrite`.
        kind: what the folder holds; checked when it is opened.
        overwrite: replace a folder that is there.

    Raises:
        FileExistsError: names the folder that is in the way.
    """

    def __init__(self, path: str | Path, kind: str, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        if replaced(self.path).is_dir() and not self.path.exists():
            replaced(self.path).rename(self.path)  # a process died between the two renames of `_finish`
        if self.path.exists() and not overwrite:
            raise FileExistsError(f"{self.path} exists; expected a new folder, or overwrite")
        if self.path.exists() and not (self.path / MANIFEST).is_file():
            raise FileExistsError(f"{self.path} exists and holds no {MANIFEST}: it is not overwritten")
        self.kind = kind
        self.meta: dict[str, Any] = {}
        self._partial = self.path.with_name(self.path.name + ".partial")
        self._columns: dict[str, Column] = {}
        self._texts: list[TextColumn] = []

    def __enter__(self) -> FolderWriter:
        if self._partial.exists():
            shutil.rmtree(self._partial)
        self._partial.mkdir(parents=True)
        return self

    def column(self, name: str, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> Column:
        """Start a column of numbers."""
        self._columns[name] = Column(self._partial / f"{name}.bin", dtype, width)
        return self._columns[name]

    def texts(self, name: str) -> TextColumn:
        """Start a column of texts."""
        text = TextColumn(self.column(f"{name}.utf8", np.uint8), self.column(f"{name}.ends", np.int64))
        self._texts.append(text)
        return text

    def array(self, name: str, values: Array) -> None:
        """Write a whole column at once."""
        self.column(name, values.dtype, values.shape[1:]).extend(values)

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
        content = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
        manifest = {"format": _FORMAT, "kind": self.kind, "hash": content, "meta": self.meta, "columns": entries}
        (self._partial / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if self.path.exists():
            old = replaced(self.path)
            shutil.rmtree(old, ignore_errors=True)
            self.path.rename(old)
            self._partial.rename(self.path)
            shutil.rmtree(old)
        else:
            self._partial.rename(self.path)


class Texts(Sequence[str]):
    """A column of texts in memory-mapped bytes; `texts[i]` decodes one."""

    def __init__(self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> None:
        self._data, self._ends = data, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not offered
        row = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        start = int(self._ends[row - 1]) if row else 0
        return self._data[start : int(self._ends[row])].tobytes().decode("utf-8", "surrogatepass")

    def blocks(self, size: int = 65536, first: int = 0) -> Iterable[list[str]]:
        """Yield the texts from `first` on in lists of at most `size`, which is faster than one by one."""
        for begin in range(first, len(self), size):
            ends = self._ends[begin : begin + size].tolist()
            start = int(self._ends[begin - 1]) if begin else 0
            block = self._data[start : ends[-1]].tobytes()
            starts = [start, *ends[:-1]]
            yield [
                block[a - start : b - start].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)
            ]


class JoinedTexts(Texts):
    """Several columns of texts, read as one after the other."""

    def __init__(self, parts: Sequence[Texts]) -> None:
        self._parts = list(parts)
        self._firsts = np.cumsum([0, *(len(part) for part in parts)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not offered
        row = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        part = int(np.searchsorted(self._firsts, row, side="right")) - 1
        return self._parts[part][row - int(self._firsts[part])]

    def blocks(self, size: int = 65536, first: int = 0) -> Iterable[list[str]]:
        """Yield the texts from `first` on in lists of at most `size`; no list reaches over two columns."""
        for part, begin in zip(self._parts, self._firsts.tolist(), strict=False):
            if begin + len(part) > first:
                yield from part.blocks(size, max(first - begin, 0))


class Folder:
    """A finished folder, its columns memory-mapped when they are first used.

    Args:
        path: the folder.
        kind: what it must hold.
        verify: read every byte and compare it with the manifest's hashes.

    Raises:
        FolderError: names the folder, the column, and what differs from the manifest.
    """

    def __init__(self, path: str | Path, kind: str, *, verify: bool = False) -> None:
        self.path = Path(path)
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            found = (manifest["format"], manifest["kind"])
            self.hash: str = manifest["hash"]
            self.meta: dict[str, Any] = manifest["meta"]
            self._columns: dict[str, dict[str, Any]] = manifest["columns"]
        except FileNotFoundError:
            old = replaced(self.path)
            kept = f"; it was being replaced when the process died: rename {old} to it" if old.is_dir() else ""
            raise FolderError(f"{self.path}: expected a folder with {MANIFEST}; there is none{kept}") from None
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise FolderError(f"{self.path / MANIFEST}: not a manifest: {error!r}") from None
        if found != (_FORMAT, kind):
            raise FolderError(
                f"{self.path}: expected a {kind!r} folder of format {_FORMAT}, got {found[1]!r} of {found[0]}"
            )
        for name, entry in self._columns.items():
            self._check(name, entry, verify)

    def _check(self, name: str, entry: dict[str, Any], verify: bool) -> None:
        if Path(name).name != name:
            raise FolderError(f"{self.path / MANIFEST}: column {name!r} is not a plain file name")
        file = self.path / f"{name}.bin"
        size = int(np.prod(entry["shape"], dtype=np.int64)) * np.dtype(entry["dtype"]).itemsize
        found = file.stat().st_size if file.is_file() else -1
        if found != size:
            raise FolderError(f"{file}: expected {size} bytes, found {found if found >= 0 else 'no file'}")
        if verify:
            with file.open("rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
            if digest != entry["sha256"]:
                raise FolderError(f"{file}: its bytes have changed since it was written (sha256 {digest[:12]}…)")

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def array(self, name: str) -> Array:
        """The memory-mapped column, read-only."""
        if name not in self._columns:
            raise FolderError(f"{self.path}: no column {name!r}; there are {sorted(self._columns)}")
        entry = self._columns[name]
        shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
        if 0 in shape:
            return np.zeros(shape, dtype)
        mapped = np.memmap(self.path / f"{name}.bin", dtype=dtype, mode="r", shape=shape)
        return cast(Array, mapped.view(np.ndarray))

    def file(self, name: str) -> Path:
        """Where a column's bytes lie, for libraries that read files themselves."""
        self.array(name)
        return self.path / f"{name}.bin"

    def texts(self, name: str) -> Texts:
        """The memory-mapped column of texts."""
        return Texts(self.array(f"{name}.utf8"), self.array(f"{name}.ends"))

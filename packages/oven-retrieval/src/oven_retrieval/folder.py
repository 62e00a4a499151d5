"""A folder of memory-mapped columns with a manifest and hashes."""

from __future__ import annotations

import hashlib
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from wary_files.durable import FolderError as FolderError
from wary_files.durable import replaced
from wary_files.json_files import read_json

if TYPE_CHECKING:
    from jaxtyping import Int64, UInt8, UInt32

Array = npt.NDArray[Any]
MANIFEST = "manifest.json"
FORMAT = 1
_TRIES = 100
_FLOATS = frozenset({"popularity", "ngram_weight"})


def check_row(row: int, count: int) -> int:
    """Return the number of a row, or say that it is none."""
    if not hasattr(row, "__index__"):
        raise TypeError(f"row is {row!r:.60}; expected a whole number")
    row = int(row)
    if row == -1:
        raise IndexError(f"row -1 of {count}: no entity was found; expected a check that the row is at least 0")
    if not 0 <= row < count:
        raise IndexError(f"row {row} of {count}: expected 0 to {count - 1}")
    return row


class Texts(Sequence[str]):
    """A column of texts in memory-mapped bytes; `texts[i]` decodes one.

    Rows are not counted from the end: -1 marks a query that nothing answers, and would be answered by the last entity.
    Where the CRC-32 of each text is given, a text whose bytes have changed is refused; errors name `where`.
    """

    def __init__(
        self,
        data: UInt8[np.ndarray, " bytes"],
        ends: Int64[np.ndarray, " n"],
        sums: UInt32[np.ndarray, " n"] | None = None,
        where: str = "a column of texts",
    ) -> None:
        self._data, self._ends, self._sums, self._where = data, ends, sums, where

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # slices are not offered
        row = check_row(index, len(self))
        start = int(self._ends[row - 1]) if row else 0
        stored = self._data[start : int(self._ends[row])].tobytes()
        try:
            if self._sums is None or zlib.crc32(stored) == int(self._sums[row]):
                return stored.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            pass
        raise FolderError(
            f"{self._where}, row {row}: its bytes have changed since it was written, found {stored[:40]!r}; expected "
            "the text of the entity: build it again"
        )

    def blocks(self, size: int = 65536) -> Iterable[list[str]]:
        """Yield the texts in lists of at most `size`, which is faster than one by one."""
        for begin in range(0, len(self), size):
            ends = self._ends[begin : begin + size].tolist()
            start = int(self._ends[begin - 1]) if begin else 0
            block = self._data[start : ends[-1]].tobytes()
            starts = [start, *ends[:-1]]
            try:
                yield [
                    block[a - start : b - start].decode("utf-8", "surrogatepass")
                    for a, b in zip(starts, ends, strict=True)
                ]
            except UnicodeDecodeError as error:
                raise FolderError(
                    f"{self._where}, rows {begin} to {begin + len(ends) - 1}: its bytes have changed since it was "
                    f"written ({error}): build it again"
                ) from error


class _Meta(dict[str, Any]):
    """What a manifest says of its folder; what it does not say is an error that names it."""

    def __init__(self, manifest: Path, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.manifest = manifest

    def __missing__(self, key: str) -> Any:
        raise FolderError(f"{self.manifest}: meta has no {key!r}; there are {sorted(self)}")


class Folder:
    """A finished folder, its columns memory-mapped when they are first used.

    `location` is where it lies: beside `path`, while two renames put another in its place.
    """

    def __init__(self, path: str | Path, kind: str, *, verify: bool = False) -> None:
        self.path = self.location = Path(path)
        self.place = self.path.absolute()  # for who opens it again from elsewhere
        self._mapped: dict[str, Array] = {}
        for attempt in range(_TRIES):
            # Where two renames replace a folder, the old one lies beside its place for a moment.
            old = replaced(self.path)
            self.location = old if not self.path.exists() and old.is_dir() else self.path
            self._identity = _identity(self.location)
            try:
                self._read(kind, verify)
            except (FolderError, FileNotFoundError):
                if self.is_current() or attempt == _TRIES - 1:
                    raise
            else:
                if self.is_current():
                    return

    def is_current(self) -> bool:
        """Whether the folder that was opened still lies in its place, or beside it while nothing lies there."""
        in_place = self.location == self.path or not self.path.exists()
        return in_place and self._identity is not None and self._identity == _identity(self.location)

    def _read(self, kind: str, verify: bool) -> None:
        try:
            manifest = read_json(self.location / MANIFEST)
            stored = (manifest["format"], manifest["kind"])
            self.hash = str(manifest["hash"])
            self.meta: dict[str, Any] = _Meta(self.path / MANIFEST, manifest["meta"])
            self._columns: dict[str, dict[str, Any]] = dict(manifest["columns"])
        except FileNotFoundError:
            raise FolderError(f"{self.path}: expected a folder with {MANIFEST}; there is none") from None
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise FolderError(f"{self.path / MANIFEST}: not a manifest: {error!r:.200}") from None
        if stored != (FORMAT, kind):
            raise FolderError(
                f"{self.path}: expected a {kind!r} folder of format {FORMAT}, got {stored[1]!r} of {stored[0]}"
            )
        for name, entry in self._columns.items():
            self._check(name, entry, verify)

    def _check(self, name: str, entry: dict[str, Any], verify: bool) -> None:
        if Path(name).name != name:
            raise FolderError(f"{self.path / MANIFEST}: column {name!r} is not a plain file name")
        file = self.location / f"{name}.bin"
        try:
            sides, dtype = [int(side) for side in entry["shape"]], np.dtype(entry["dtype"])
        except (KeyError, TypeError, ValueError) as error:
            raise FolderError(f"{self.path / MANIFEST}: column {name!r} has no shape and type: {error!r:.99}") from None
        if min(sides, default=-1) < 0 or dtype.kind not in "biuf":
            raise FolderError(f"{self.path / MANIFEST}: column {name!r} is {dtype} {sides}, expected numbers")
        size = math.prod(sides) * dtype.itemsize
        size_on_disk = file.stat().st_size if os.path.isfile(file) else -1  # noqa: PTH113 - a name that is too long is no file
        if size_on_disk != size:
            raise FolderError(
                f"{file}: expected {size} bytes, found {size_on_disk if size_on_disk >= 0 else 'no file'}"
            )
        if verify:
            with file.open("rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
            if digest != entry.get("sha256"):
                raise FolderError(f"{file}: its bytes have changed since it was written (sha256 {digest[:12]}…)")

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def array(self, name: str) -> Array:
        """The memory-mapped column, read-only."""
        if name not in self._columns:
            raise FolderError(f"{self.path}: no column {name!r}; there are {sorted(self._columns)}")
        if name not in self._mapped:
            self._mapped[name] = self._map(name)
        return self._mapped[name]

    def check_alike(self, *names: str, count: int | None = None) -> None:
        """Refuse columns, of those that the folder has, that are no vectors of one length."""
        for name in (name for name in names if name in self._columns):
            shape, dtype = self._columns[name]["shape"], np.dtype(self._columns[name]["dtype"])
            count = int(shape[0]) if count is None else count
            floats = name in _FLOATS
            if list(shape) != [count] or (dtype.kind == "f") != floats:
                raise FolderError(
                    f"{self.path / MANIFEST}: column {name!r} is {dtype} {list(shape)}, expected "
                    f"{'floats' if floats else 'whole numbers'} [{count}]: it was changed; build it again"
                )

    def map_all(self) -> None:
        """Map every column now, so that what takes this folder's place later makes no difference."""
        for name in self._columns:
            self.array(name)

    def _map(self, name: str) -> Array:
        entry = self._columns[name]
        shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
        if 0 in shape:
            return np.zeros(shape, dtype)
        try:
            mapped = np.memmap(self.location / f"{name}.bin", dtype=dtype, mode="r", shape=shape)
        except (FileNotFoundError, ValueError):
            mapped = None
        if mapped is None or not self.is_current():
            raise FolderError(f"{self.path}: another folder has taken its place since it was opened; open it again")
        return cast(Array, mapped.view(np.ndarray))

    def file(self, name: str) -> Path:
        """Where a column's bytes lie, for libraries that read files themselves."""
        self.array(name)
        return self.location / f"{name}.bin"

    def table(self, prefix: str, kind: Any) -> Any:
        """Columns `<prefix>_<name>` as a NamedTuple of this kind; those with a default may be missing."""
        names = [name for name in kind._fields if name not in kind._field_defaults or f"{prefix}_{name}" in self]
        return kind(**{name: self.array(f"{prefix}_{name}") for name in names})

    def texts(self, name: str) -> Texts:
        """The memory-mapped column of texts."""
        sums = self.array(f"{name}.sums") if f"{name}.sums" in self else None
        return Texts(self.array(f"{name}.utf8"), self.array(f"{name}.ends"), sums, str(self.path / f"{name}.utf8.bin"))


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a folder from another in the same place; None where there is none."""
    try:
        status = (path / MANIFEST).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns

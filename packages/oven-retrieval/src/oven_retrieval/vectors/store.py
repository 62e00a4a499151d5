"""Vectors of a knowledge base on disk: memory-mapped, written in chunks, continued after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import Folder, FolderError
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.progress import Progress
from paired_scores.metrics.arrays import refuse_masked
from wary_files.durable import locks, own_file
from wary_files.json_files import read_json

if TYPE_CHECKING:
    from jaxtyping import Int64, UInt64

KIND = "oven-vectors"
Float32 = npt.NDArray[np.float32]


def check_vectors(values: npt.ArrayLike, dim: int | None, label: str, first_row: int = 0) -> Float32:
    """Return vectors as a float32 matrix, or say which row or width is wrong."""
    refuse_masked(values, label)
    matrix = np.ascontiguousarray(values, dtype=np.float32)
    if matrix.ndim != 2 or (dim is not None and matrix.shape[1] != dim) or matrix.shape[1] == 0:
        raise ValueError(f"{label}: expected shape [n, {'d' if dim is None else dim}], got {list(matrix.shape)}")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise ValueError(f"{label}: row {first_row + int(np.argmin(finite))} holds NaN or infinity")
    return matrix


class VectorStore:
    """Vectors of entities, row by row as in the knowledge base.

    Args:
        path: folder written by `build_vectors`.
        kb: hash of the knowledge base that they must belong to; None for any.
        encoder: name of the encoder that they must come from; None for any.
        verify: compare every byte with the manifest's hashes.

    Raises:
        FolderError: damaged, or from other entities or another encoder; both are shown.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "vectors"
        >>> _ = build_vectors(lambda a, b: np.eye(4)[a:b], 4, path, kb="k", encoder="one-hot")
        >>> store = VectorStore(path, kb="k", encoder="one-hot", verify=True)
        >>> len(store), store.dim
        (4, 4)
    """

    def __init__(
        self, path: str | Path, *, kb: str | None = None, encoder: str | None = None, verify: bool = False
    ) -> None:
        self._folder = Folder(path, KIND, verify=verify)
        self.path, self.hash, self.meta = self._folder.path, self._folder.hash, self._folder.meta
        for label, expected in (("kb", kb), ("encoder", encoder)):
            if expected is not None and self.meta[label] != expected:
                raise FolderError(f"{self.path}: {label} is {self.meta[label]!r}, expected {expected!r}; encode again")
        self.array: npt.NDArray[Any] = self._folder.array("vectors")
        if "removed" in self._folder:
            raise FolderError(f"{self.path}: of oven-retrieval 0.1, with rows of removed entities; encode again")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, so that another process maps the same vectors."""
        return _again, (self._folder.place, self.hash)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.array.shape[1])

    def rows(self, first: int, last: int) -> Float32:
        """Rows first..last-1 as float32."""
        return np.asarray(self.array[first:last], dtype=np.float32)

    def rows_of(self, texts: UInt64[np.ndarray, " t"]) -> Int64[np.ndarray, " t"]:
        """A row that encodes each of these hashed texts; -1 where there is none, or where it is not known."""
        rows = np.full(len(texts), -1, np.int64)
        if "text" in self._folder and len(self):
            stored = self._folder.array("text")
            order = np.argsort(stored, kind="stable")
            at = order[np.minimum(np.searchsorted(stored, texts, sorter=order), len(stored) - 1)]
            rows = np.where(stored[at] == texts, at, -1)
        return rows


def _again(path: Path, content: str) -> VectorStore:
    """Open vectors that were pickled by their path, or say that others have taken their place."""
    store = VectorStore(path)
    if store.hash != content:
        raise FolderError(
            f"{path}: {store.hash[:12]}…, expected {content[:12]}…: it was written again after it was pickled; open it"
        )
    return store


@locks("path")
def build_vectors(
    encode: Callable[[int, int], npt.ArrayLike] | npt.NDArray[Any],
    count: int,
    path: str | Path,
    *,
    kb: str,
    encoder: str,
    dtype: npt.DTypeLike = np.float16,
    chunk: int = 1024,
    texts: UInt64[np.ndarray, " n"] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> VectorStore:
    """Encode entities chunk by chunk into a folder; the same call after a kill continues where it stopped.

    Args:
        encode: (first, last) -> vectors [last - first, d] of these rows; (0, 0) is asked for where there are none. Or
            all vectors as an array, [count, d].
        count: number of rows.
        path: the new folder; `<path>.rows` holds what is done so far.
        kb: hash of the knowledge base.
        encoder: name of the encoder; kept, and compared when the folder is opened.
        dtype: float16 (half the storage, relative error 5e-4) or float32.
        chunk: rows per call.
        texts: [count] hash of the text that each row encodes, kept so that later versions take unchanged rows over.
        overwrite: replace a folder that is there, and what an unfinished build of other vectors has left.
        progress: called with the phase, how many rows are done, and how many there are.

    Raises:
        ValueError: NaN or infinity (the row is named), another width than before, a value beyond the dtype's range.
        FolderError: what is there belongs to another build (other entities, encoder or dtype).
        FileExistsError: names the folder that is in the way.
        OSError: the disk is full; what is done is kept, and the same call continues.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "vectors"
        >>> store = build_vectors(lambda a, b: np.eye(4)[a:b], 4, path, kb="k", encoder="one-hot", chunk=3)
        >>> store.rows(1, 2).tolist(), store.dim
        ([[0.0, 1.0, 0.0, 0.0]], 4)
    """
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float16), np.dtype(np.float32)):
        raise ValueError(f"dtype: expected float16 or float32, got {kind}")
    if count < 0 or chunk < 1:
        raise ValueError(f"count, chunk: expected at least 0 and 1, got {count}, {chunk}")
    if texts is not None and texts.shape != (count,):
        raise ValueError(f"texts: expected {count} values, one per row, got {list(texts.shape)}")
    if not callable(encode):
        array = np.asarray(encode)
        if array.ndim != 2 or len(array) != count:
            raise ValueError(f"encode: expected a function, or an array of {count} rows, got shape {list(array.shape)}")
        encode = partial(_part_of, array)
    writer = FolderWriter(path, KIND, overwrite=overwrite)
    rows = own_file(Path(path).with_name(Path(path).name + ".rows"))
    identity = {"kb": kb, "encoder": encoder, "dtype": kind.str, "count": count}
    done, dim = _resume(rows, identity, overwrite)
    rows.mkdir(parents=True, exist_ok=True)
    with own_file(rows / "vectors.raw").open("r+b" if done else "wb") as file:
        file.truncate(done * (dim or 0) * kind.itemsize)
        file.seek(0, 2)
        while done < count or dim is None:  # of no rows, too, the width is asked for
            last = min(done + chunk, count)
            block = check_vectors(encode(done, last), dim, "vectors", done)
            if len(block) != last - done:
                raise ValueError(f"vectors: expected {last - done} rows for {done}..{last - 1}, got {len(block)}")
            with np.errstate(over="ignore"):
                stored = block.astype(kind)
            check_vectors(stored, None, f"vectors as {kind}", done)
            _refuse_small(block, kind, done)
            try:
                stored.tofile(file)
                file.flush()
            except OSError as error:
                raise OSError(
                    error.errno, f"{rows / 'vectors.raw'}: cannot be written ({error}); the {done} rows there are kept"
                ) from error
            done, dim = last, block.shape[1]
            own_file(rows / "state.new").write_text(
                json.dumps({**identity, "done": done, "dim": dim}), encoding="utf-8"
            )
            (rows / "state.new").replace(rows / "state.json")
            if progress is not None:
                progress("vectors", done, count)
    with writer as folder:
        column = folder.column("vectors", kind, (dim,))
        for first in range(0, count, 65536):
            size = dim * kind.itemsize
            part = np.fromfile(rows / "vectors.raw", kind, 65536 * dim, offset=first * size)
            column.extend(part.reshape(-1, dim))
        if texts is not None:
            folder.array("text", texts)
        folder.meta = {"kb": kb, "encoder": encoder}
    for name in ("vectors.raw", "state.json"):
        (rows / name).unlink()
    rows.rmdir()
    return VectorStore(path)


def _refuse_small(block: npt.NDArray[Any], kind: np.dtype[Any], first_row: int) -> None:
    """Refuse rows whose every number is so small that the type stores few of its digits, or none."""
    largest = np.abs(block).max(axis=1, initial=0)
    small = (largest > 0) & (largest < np.finfo(kind).smallest_normal)
    if small.any():
        row = int(np.argmax(small))
        raise ValueError(
            f"vectors as {kind}: row {first_row + row} has no number beyond {largest[row]:.3g}, too small for {kind}: "
            "bring vectors to length 1"
        )


def _part_of(array: npt.NDArray[Any], first: int, last: int) -> npt.NDArray[Any]:
    return array[first:last]


def _resume(rows: Path, identity: dict[str, Any], overwrite: bool) -> tuple[int, int | None]:
    """Rows that an earlier, killed build has finished, and their width; what is written over begins anew."""
    if not (rows / "state.json").is_file():
        return 0, None
    state = read_json(rows / "state.json")
    differing = [name for name in identity if state.get(name) != identity[name]]
    if differing and overwrite:
        return 0, None
    if differing:
        raise FolderError(
            f"{rows}: an unfinished build with other {', '.join(differing)} is there "
            f"({state.get(differing[0])!r}, expected {identity[differing[0]]!r}); remove it to start again"
        )
    done, dim = int(state["done"]), int(state["dim"])
    raw, size = rows / "vectors.raw", done * dim * np.dtype(identity["dtype"]).itemsize
    whole = raw.is_file() and raw.stat().st_size >= size  # not after a loss of power: zeros would take their place
    return (done, dim) if whole else (0, None)

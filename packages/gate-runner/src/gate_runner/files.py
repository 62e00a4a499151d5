"""Files that are written whole or not at all, and files that one process at a time holds."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gate_data.readers.limits import refuse_special, within
from gate_runner.errors import StorageError, UsageError, printable

if TYPE_CHECKING:
    import numpy as np

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX; two processes must then keep to folders of their own
    fcntl = None  # type: ignore[assignment]  # the module is absent there

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A folder of a stranger must not name another file as its lock, which is written."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, if they are no larger than a stranger's may be and hold no objects."""
    import numpy as np

    refuse_special(path)
    with zipfile.ZipFile(path) as archive:
        within(sum(member.file_size for member in archive.infolist()), "bytes", str(path))
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _umask() -> int:
    """What the user takes away from the rights of new files; it can only be read by setting it."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    except (OSError, StopIteration, ValueError):
        return 0o022


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files beside it and exchange the two at once: a reader sees the old or the new one."""
    from oven_retrieval.durable import replace_folder

    beside = folder.parent / f".{folder.name}.{os.getpid()}.new"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.parent.glob(f".{folder.name}.*.new"):  # of writers that were killed
            shutil.rmtree(unfinished, ignore_errors=True)
        beside.mkdir()
        for name, content in files.items():
            write(beside / name, content)
        replace_folder(beside, folder)
    except OSError as error:
        raise StorageError.about(folder, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write(path: Path, content: bytes) -> None:
    """Write to a file beside it and rename, so that a reader sees the old file or the new one."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        path = path.resolve() if path.is_symlink() else path
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError.about(path, error) from error


def discard(path: Path) -> None:
    """Remove a file, or a folder in its place, where one is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def inert(text: str) -> str:
    """A cell that no spreadsheet runs and no terminal obeys: what begins like a formula gets a quote in front."""
    text = printable(text, "\n")
    return f"'{text}" if text[:1] in ("=", "+", "@") or (text[:1] == "-" and len(text) > 1) else text


def csv_text(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under a line of heads, whose texts are `inert`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return buffer.getvalue()


class BusyError(UsageError):
    """Another process holds the file; `owner` says which."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path} is held by {owner}")
        self.owner = owner


@contextmanager
def held(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file while a block runs; the file is gone afterwards."""
    end = time.monotonic() + wait
    handle = _try(path)
    while handle is None and time.monotonic() < end:
        time.sleep(0.05)
        handle = _try(path)
    if handle is None:
        raise BusyError(path, _owner(path))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: nobody can have taken this file in between
        os.close(handle)


def _try(path: Path) -> int | None:
    """The descriptor of the held file, or None where another process holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o644)
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same(handle, path):
                    os.truncate(handle, 0)
                    os.write(handle, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
                    return handle
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its last holder removed the file in between: take the new one
    except OSError as error:
        raise StorageError.about(path, error) from error


def _same(handle: int, path: Path) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), status)


def _owner(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"

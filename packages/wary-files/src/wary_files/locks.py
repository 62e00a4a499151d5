"""A lock file that one process at a time holds, and that says who."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from wary_files.errors import StorageError, UsageError


class BusyError(UsageError):
    """Another process holds the file; `owner` says which."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path} is held by {owner}")
        self.owner = owner


@contextmanager
def held(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file while a block runs; the file is gone afterwards, and free if its holder is killed.

    Args:
        path: of the lock file; folders above it are made.
        wait: seconds to wait for another holder; below 0 without end.

    Raises:
        BusyError: another process holds it; `owner` says which.
        StorageError: the file cannot be written, or is a second name of another file.

    Example:
        >>> import tempfile
        >>> lock = Path(tempfile.mkdtemp()) / "writer.lock"
        >>> with held(lock):
        ...     lock.exists()
        True
        >>> lock.exists()
        False
    """
    lock, before = FileLock(path, timeout=wait), _owner(path)  # filelock below 4.0 empties what it asks for
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.lstat().st_nlink > 1:  # it is emptied when it is taken
            raise StorageError(f"{path} is a second name of another file: remove it")
        lock.acquire(poll_interval=0.02)
        with suppress(PermissionError):  # Windows lets nobody write a held file: then no message names the process
            path.write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
    except Timeout:
        now = _owner(path)
        raise BusyError(path, before if now == _SOMEBODY else now) from None
    except OSError as error:
        if lock.is_locked:  # taken, and no room for a name in it
            with suppress(OSError):
                path.unlink(missing_ok=True)
        lock.release()
        raise StorageError.about(path, error) from error
    try:
        yield
    finally:
        with suppress(PermissionError):  # Windows keeps the file of whoever holds it
            path.unlink(missing_ok=True)  # while it is held: who waits for it then sees that it has lost its name
        lock.release()


_SOMEBODY = "another process"


def _owner(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return _SOMEBODY

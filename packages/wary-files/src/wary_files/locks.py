"""A lock file that one process at a time holds, and that says who."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Hold a lock file while a block runs; the file is gone afterwards."""
    lock = FileLock(path, timeout=wait)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.lstat().st_nlink > 1:  # it is emptied when it is taken
            raise StorageError(f"{path} is a second name of another file: remove it")
        lock.acquire(poll_interval=0.02)
        path.write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
    except Timeout:
        raise BusyError(path, _owner(path)) from None
    except OSError as error:
        lock.release()
        raise StorageError.about(path, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: who waits for it then sees that it has lost its name
        lock.release()


def _owner(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"

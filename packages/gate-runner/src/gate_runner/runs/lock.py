"""A file that one process at a time holds: the kernel gives it free when that process ends, however it ends."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gate_runner.errors import StorageError, UsageError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX; two processes must then keep to folders of their own
    fcntl = None  # type: ignore[assignment]  # the module is absent there


class BusyError(UsageError):
    """Another process holds the file; `owner` says which."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path} is held by {owner}")
        self.owner = owner


@contextmanager
def held(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file while a block runs; the file is gone afterwards.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place, held(Path(place, "one.lock")):
        ...     sorted(json.loads(Path(place, "one.lock").read_text()))
        ['host', 'pid']
    """
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


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A folder of a stranger must not name another file as its lock, which is written."""


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
        here = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), here)


def _owner(path: Path) -> str:
    try:
        found = json.loads(path.read_text())
        return f"process {found['pid']} on {found['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"

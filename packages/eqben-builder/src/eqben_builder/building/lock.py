"""One writer for a folder: a lock that the kernel gives free when its holder ends, however it ends."""

from __future__ import annotations

import json
import os
import platform
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX; two processes must then keep to folders of their own
    fcntl = None  # type: ignore[assignment]  # the module is absent there

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The lock's name inside of a folder that exists.
LOCK = "writer.lock"


class FolderBusyError(ValueError):
    """Another process writes the folder; the message says which."""


@contextmanager
def sole_writer(path: Path, folder: Path) -> Iterator[None]:
    """Hold a lock file while a block runs; the file is gone afterwards."""
    handle = _taken(path)
    if handle is None:
        raise FolderBusyError(f"{folder} is being written by {_holder(path)}: wait for it, or end it")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: nobody can have taken this file in between
        os.close(handle)


def _taken(path: Path) -> int | None:
    """The descriptor of the held file, or None where another process holds it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
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


def _same(handle: int, path: Path) -> bool:
    try:
        here = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), here)


def _holder(path: Path) -> str:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return f"process {found['pid']} on {found['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

"""One process at a time on a journal: a lock that the kernel gives free when its holder ends, however it ends."""

from __future__ import annotations

import json
import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eevee.errors import EeveeError
from eevee.tables.record import read_json

try:
    import fcntl
except ImportError:  # pragma: no cover - not on POSIX; two searches must then keep to journals of their own
    fcntl = None  # type: ignore[assignment]  # the module is absent there

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def sole_search(journal: Path | None) -> Iterator[None]:
    """Hold a journal, and those of the held-out searches beside it, while a block runs.

    Args:
        journal: the file; the lock lies beside it and is gone afterwards. None holds nothing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as place, sole_search(Path(place, "j.jsonl")):
        ...     [path.name for path in Path(place).iterdir()]
        ['j.jsonl.lock']
    """
    if journal is None:
        yield
        return
    lock = journal.with_name(f"{journal.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = _taken(lock)
    except OSError as error:
        raise EeveeError(f"{lock}: cannot be written ({error.strerror})") from None
    if handle is None:
        raise EeveeError(f"{journal}: another search works on it, {_holder(lock)}; wait for it, or end it")
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is still held: nobody can have taken this file in between
        os.close(handle)


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A link in a stranger's folder must not name another file as the lock, which is written."""


def _taken(lock: Path) -> int | None:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.exists() and lock.stat().st_ino == os.fstat(handle).st_ino:
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


def _holder(lock: Path) -> str:
    try:
        said = read_json(lock)
        return f"process {said['pid']} on {said['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "which has not said its number yet"

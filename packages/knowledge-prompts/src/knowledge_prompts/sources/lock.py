"""One writer at a time, for as long as the whole operation takes, and who it is."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock: there nothing keeps two writers apart
    fcntl = None  # type: ignore[assignment]  # the name of a module that is not there


@contextlib.contextmanager
def exclusive(place: Path, what: str) -> Iterator[None]:
    """Keep a file or a folder from every other writer that asks.

    The lock belongs to the open file: it falls with its process, however that ends. The file beside it stays, since
    taking it away would let two writers lock two files of one name.

    Args:
        place: A folder, or a file that need not exist yet.
        what: What the others are told is going on.

    Raises:
        BlockingIOError: Somebody else holds it; names process and time.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, exclusive(Path(folder), "a build"):
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['.lock']
    """
    path = place / ".lock" if place.is_dir() else place.with_name(f".{place.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                by = file.read().strip() or "another process"
                raise BlockingIOError(f"{place} is being written by {by}; wait until it is done") from None
        file.truncate(0)
        file.write(f"{what} (process {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')})")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)

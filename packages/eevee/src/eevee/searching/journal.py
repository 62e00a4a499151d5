"""A file that keeps the error of every candidate, from which an interrupted search continues."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from eevee.errors import EeveeError
from eevee.tables.record import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from eevee.searching.space import Candidate

    Scores = dict[Candidate, tuple[float, float]]


def journal_key(*parts: object) -> str:
    """A short hash of what a journal belongs to.

    Example:
        >>> journal_key("table", "ridge") == journal_key("table", "mlp")
        False
    """
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@contextmanager
def sole_search(journal: Path | None) -> Iterator[None]:
    """Hold a journal, and those of the held-out searches beside it, while a block runs; None holds nothing."""
    if journal is None:
        yield
        return
    lock = FileLock(journal.with_name(f"{journal.name}.lock"), blocking=False)
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise EeveeError(f"{journal}: another search works on it; wait for it, or end it") from None
    except OSError as error:
        raise EeveeError(f"{lock.lock_file}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def append(path: Path, chunk: Sequence[Candidate], pairs: Sequence[tuple[float, float]]) -> None:
    """Add errors and standard errors of candidates."""
    line = json.dumps([[list(c), *pair] for c, pair in zip(chunk, pairs, strict=True)])
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be written ({error.strerror}); what it holds is kept") from None


def open_journal(path: Path, key: str) -> Scores:
    """What a journal holds; begun where it is missing or empty."""
    header = json.dumps({"eevee": "journal", "key": key})
    try:
        if not path.exists() or path.stat().st_size == 0:
            write_text(path, header + "\n")
            return {}
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise EeveeError(f"{path}: cannot be read ({error.strerror})") from None
    lines = text.split("\n")
    if lines[0] != header:
        raise EeveeError(
            f"{path}: belongs to another search (other data, scorer, constraints or seed); expected key {key}"
        )
    if not text.endswith("\n"):  # the last line was cut off by an interruption
        write_text(path, "\n".join(lines[:-1]) + "\n")
        lines = lines[:-1]
    restored: Scores = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        try:
            for candidate, mean, stderr in json.loads(line):
                restored[tuple(int(i) for i in candidate)] = (float(mean), float(stderr))
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise EeveeError(f"{path}, line {number}: not a journal line") from None
    return restored

"""Segments of features that are not whole yet: what their writers noted, and what becomes of those that were killed."""

from __future__ import annotations

import contextlib
import io
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from vision_adapters.rows import RowWriter
from vision_adapters.rows.stored import mapped
from vision_features.features.inputs import WIDTH, Digests
from wary_files.folders import write

_RECORD = WIDTH + 4
"""Bytes of a note: a digest, and a checksum of it and of its row's number."""


class Files(NamedTuple):
    """All files of one segment, finished or not."""

    folder: Path
    stem: str
    names: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether its digests are there, which are written last."""
        return f"{self.stem}.digests.npy" in self.names

    def used(self) -> tuple[float, int]:
        """When it was last used, and its bytes, as far as another process left it there."""
        latest, size = 0.0, 0
        start = str(self.folder)
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):
                about = os.lstat(f"{start}{os.sep}{name}")
                size += about.st_size
                if not self.is_whole or name == f"{self.stem}.digests.npy":
                    latest = max(latest, about.st_mtime)
        return latest, size

    def remove(self) -> bool:
        """Remove it where nobody writes it now; whether it is gone."""
        with alone(self.folder, self.stem) as is_mine:
            if is_mine:
                # the digests first: without them the rest is unfinished, and no reader takes it for whole
                for name in sorted(self.names, key=lambda name: not name.endswith(".digests.npy")):
                    with contextlib.suppress(OSError):  # a folder stays, and is named when it is in the way
                        (self.folder / name).unlink(missing_ok=True)
            return is_mine


def files_in(folder: Path) -> list[Files]:
    """The segments of a folder by their files, those included that a kill left under a name for a moment."""
    names: dict[str, list[str]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):  # noqa: PTH208 - names alone are wanted
            names.setdefault(name.lstrip(".").partition(".")[0], []).append(name)
    return [Files(folder, stem, tuple(sorted(held))) for stem, held in sorted(names.items())]


@contextlib.contextmanager
def alone(folder: Path, stem: str, *, wait: bool = False) -> Iterator[bool]:
    """Be the only writer of a segment while a block runs; False where another one is, and nobody waits for it."""
    lock = FileLock(folder / f"{stem}.lock", timeout=-1 if wait else 0)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()  # while it is held: who waits for it sees that it has lost its name
        lock.release()


def take_over(folder: Path, *, but: str) -> bool:
    """Make what killed writers left whole at the rows that they wrote, or remove it; whether rows were won.

    The segment that is written next is left out: its writer goes on with it.
    """
    won = False
    for files in files_in(folder):
        whole = {f"{files.stem}.{end}" for end in ("npy", "npy.done", "digests.npy")}
        if whole == set(files.names) or files.stem == but:
            continue
        with alone(folder, files.stem) as is_mine:
            if not is_mine:
                continue
            if not files.is_whole and not (folder / f"{files.stem}.digests.npy").exists():
                won |= _made_whole(folder, files.stem)
            if (folder / f"{files.stem}.digests.npy").exists():
                for name in {*files.names} - whole:
                    with contextlib.suppress(OSError):
                        (folder / name).unlink(missing_ok=True)
                continue
        files.remove()
    return won


def _made_whole(folder: Path, stem: str) -> bool:
    path, log = folder / f"{stem}.npy", folder / f"{stem}.part"
    try:
        writer = RowWriter.left(path, len(mapped(path)), stem)
    except (OSError, ValueError, TypeError):
        return False
    digests = noted(log, writer.done) if writer is not None else []
    if writer is None or not digests:
        return False
    writer.cut()
    finish(folder, stem, np.array(digests, f"S{WIDTH}"))
    return True


def finish(folder: Path, stem: str, digests: Digests) -> None:
    """Write the digests of a segment's rows: from now on it is whole."""
    buffer = io.BytesIO()
    np.save(buffer, digests)
    write(folder / f"{stem}.digests.npy", buffer.getvalue())


def note(log: Path, row: int, digests: Sequence[bytes]) -> None:
    """Note the digests of the rows from a number on, before these are written; what was noted from there on goes."""
    with log.open("r+b" if row else "wb") as file:
        file.truncate(row * _RECORD)
        file.seek(row * _RECORD)
        file.write(b"".join(_record(row + at, digest) for at, digest in enumerate(digests)))


def noted(log: Path, count: int) -> list[bytes]:
    """The digests of the first rows; none where fewer were noted, or other bytes lie there."""
    if log.is_symlink() or not log.is_file():
        return []
    held = log.read_bytes()[: count * _RECORD]
    digests = [held[at : at + WIDTH].rstrip(b"\0") for at in range(0, len(held), _RECORD)]
    is_sound = b"".join(_record(row, digest) for row, digest in enumerate(digests)) == held
    return digests if is_sound and len(digests) == count else []


def _record(row: int, digest: bytes) -> bytes:
    padded = digest.ljust(WIDTH, b"\0")
    return padded + zlib.crc32(padded, row).to_bytes(4, "little")

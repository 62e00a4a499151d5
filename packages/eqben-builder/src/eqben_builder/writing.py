"""Files and folders that are whole or not there, and of which there is one writer at a time."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from wary_files.durable import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The lock's name inside of a folder that exists.
LOCK = "writer.lock"


class FolderBusyError(ValueError):
    """Another process writes the folder; the message says which."""


@contextmanager
def sole_writer(path: Path, folder: Path) -> Iterator[None]:
    """Hold a lock file while a block writes `folder`; the file is gone afterwards, and free if its holder is killed."""
    lock, holder = FileLock(path, timeout=0), _holder(path)  # read first: before filelock 4.0 who asks empties the file
    try:
        lock.acquire()
    except Timeout:
        raise FolderBusyError(f"{folder} is being written by {holder}: wait for it, or end it") from None
    try:
        with suppress(OSError):  # a held file cannot be written on Windows: then the message names no process
            path.write_text(json.dumps({"pid": os.getpid(), "host": platform.node()}))
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: who takes a file that has no name any more, tries again
        lock.release()


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"


#: Windows opens no folder as a file, and flushes files alone that are open for writing.
_FOLDERS_OPEN = os.name != "nt"


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, then rename: a reader sees the old content or the new, never a part."""
    write_whole(path, content, alone=True)
    settle(path.parent, deep=False)


def settle(folder: Path, *, deep: bool = True) -> None:
    """Have the disk hold what was written: every file and folder below, or the folder's own entries alone."""
    for path in [folder, *folder.rglob("*")] if deep else [folder]:
        if not _FOLDERS_OPEN and path.is_dir():
            continue
        handle = os.open(path, os.O_RDONLY if _FOLDERS_OPEN else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Write beside the target, then rename; what a killed writer left beside it is removed first."""
    _refuse(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with sole_writer(target.with_name(f".{target.name}.lock"), target):
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        _refuse(target)
        partial.mkdir()
        try:
            yield partial
            settle(partial)
            partial.rename(target)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                _refuse(target)
            raise
        settle(target.parent, deep=False)


def _refuse(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target} exists already: give a new folder")

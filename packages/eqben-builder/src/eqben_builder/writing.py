"""Files and folders that are whole or not there, and of which there is one writer at a time."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wary_files.durable import write_whole
from wary_files.locks import BusyError, held

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The lock's name inside of a folder that exists.
LOCK = "writer.lock"


class FolderBusyError(ValueError):
    """Another process writes the folder; the message says which."""


@contextmanager
def sole_writer(path: Path, folder: Path) -> Iterator[None]:
    """Hold a lock file while a block writes `folder`; the file is gone afterwards, and free if its holder is killed."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(path))
        except BusyError as error:
            raise FolderBusyError(f"{folder} is being written by {error.owner}: wait for it, or end it") from None
        yield


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

"""Folders and files that take another's place at once, and survive a loss of power."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

_EXCHANGE = 2
_HERE = -100
_NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV}


def replaced(path: Path) -> Path:
    """Where a folder lies while another takes its place, on systems that cannot exchange two names."""
    return path.with_name(path.name + ".old")


def sync_folder(path: Path) -> None:
    """Make the names in a folder last; nothing where the system cannot open folders."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def own_file(path: Path) -> Path:
    """The path, which leads nowhere else: a link in a stranger's folder is removed, not written through."""
    if path.is_symlink():
        path.unlink()
    return path


def write_file(path: Path, text: str) -> None:
    """Write a text that lasts: the bytes, not yet the name."""
    with own_file(path).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, text: str) -> None:
    """Let a text take the place of a file's, so that readers see the old or the new one, whole, whatever happens."""
    new = path.with_name(path.name + ".new")
    try:
        write_file(new, text)
        os.replace(new, path)  # noqa: PTH105  # tests stop the process at each call of `os`
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_folder(new: Path, path: Path) -> None:
    """Let a finished folder take the place of another (or of none), which is removed once the change lasts.

    Numerics:
        One call of the system exchanges the two names (Linux's `renameat2`). Where that is not offered there are two
        renames; between them `Folder` reads the old one under the name that `replaced` gives it, and
        `restore` puts it back.
    """
    sync_folder(new)
    if not path.exists():
        os.rename(new, path)  # noqa: PTH104
        sync_folder(path.parent)
        return
    if exchange(new, path):
        old = new
    else:
        old = replaced(path)
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)  # noqa: PTH104
        os.rename(new, path)  # noqa: PTH104
    sync_folder(path.parent)
    shutil.rmtree(old)


def restore(path: Path) -> None:
    """Undo a replacement that died between its two renames, and clear what one left that died after them."""
    old = replaced(path)
    if not old.is_dir():
        return
    if path.exists():
        shutil.rmtree(old)
    else:
        os.rename(old, path)  # noqa: PTH104


@cache
def _renameat2() -> Any:
    """The C library's function; None where there is none."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names at once; False where the system or the file system does not offer it."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(second))

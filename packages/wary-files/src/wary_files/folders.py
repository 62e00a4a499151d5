"""Files and folders of a user's, written whole or not at all; what the system says against it is one line."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from wary_files.durable import replace_folder, write_whole
from wary_files.errors import StorageError
from wary_files.locks import held

_LONGEST_WRITE = 600.0
"""Seconds that another process may take to write a folder that this one writes next."""

Content = bytes | Callable[[Path], bytes | None]
"""A file's bytes; or what gives them, or writes them to the path itself, once the files before it are there."""


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write a folder of files beside it and exchange the two at once: a reader sees the old or the new one.

    Of several writers each writes all of it, one after another. A link, which the user has named, is followed.

    Raises:
        StorageError: the folder cannot be written; the old one is as it was.
        BusyError: another process has been writing the folder for ten minutes.

    Example:
        >>> import tempfile
        >>> head = Path(tempfile.mkdtemp()) / "head"
        >>> count = lambda path: b"%d" % path.with_name("weights").stat().st_size
        >>> write_folder(head, {"weights": b"12", "card.json": count})
        >>> (head / "card.json").read_text()
        '2'
    """
    folder = folder.resolve() if folder.is_symlink() else folder
    beside = folder.parent / f".{folder.name}.{os.getpid()}.new"
    with held(folder.parent / f".{folder.name}.writing", wait=_LONGEST_WRITE):
        try:
            for unfinished in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):  # of writers that were killed
                discard(unfinished)
            beside.mkdir()
            for name, content in files.items():
                given = content if isinstance(content, bytes) else content(beside / name)
                if given is not None:
                    write(beside / name, given)
            replace_folder(beside, folder)
        except OSError as error:
            raise StorageError.about(folder, error) from error
        finally:
            discard(beside)


def write(path: Path, content: bytes, *, follow: bool = False) -> None:
    """Write a file whole, see `wary_files.durable.write_whole`; what the system says against it is a `StorageError`."""
    try:
        write_whole(path, content, follow=follow)
    except OSError as error:
        raise StorageError.about(path, error) from error


def discard(path: Path) -> None:
    """Remove a file, or a folder in its place, where one is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

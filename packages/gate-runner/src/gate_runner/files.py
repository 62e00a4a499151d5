"""Files of runs: written whole or not at all, arrays and tables of text, and places inside a folder."""

from __future__ import annotations

import csv
import errno
import glob
import io
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.errors import StorageError
from wary_files.durable import replace_folder, write_whole
from wary_files.limits import refuse_special, within
from wary_files.locks import held
from wary_files.text import inert

if TYPE_CHECKING:
    import numpy as np


DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Numbers of errors of a disk that is full, closed or broken: no fault of what was computed."""
_LONGEST_WRITE = 600.0
"""Seconds that another process may take to write a folder that this one writes next."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, if they are no larger than a stranger's may be and hold no objects."""
    import numpy as np

    refuse_special(path)
    with zipfile.ZipFile(path) as archive:
        within(sum(member.file_size for member in archive.infolist()), "bytes", str(path))
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


Content = bytes | Callable[[Path], bytes | None]
"""A file's bytes; or what gives them, or writes them to the path itself, once the files before it are there."""


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write a folder of files beside it and exchange the two at once: a reader sees the old or the new one.

    Of several writers each writes all of it, one after another. A link, which the user has named, is followed.
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


def inside(folder: Path, *names: str) -> Path:
    """Return a place below a folder that somebody else may have filled; a link on the way to it is refused.

    Raises:
        StorageError: shows the link.
    """
    path = folder
    for name in names:
        path /= name
        if path.is_symlink():
            raise StorageError(
                f"{path} is a link; expected what {folder} holds itself: remove it, or take another folder"
            )
    return path


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


def csv_text(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under a line of heads, whose texts are `inert`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return buffer.getvalue()

"""Files of runs: arrays, tables of text, and places inside a folder."""

from __future__ import annotations

import csv
import errno
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.errors import StorageError
from wary_files.limits import refuse_special, within
from wary_files.text import inert

if TYPE_CHECKING:
    import numpy as np


DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Numbers of errors of a disk that is full, closed or broken: no fault of what was computed."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, if they are no larger than a stranger's may be and hold no objects."""
    import numpy as np

    refuse_special(path)
    with zipfile.ZipFile(path) as archive:
        within(sum(member.file_size for member in archive.infolist()), "bytes", str(path))
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


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


def csv_text(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under a line of heads, whose texts are `inert`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([inert(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return buffer.getvalue()

"""A folder that appears when all of it is written and on the disk, and of which there is one writer at a time."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eqben_builder.building.folder import settle
from eqben_builder.building.lock import sole_writer

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                _refuse(target)
            raise
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        settle(target.parent, deep=False)


def _refuse(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target} exists already: give a new folder")

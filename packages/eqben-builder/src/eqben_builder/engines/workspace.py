"""Folders for what an engine exchanges with a renderer; those of killed processes are cleared away by the next."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from contextlib import ExitStack
from pathlib import Path

from eqben_builder.building.lock import LOCK, FolderBusyError, sole_writer

_PREFIX = "eqben-work-"


class Workspace:
    """A temporary folder that is gone when nobody refers to this any more, or when its process has ended."""

    def __init__(self) -> None:
        _clear()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        held = ExitStack()
        held.enter_context(sole_writer(self.folder / LOCK, self.folder))
        self.close = weakref.finalize(self, _remove, held, self.folder)


def _remove(held: ExitStack, folder: Path) -> None:
    held.close()
    shutil.rmtree(folder, ignore_errors=True)


def _clear() -> None:
    """Remove the folders whose process ended without doing so: the kernel gave their locks free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        lock = folder / LOCK
        try:
            if lock.exists():  # one without is being made, or is not ours
                with sole_writer(lock, folder):
                    pass
                shutil.rmtree(folder, ignore_errors=True)
        except (FolderBusyError, OSError):
            continue

"""Locks of a process that forks: a loader's worker would inherit one that another thread holds, and wait for ever."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class FreshLock:
    """A lock that is free in a forked process, whoever held it: for what is whole at every moment, and takes long.

    Example:
        >>> lock = FreshLock()
        >>> with lock:
        ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock.locked():  # a fork inside the block left another
            self._lock.release()

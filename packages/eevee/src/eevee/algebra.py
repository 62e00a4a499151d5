"""Threads of NumPy's linear algebra: how many there are, and one where products are small."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def one_thread() -> AbstractContextManager[object]:
    """Let products within it take one thread: small ones lose by more."""
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limited


def algebra_threads() -> int:
    """Threads that NumPy's linear algebra may use now; `OMP_NUM_THREADS` sets them when a process begins."""
    pools = _libraries(len(sys.modules)).info()
    return max((int(pool["num_threads"]) for pool in pools if pool["user_api"] == "blas"), default=1)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Look for the libraries that have threads: milliseconds, and again only after more was imported."""
    return ThreadpoolController()

"""Which loops search names: compiled ones, or NumPy's without numba and until numba has compiled."""

from __future__ import annotations

import logging
import time
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

_LOG = logging.getLogger("oven_retrieval")
FEW = 1000
"""Names that a process looks for without waiting for numba to compile."""


class _Progress:
    """What this process has looked for, and whether its loops are compiled."""

    names = 0
    is_compiled = False


def loops_for(names: int = 0) -> ModuleType:
    """Return the module of loops for so many names more: compiled where that costs no wait, or pays.

    Code that numba has kept is loaded in half a second. Without it, NumPy's loops make the first 1,000 searches of a
    process, one to four for each name; whoever looks for more waits once, with a line on the log.
    """
    if _Progress.is_compiled:
        return _compiled()
    from oven_retrieval.names import plain_loops

    if not has_numba():
        return plain_loops
    _Progress.names += names
    if _Progress.names > FEW or _compiled().is_stored():
        compile_loops()
        return _compiled()
    return plain_loops


def compile_loops() -> None:
    """Compile the search of names, or load what was compiled: some twenty seconds once, half a second later.

    A server calls it when it starts, and a container when it is built.

    Raises:
        ImportError: numba is not installed; names the extra.

    Example:
        >>> from oven_retrieval import compile_loops
        >>> compile_loops()
    """
    if not has_numba():
        raise ImportError("compiled loops need numba: pip install 'oven-retrieval[fast]'")
    loops, start = _compiled(), time.perf_counter()
    if _Progress.is_compiled:
        return
    is_stored = loops.is_stored()
    if not is_stored:
        _LOG.warning("compiling the search of names: some twenty seconds, once")
    _called_once(loops)
    _Progress.is_compiled = True
    if not is_stored:
        _LOG.warning("compiled in %.0f seconds", time.perf_counter() - start)


@cache
def has_numba() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


@cache
def _compiled() -> ModuleType:
    from oven_retrieval.names import compiled

    return compiled


def read_only(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that numba compiles for once, whether the array is in memory or mapped from disk."""
    view = column.view(np.ndarray)
    view.flags.writeable = False
    return view


def _called_once(loops: ModuleType) -> None:
    """Call each loop with arrays of the types that indexes have, so that numba compiles or loads it."""
    from oven_retrieval.names.impacts import BUCKET_BITS, build_impacts

    points, ends = np.array([97, 98], np.uint32), np.array([2])
    count, weights = np.zeros(1 << BUCKET_BITS, np.int64), np.zeros(1, np.float32)
    idf = np.ones(1 << BUCKET_BITS)
    loops.count_buckets(points, ends, count)
    loops.weigh(points, ends, idf, weights)
    start = np.concatenate([[0], np.cumsum(count)])
    post = np.zeros(int(start[-1]), np.int32)
    loops.fill_postings(points, ends, 0, start[:-1].copy(), post)
    loops.renumber(start, post, np.zeros(1, np.int32))
    loops.buckets_of(points, 0, 2, np.empty(4, np.int32))
    trigrams = tuple(map(read_only, (start, post, weights, idf)))
    loops.most_alike(points, ends, *trigrams, 1, 0.4)
    *columns, records, owner, preference = build_impacts([["a"]])
    words = tuple(map(read_only, (*columns, records.view(np.int32), records.view(np.float32), owner, preference)))
    hashes = read_only(words[0].copy())  # as texts' hashes are
    for table in (words[0], words[0].copy()):  # mapped from disk, and in memory
        loops.look_up(table, table, hashes)
        loops.holds(table, hashes[0])
    loops.search(hashes, np.ones(1, np.int64), *words, np.zeros(0, np.bool_), True, 1)
    loops.guess(hashes, words, np.frombuffer(b"a", np.uint8), trigrams, 0.4)

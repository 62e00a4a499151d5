"""`map` functions that spread the scoring: this process, or several."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from eevee.errors import EeveeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eevee.searching.evaluation import MapFunction


@contextmanager
def open_map(spec: str = "serial") -> Iterator[MapFunction]:
    """A `map` for `select(map_function=...)` and DEAP's toolbox; its workers end with the block.

    Any other `map` works there, too: that of a cluster's pool, for one.

    Args:
        spec: `serial`, or `processes:N` (N workers of this machine). The result does not depend on it.

    Raises:
        EeveeError: an unknown spec.

    Example:
        >>> with open_map() as spread:
        ...     list(spread(abs, [-1, 2]))
        [1, 2]
    """
    kind, _, count = spec.partition(":")
    if count and not (count.isdigit() and int(count) > 0):
        raise EeveeError(f"executor {spec!r}; expected a positive number after the colon")
    if kind == "serial" and not count:
        yield map
    elif kind == "processes":
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(int(count) if count else None, get_context("spawn"), _one_thread) as pool:
            yield pool.map
    else:
        raise EeveeError(f"executor {spec!r}; expected serial or processes:N")


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)

"""Images are decoded in threads while a model looks at those before."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import numpy as np
    from jaxtyping import UInt8

    from eqben_builder.formats import Picture

T = TypeVar("T")
_AHEAD = 2
"""Batches that are decoded beside the one that is looked at."""
_MOST_WORKERS = 8


def decoded_ahead(
    batches: Iterable[tuple[T, Sequence[Picture]]], *, workers: int | None = None
) -> Iterator[tuple[T, list[UInt8[np.ndarray, "h w 3"]]]]:
    """Yield each batch with its images decoded, in order; the next two are decoded meanwhile.

    Args:
        batches: Anything, with the images of a batch.
        workers: Threads; by default one a core, at most 8.

    Raises:
        ValueError: An image that cannot be decoded, when its batch is asked for.

    Example:
        >>> import numpy as np
        >>> from eqben_builder.formats import Picture, encode_png
        >>> white = Picture(content=encode_png(np.full((2, 3, 3), 255, np.uint8)))
        >>> [(name, images[0].shape) for name, images in decoded_ahead([("first", [white]), ("second", [white])])]
        [('first', (2, 3, 3)), ('second', (2, 3, 3))]
    """
    pool = ThreadPoolExecutor(workers or min(_MOST_WORKERS, _cores()), "decode")
    waiting: deque[tuple[T, list[Future[UInt8[np.ndarray, "h w 3"]]]]] = deque()
    try:
        for batch, pictures in batches:
            waiting.append((batch, [pool.submit(picture.load) for picture in pictures]))
            if len(waiting) > _AHEAD:
                first, futures = waiting.popleft()
                yield first, [future.result() for future in futures]
        while waiting:
            first, futures = waiting.popleft()
            yield first, [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    """The cores of this process, where the system says which; else those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

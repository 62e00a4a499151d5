"""Samples that a function makes one by one (decoded, augmented), ahead of time in worker processes.

The processes are `concurrent.futures`'. `torch.utils.data.DataLoader` raises over a dead worker wherever the main
process is, by a signal, and so in the middle of a checkpoint that is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vision_adapters.rows.source import Draw

_AHEAD = 2
"""Batches that are made ahead, per worker."""


class BrokenSampleError(ValueError):
    """A sample could not be made; the message names its index, and `index` is it."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)  # as it travels from another process
        self.index, self.reason = index, reason

    def __str__(self) -> str:
        return f"sample {self.index}: {self.reason}"


class WorkerDiedError(RuntimeError):
    """A worker process died; the message names the step that waited for it, and its samples."""


def sample_generator(seed: int, step: int, index: int) -> torch.Generator:
    """The generator of one sample in one step (the first being 1) of a training with some seed.

    Example:
        >>> draw = lambda: torch.rand(1, generator=sample_generator(0, 7, 3)).item()
        >>> draw() == draw()
        True
    """
    state = int(np.random.SeedSequence([seed, step, index]).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state >> 1)


class SampleRows:
    """Rows that a function makes, one sample at a time.

    Args:
        make: (index, generator) -> a tensor; all of one shape and type. In training, the generator is that of
            `sample_generator`; where rows are read by their numbers it is None, and nothing may be drawn.
        count: number of samples.
        workers: processes that make batches ahead of a training; 0 makes them in this one. Where processes are not
            forked, `make` must be picklable.

    Raises:
        BrokenSampleError: at reading, a sample for which `make` raised.
        WorkerDiedError: at reading, a worker process that died.

    Example:
        >>> rows = SampleRows(lambda index, generator: torch.full((2,), float(index)), 4)
        >>> rows[torch.tensor([3, 1])].tolist()
        [[3.0, 3.0], [1.0, 1.0]]
    """

    costly = True

    def __init__(self, make: Callable[[int, torch.Generator | None], Tensor], count: int, *, workers: int = 0) -> None:
        if count < 1 or workers < 0:
            raise ValueError(f"expected count >= 1 and workers >= 0, got {count} and {workers}")
        self.make, self.count, self.workers = make, count, workers

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any, /) -> Tensor:
        """The samples of a slice or of a vector of row numbers, with nothing drawn."""
        numbers = range(self.count)[rows] if isinstance(rows, slice) else rows.tolist()
        return _made(self.make, numbers)

    def stream(self, draws: Iterable[Draw]) -> Generator[Tensor]:
        """One batch per draw, in order."""
        if self.workers == 0:
            for draw in draws:
                yield _made(self.make, draw.rows.tolist(), draw)
            return
        yield from self._by_workers(iter(draws))

    def _by_workers(self, draws: Iterator[Draw]) -> Generator[Tensor]:
        pool = ProcessPoolExecutor(self.workers, initializer=_begin, initargs=(self.make,))
        making: deque[tuple[Draw, Future[Any]]] = deque()
        try:
            for future in [pool.submit(int) for _ in range(self.workers)]:  # all start now, before other threads do
                future.result()
            while True:
                for draw in islice(draws, self.workers * _AHEAD - len(making)):
                    making.append((draw, pool.submit(_in_worker, draw)))
                if not making:
                    return
                batch = torch.from_numpy(making[0][1].result())
                making.popleft()
                yield batch
        except BrokenProcessPool as error:
            where = f"step {making[0][0].step}, samples {making[0][0].rows.tolist()[:64]}" if making else "the start"
            raise WorkerDiedError(
                f"a worker process died at {where}, or ahead: one may take too much memory, or crash what decodes it"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_MAKE: list[Any] = []
"""In a worker process, the function that makes samples."""


def _begin(make: Any) -> None:
    torch.set_num_threads(1)  # a forked process must not use its parent's threads, and cores are for the training
    _MAKE[:] = [make]


def _in_worker(draw: Draw) -> npt.NDArray[Any]:
    return _made(_MAKE[0], draw.rows.tolist(), draw).numpy()  # arrays travel without shared memory


def _made(make: Any, numbers: Iterable[int], draw: Draw | None = None) -> Tensor:
    samples = []
    for index in numbers:
        try:
            samples.append(make(index, None if draw is None else sample_generator(draw.seed, draw.step, index)))
        except MemoryError:
            raise
        except Exception as error:  # whatever a decoder raises is told with the sample's index
            raise BrokenSampleError(index, next(iter(str(error).splitlines()), "") or type(error).__name__) from error
    return torch.stack(samples) if samples else torch.empty(0)

"""Samples that a function makes one by one (decoded, augmented), ahead of time in worker processes.

The processes are `concurrent.futures`'. `torch.utils.data.DataLoader` raises over a dead worker wherever the main
process is, by a signal, and so in the middle of a training's step; here the batch is asked for again and the training
goes on.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vision_adapters.rows.source import Draw

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

_LOG = logging.getLogger(__name__)


class BrokenSampleError(ValueError):
    """A sample could not be made; the message names its index, and `index` is it.

    Example:
        >>> from vision_adapters.rows import SampleRows
        >>> def decoded(index, generator):
        ...     raise OSError("broken data stream")
        >>> SampleRows(decoded, 4)[:2]
        Traceback (most recent call last):
        ...
        vision_adapters.rows.samples.BrokenSampleError: sample 0: broken data stream
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"sample {index}: {reason}")
        self.index = index


class WorkerDiedError(RuntimeError):
    """Worker processes died twice over the same batch; the message names the step and its samples.

    Example:
        >>> raise WorkerDiedError("step 4: a worker process died, the second time over sample 3")
        Traceback (most recent call last):
        ...
        vision_adapters.rows.samples.WorkerDiedError: step 4: a worker process died, the second time over sample 3
    """


class _Broken(NamedTuple):
    """A failure that travels as a value: tracebacks of another process help nobody."""

    sample: int
    reason: str


def sample_generator(seed: int, step: int, index: int) -> torch.Generator:
    """The generator of one sample in one step of a training; it depends on nothing else.

    Args:
        seed: of the training, >= 0.
        step: the first being 1.
        index: of the sample.

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
        ahead: batches that are made ahead, per worker.

    Raises:
        BrokenSampleError: at reading, a sample for which `make` raised.
        WorkerDiedError: at reading, worker processes that died twice over one batch. After the first death they are
            started anew and go on with the same batch, which is warned about.

    Example:
        >>> noisy = lambda index, generator: torch.full((2,), float(index)) + (
        ...     0 if generator is None else torch.rand(2, generator=generator)
        ... )
        >>> rows = SampleRows(noisy, 4)
        >>> rows[torch.tensor([3, 1])].tolist()
        [[3.0, 3.0], [1.0, 1.0]]
        >>> first, second = (next(rows.stream([Draw(0, step, torch.tensor([3]))])) for step in (1, 2))
        >>> torch.equal(first, second)
        False
    """

    def __init__(
        self,
        make: Callable[[int, torch.Generator | None], Tensor],
        count: int,
        *,
        workers: int = 0,
        ahead: int = 2,
    ) -> None:
        if count < 1 or workers < 0 or ahead < 1:
            raise ValueError(f"expected count >= 1, workers >= 0, ahead >= 1, got {count}, {workers}, {ahead}")
        self.make, self.count, self.workers, self.ahead = make, count, workers, ahead

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any, /) -> Tensor:
        """The samples of a slice or of a vector of row numbers, with nothing drawn."""
        numbers = range(self.count)[rows] if isinstance(rows, slice) else rows.tolist()
        return _whole(_made(self.make, [(int(number), None) for number in numbers]))

    def stream(self, draws: Iterable[Draw]) -> Generator[Tensor]:
        """One batch per draw; see `StreamedRows`."""
        if self.workers == 0:
            for draw in draws:
                yield _whole(_made(self.make, _keys(draw)))
            return
        yield from self._by_workers(iter(draws))

    def _by_workers(self, draws: Iterator[Draw]) -> Generator[Tensor]:
        planned: deque[Draw] = deque()
        died = -1  # the step at which workers died last
        while True:
            pool, children = self._pool()
            try:
                making = deque(pool.submit(_in_worker, _keys(draw)) for draw in planned)
                while True:
                    while len(planned) < self.workers * self.ahead and (draw := next(draws, None)) is not None:
                        planned.append(draw)
                        making.append(pool.submit(_in_worker, _keys(draw)))
                    if not planned:
                        return
                    batch = _whole(making[0].result())
                    planned.popleft(), making.popleft()
                    yield batch
            except BrokenProcessPool as error:
                first = planned[0]
                message = f"step {first.step}: a worker process died: {_ended(children)}"
                if died == first.step:
                    raise WorkerDiedError(
                        f"{message}, the second time over samples {first.rows.tolist()[:64]}: one of them may take too "
                        "much memory, or crash what decodes it"
                    ) from error
                died = first.step
                _LOG.warning("%s; workers are started anew and go on with the same batch", message)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> tuple[ProcessPoolExecutor, list[Any]]:
        """Processes that hold `make`, and those that were started."""
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(self.workers, initializer=_begin, initargs=(self.make,))
        for future in [pool.submit(int) for _ in range(self.workers)]:  # all start now, before other threads do
            future.result()
        return pool, [child for child in multiprocessing.active_children() if child not in before]


def _ended(children: list[Any]) -> str:
    """How the workers of a broken pool ended, in words.

    The pool ends and reaps the others meanwhile: a process may for a moment be neither running nor have an exit code.
    """
    until = time.monotonic() + 10
    while time.monotonic() < until and any(child.exitcode is None for child in children):
        time.sleep(0.01)
    codes = {child.pid: child.exitcode for child in children if child.exitcode}
    # The pool ends the others by SIGTERM.
    own = {pid: code for pid, code in codes.items() if code != -signal.SIGTERM} or codes
    return ", ".join(f"{pid} (exit code {code})" for pid, code in own.items()) or "it is gone"


_MAKE: list[Any] = []
"""In a worker process, the function that makes samples."""


def _begin(make: Any) -> None:
    torch.set_num_threads(1)  # a forked process must not use its parent's threads, and cores are for the training
    _MAKE[:] = [make]


def _in_worker(keys: list[tuple[int, tuple[int, int] | None]]) -> Any:
    samples = _made(_MAKE[0], keys)
    return samples if isinstance(samples, _Broken) else samples.numpy()  # arrays travel without shared memory


def _keys(draw: Draw) -> list[tuple[int, tuple[int, int] | None]]:
    return [(int(row), (draw.seed, draw.step)) for row in draw.rows.tolist()]


def _made(make: Any, keys: list[tuple[int, tuple[int, int] | None]]) -> Tensor | _Broken:
    samples = []
    for index, position in keys:
        try:
            samples.append(make(index, None if position is None else sample_generator(*position, index)))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a decoder raises is told with the sample's index
            return _Broken(index, next(iter(str(error).splitlines()), "") or type(error).__name__)
    return torch.stack(samples) if samples else torch.empty(0)


def _whole(samples: Any) -> Tensor:
    if isinstance(samples, _Broken):
        raise BrokenSampleError(*samples)
    return samples if isinstance(samples, Tensor) else torch.from_numpy(samples)

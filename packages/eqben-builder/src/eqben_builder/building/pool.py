"""Jobs done in this process or in several, handed out in their order."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from eqben_builder.building.builder import Builder, Dropped, Made
from eqben_builder.duplicates import perceptual_hash
from wary_files.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


class Finished(NamedTuple):
    """A job's pairs, their images already as PNG.

    pairs: The pairs, or why there is none.
    pictures: Two PNG files and, where there is a mask, a third, for each made pair in turn.
    hashes: Two perceptual hashes for each made pair.
    """

    job: int
    pairs: list[Made | Dropped]
    pictures: list[tuple[bytes, ...]]
    hashes: list[tuple[int, int]]


def do_job(builder: Builder, job: int) -> Finished:
    """Make one job's pairs, encode their images and hash them."""
    outcome = builder.make(job)
    results = [outcome] if isinstance(outcome, Made | Dropped) else list(outcome)
    pictures, hashes, light = [], [], list[Made | Dropped]()
    for result in results:
        if isinstance(result, Made):
            _check(builder, job, result)
            files = [_png(image) for image in result.images]
            if result.mask is not None:
                files.append(_png(result.mask))
            pictures.append(tuple(files))
            compared = builder.duplicate_bits is not None
            first, second = (perceptual_hash(image) for image in result.images) if compared else (0, 0)
            hashes.append((first, second))
            empty = np.zeros((1, 1, 3), dtype=np.uint8)
            # The same pair, without what is encoded by now.
            result = replace(result, images=(empty, empty), mask=None)
        light.append(result)
    return Finished(job, light, pictures, hashes)


def _check(builder: Builder, job: int, pair: Made) -> None:
    where = f"{type(builder).__name__}, job {job}"
    shapes = {image.shape for image in pair.images}
    for image in pair.images:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or len(shapes) != 1:
            raise ValueError(f"{where}: expected two uint8 images of one size, found {image.dtype} {sorted(shapes)}")
    if pair.mask is not None and pair.mask.shape != pair.images[0].shape[:2]:
        raise ValueError(f"{where}: the mask is {pair.mask.shape}, the images {pair.images[0].shape[:2]}")
    if pair.aspect not in builder.aspects:
        raise ValueError(f"{where}: aspect {pair.aspect!r} is not one of {', '.join(builder.aspects)}")


def _png(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8 | np.bool_]]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=False, compress_level=6)
    return buffer.getvalue()


_builder: Builder | None = None


def _enter(builder: Builder, parent: int) -> None:
    """A worker's beginning: keep the builder, leave Ctrl-C to the parent, and end when the parent is gone."""
    global _builder
    _builder = builder
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(job: int) -> Finished:
    assert _builder is not None
    return do_job(_builder, job)


class WorkerKilledError(UsageError):
    """A worker process was killed; the same build continues."""


_SAFE = "PYTHONSAFEPATH"


class Pool:
    """Does jobs in `workers` processes, or in this one where it is one."""

    def __init__(self, builder: Builder, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers = {workers!r}, expected at least 1")
        self.workers = workers
        self._builder = builder
        self._executor: ProcessPoolExecutor | None = None
        self._before: str | None = None

    def __enter__(self) -> Pool:
        if self.workers > 1:
            # A new interpreter has the working folder first on its path, where a file may be called like a library.
            self._before = os.environ.get(_SAFE)
            os.environ[_SAFE] = "1"
            spawn = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self.workers, spawn, _enter, (self._builder, os.getpid()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            if self._before is None:
                del os.environ[_SAFE]
            else:
                os.environ[_SAFE] = self._before

    def results(self, jobs: Iterator[int]) -> Iterator[Finished]:
        """Results in the order of the jobs; a few jobs more than there are workers are under way at any time."""
        if self._executor is None:
            yield from (do_job(self._builder, job) for job in jobs)
            return
        running: deque[Future[Finished]] = deque()
        try:
            while True:
                while len(running) < 4 * self.workers:
                    job = next(jobs, None)
                    if job is None:
                        break
                    running.append(self._executor.submit(_work, job))
                if not running:
                    return
                yield running.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerKilledError(
                "a worker process was killed, most often for want of memory; try fewer workers. "
                "What is finished is kept, and the same build continues"
            ) from error
        finally:
            for future in running:
                future.cancel()

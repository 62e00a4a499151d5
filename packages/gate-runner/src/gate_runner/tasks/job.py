"""What a task is given, and what it gives back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gate_runner.benchmarks.benchmark import Benchmark

if TYPE_CHECKING:  # they import torch, which the process that only watches over others does without
    from gate_runner.benchmarks.data import Data
    from gate_runner.encoders.encoder import Encoder


class Progress(Protocol):
    """Called as work goes on: the phase, and how much of it is done."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` steps of ``phase`` are over."""


def silent(phase: str, done: int, total: int) -> None:
    """A `Progress` that shows nothing."""


def unwatched(phase: str) -> AbstractContextManager[None]:
    """What surrounds a phase where nothing is measured besides its time."""
    return nullcontext()


@dataclass
class Phases:
    """Time spent in each phase: ``data``, ``encode``, ``train``, ``test``.

    Args:
        around: called with a phase's name as it begins; what it returns surrounds the phase (an energy meter, say).
    """

    around: Callable[[str], AbstractContextManager[None]] = unwatched
    seconds: dict[str, float] = field(default_factory=dict)
    latest: str = "data"

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time that a block takes to ``seconds[phase]``; a phase may come in several blocks."""
        self.latest = phase
        start = time.perf_counter()
        try:
            with self.around(phase):
                yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Job:
    """One benchmark, one encoder, one seed.

    Args:
        encoder: frozen; it is only read.
        benchmark: what to score.
        data: its three splits.
        seed: of the head's start, the order of batches, and the resampling of intervals.
        batch_size: images per call of the encoder.
        parts: into how many parts each training batch is cut, for little memory; the gradient stays the whole batch's.
        checkpoint: where a training keeps its state, so that it can continue; None keeps none.
        progress: told how far the work is.
        phases: where times go.
    """

    encoder: Encoder
    benchmark: Benchmark
    data: Data
    seed: int = 0
    batch_size: int = 128
    parts: int = 1
    checkpoint: Path | None = None
    progress: Progress = silent
    phases: Phases = field(default_factory=Phases)

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Count a block as part of a phase."""
        return self.phases.timed(phase)

    @property
    def predict_size(self) -> int:
        """Samples per call of the head where nothing is trained."""
        return max(1, self.batch_size // self.parts)

    @property
    def training(self) -> Mapping[str, Any]:
        """The benchmark's numbers for training."""
        return self.benchmark.training


@dataclass(frozen=True)
class TaskScore:
    """A metric's value on the test split.

    Args:
        metric: its name.
        direction: ``"higher"`` or ``"lower"`` is better.
        value: the estimate.
        low: lower end of the 95 % bootstrap interval over test samples.
        high: upper end.
        chance: what the best prediction scores that never looks at the image.
    """

    metric: str
    direction: str
    value: float
    low: float
    high: float
    chance: float


@dataclass(frozen=True)
class Outcome:
    """What a task found.

    Args:
        scores: one per metric of the benchmark, the headline first.
        samples: per-sample outcomes of the headline metric, kept for paired comparisons.
        training: steps, the step that validation chose, and its history.
    """

    scores: tuple[TaskScore, ...]
    samples: np.ndarray
    training: Mapping[str, Any]

"""What a task is given, and what it gives back: scores among it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate_runner.benchmark import Benchmark
from gate_runner.settings import Settings
from vision_adapters.progress import Progress

if TYPE_CHECKING:  # they import torch, which the process that only watches over others does without
    import numpy as np
    from torch.distributed import ProcessGroup

    from gate_data.data import Data, Split
    from gate_data.ragged import Outcomes
    from vision_adapters.rows import Rows
    from vision_features.encoders.encoder import Encoder
    from vision_features.encoders.transforms import OwnTransform
    from vision_features.features import FeatureCache
    from vision_features.heads.saved import KeptHead


def silent(phase: str, done: int, total: int) -> None:
    """A `Progress` that shows nothing."""


@dataclass
class Phases:
    """Time spent in each phase (data, encode, train, test); ``around`` gives what surrounds one, say a meter."""

    around: Callable[[str], AbstractContextManager[object]] = nullcontext
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


def _in_memory() -> FeatureCache:
    from vision_features.features import FeatureCache

    return FeatureCache()


@dataclass(frozen=True)
class Job:
    """One benchmark, one encoder, one seed.

    Args:
        encoder: frozen; it is only read.
        benchmark: what to score.
        data: its three splits.
        settings: of the run.
        seed: of the head's start, the order of batches, and the resampling of intervals.
        checkpoint: where a training keeps its state, so that it can continue; None keeps none.
        progress: told how far the work is.
        phases: where times go.
        features: where what the encoder gave is kept; in memory by default.
        keep_zero_shot: benchmarks whose zero-shot scores are taken before and after a training.
        together: surrounds the training of an encoder with the group of processes that share it, if any.
        shared: what other units on the same data and encoder left in this process, to be read and added to.
    """

    encoder: Encoder
    benchmark: Benchmark
    data: Data[Any]
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    checkpoint: Path | None = None
    progress: Progress = silent
    phases: Phases = field(default_factory=Phases)
    features: FeatureCache = field(default_factory=_in_memory)
    keep_zero_shot: Sequence[Benchmark] = ()
    together: Callable[[], AbstractContextManager[ProcessGroup | None]] = nullcontext
    shared: dict[str, Any] = field(default_factory=dict)

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Count a block as part of a phase."""
        return self.phases.timed(phase)

    def encoded(self, split: Split, kind: str, name: str, *, transform: OwnTransform | None = None) -> Rows:
        """What the encoder gives of each image of a split, by the name under which it is kept.

        Without a transform, images stay the squares that maps and boxes were made for.
        """
        from vision_features.features import encode_pictures

        def progress(done: int, total: int) -> None:
            self.progress(f"encode {name.partition('-')[0]}", done, total)

        with self.timed("encode"):
            size = self.settings.batch_size
            return encode_pictures(
                self.features, self.encoder, split.images, kind, name, size, progress, transform=transform
            )

    @property
    def transform(self) -> OwnTransform | None:
        """The encoder's own way from an image's file to pixels, where these are not to be squares."""
        own = self.settings.transform == "model" and self.settings.tune == "frozen"
        return self.encoder.transform if own else None

    @property
    def predict_size(self) -> int:
        """Samples per call of the head where nothing is trained."""
        return max(1, self.settings.batch_size // self.settings.micro_batches)

    @property
    def class_weight(self) -> Literal["balanced"] | None:
        """How a probe weighs classes."""
        return None if self.settings.class_weight == "none" else "balanced"

    @property
    def training(self) -> Mapping[str, Any]:
        """The benchmark's numbers for training."""
        return self.benchmark.training


@dataclass(frozen=True)
class Score:
    """A metric's value on the test split.

    Args:
        metric: its name.
        direction: ``"higher"`` or ``"lower"`` is better.
        value: the estimate.
        low: lower end of the 95 % bootstrap interval over test samples; NaN if an imported score has none.
        high: upper end; NaN likewise.
        chance: what the best prediction scores that never looks at the image; NaN if an imported score has none.

    Example:
        >>> Score("acc@1", "higher", 0.8, 0.7, 0.9, 0.1).chance
        0.1
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
        samples: per-sample outcomes of the headline metric, kept for paired comparisons; `Ragged` where a sample's are
            several rows, from which the task type's ``statistics`` compute the metric.
        training: steps, the step that validation chose, and its history.
        predicted: what was predicted of each sample, see `gate_runner.tasks.predicted`; None where words cannot say it.
        probabilities: of each sample and class ``[n, k]``, or detections, where they are to be kept for a submission.
        head: what was fitted, where heads are to be kept and the task type can.
        confidence: probability of the predicted class of each sample ``[n]``; None where scores give none.
        distributions: probabilities of all classes ``[n, k]``, if ``confidence`` is given and they are not too many.

    Example:
        >>> import numpy as np
        >>> outcome = Outcome((Score("acc@1", "higher", 0.5, 0.1, 0.9, 0.1),), np.array([0.0, 1.0]), {"steps": 0})
        >>> float(outcome.samples.mean()), outcome.scores[0].value
        (0.5, 0.5)
    """

    scores: tuple[Score, ...]
    samples: Outcomes
    training: Mapping[str, Any]
    predicted: np.ndarray | None = None
    probabilities: Outcomes | None = None
    head: KeptHead | None = None
    confidence: np.ndarray | None = None
    distributions: np.ndarray | None = None

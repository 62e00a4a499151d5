"""One benchmark in small: each phase is timed on a few samples and steps, and extrapolated to the run's numbers."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gate_runner.encoders.encoder import Encoder, PatchFeatures
from gate_runner.features.cache import IN_MEMORY
from gate_runner.machine import PeakMemory
from gate_runner.planning.counting import Counted, count, shortened
from gate_runner.runs.part import Part
from gate_runner.tasks import Job, TaskType, find_task_type, run_task
from gate_runner.tasks.fitting import rate_factors
from vision_adapters.training.rates import Work, work

if TYPE_CHECKING:
    from gate_data.data import Data

_STEPS = 12
"""Of training in a probe: the first ones are slower than those that follow."""
_FORWARD_SECONDS = 1.5
"""For the encoder in one probe; a slow one sees few of the images, and what it gave stands for the others."""


@dataclass(frozen=True)
class Estimate:
    """What one part will take.

    Args:
        phases: seconds of data, encode, train, test and the rest.
        peak_bytes: memory of the process at its highest.
        features: where they will be: ``"memory"``, ``"disk"`` or ``"encoded again"``.
        feature_bytes: that all of them take together.
        recipe: by which the encoder is trained; empty for a frozen one.
        needs: options without which it would take more memory than there is.
    """

    phases: dict[str, float]
    peak_bytes: int
    features: str = "memory"
    feature_bytes: int = 0
    recipe: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(self.phases.values())


@dataclass
class Sampler:
    """An encoder that is asked for as few images as the time allows; the others get copies of what it gave.

    Args:
        encoder: the real one.
        seconds: that it took for ``images`` images.
        unseen: seconds in which it warmed up.
        answered: images for which a task got features, with ``values`` numbers in all.
        text_seconds: that it took for ``texts``.
    """

    encoder: Encoder
    seconds: float = 0.0
    unseen: float = 0.0
    images: int = 0
    answered: int = 0
    values: int = 0
    text_seconds: float = 0.0
    texts: list[str] = field(default_factory=list)

    def wrapped(self) -> Encoder:
        """The encoder to give to a task."""
        real = self.encoder

        def image(images: Tensor) -> Tensor:
            return self._few(images, real.image)

        def backbone(images: Tensor) -> Tensor:
            assert real.backbone is not None
            return self._few(images, real.backbone)

        def patches(images: Tensor) -> PatchFeatures:
            grids: list[tuple[int, int]] = []

            def tokens(few: Tensor) -> Tensor:
                assert real.patches is not None
                patches_of = real.patches(few)
                grids.append(patches_of.grid)
                return patches_of.tokens

            return PatchFeatures(self._few(images, tokens), grids[-1])

        return replace(
            real,
            image=image,
            backbone=None if real.backbone is None else backbone,
            patches=None if real.patches is None else patches,
            text=None if real.text is None else self._timed_text(real.text),
            text_tokens=None if real.text_tokens is None else self._timed_text(real.text_tokens),
        )

    @property
    def per_image(self) -> float:
        """Seconds of the encoder for one image."""
        return self.seconds / max(1, self.images)

    def _few(self, images: Tensor, encode: Callable[[Tensor], Tensor]) -> Tensor:
        begin = time.perf_counter()
        if self.images == 0:
            encode(images[:2])  # the first call of all is slow
            start = time.perf_counter()
            encode(images[:2]).cpu()
            rate = (time.perf_counter() - start) / len(images[:2])
            self.unseen = time.perf_counter() - begin
        else:
            rate = self.per_image
        few = images[: max(1, int((_FORWARD_SECONDS - self.seconds) / max(rate, 1e-9)))]
        start = time.perf_counter()
        features = encode(few).cpu()
        self.seconds += time.perf_counter() - start
        self.images += len(few)
        self.answered += len(images)
        self.values += features[0].numel() * len(images)
        return features.repeat((math.ceil(len(images) / len(features)), *(1,) * (features.ndim - 1)))[: len(images)]

    def _timed_text(self, encode: Callable[[Sequence[str]], Any]) -> Callable[[Sequence[str]], Any]:
        def timed(texts: Sequence[str]) -> Any:
            start = time.perf_counter()
            embedded = encode(texts)
            self.text_seconds += time.perf_counter() - start
            self.texts += texts
            return embedded

        return timed


class Clock:
    """A `Progress` that notes when each step of training was over."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Note the time."""
        if phase == "train":
            self.times.append(time.perf_counter())


def probe(part: Part, encoder: Encoder) -> Estimate:
    """Time a benchmark in small."""
    task = find_task_type(part.benchmark.task)
    few = max(task.probe_samples, min(256, int(part.benchmark.training.get("batch_size", 0))))
    short = shortened(part, _STEPS)
    counted = count(part, few, encoder.image_size)
    memory = PeakMemory()
    base = resident()
    sampler, clock = Sampler(encoder), Clock()
    job = Job(sampler.wrapped(), short.benchmark, counted.data, part.settings, part.seed, progress=clock)
    start = time.perf_counter()
    run_task(job)
    total = time.perf_counter() - start
    spent = job.phases.seconds
    size = int(4 * sampler.values / max(1, sum(samples_here(counted.data))) * sum(counted.samples))
    where = "encoded again" if size > part.settings.feature_cache else "disk" if size > IN_MEMORY else "memory"
    times = _times_encoded(part, counted) if where == "encoded again" else 1.0
    phases = {
        "data": counted.seconds,
        "encode": times * _encode_seconds(counted, sampler, spent.get("encode", 0.0)),
        "train": _train_seconds(part, task, counted, clock, spent.get("train", 0.0)),
        "test": spent.get("test", 0.0) * growth(task, counted, 2),
        "rest": max(0.0, total - sum(spent.values())) * sum(counted.samples) / max(1, sum(samples_here(counted.data))),
    }
    held = size if where == "memory" else 0
    peak = peak_of(counted, base, memory.read().get("peak_bytes", base), held)
    return Estimate(phases, peak, where, size)


def _frames(data: Data[Any]) -> int:
    return math.prod(data.test.images.shape[1:-3]) if data.test.images.shape[1:-3] else 1


def samples_here(data: Data[Any]) -> tuple[int, int, int]:
    """Samples of each split."""
    return len(data.train), len(data.validation), len(data.test)


def growth(task: TaskType, counted: Counted, split: int) -> float:
    """How many times more samples of a split the run has; episodes are as many in a probe as in the run."""
    if not task.grows:
        return 1.0
    return counted.samples[split] / max(1, samples_here(counted.data)[split])


def _encode_seconds(counted: Counted, sampler: Sampler, spent: float) -> float:
    """The encoder's own time by image, what surrounds it (reading, resizing, copying) likewise, and texts by number."""
    images = sum(counted.samples) * _frames(counted.data)
    around = max(0.0, spent - sampler.unseen - sampler.seconds - sampler.text_seconds) / max(1, sampler.answered)
    growth = sum(counted.samples) / max(1, sum(samples_here(counted.data)))
    return images * (sampler.per_image + around) + sampler.text_seconds * _new_texts(counted, growth)


def _train_seconds(part: Part, task: TaskType, counted: Counted, clock: Clock, spent: float) -> float:
    """Steps at the median step's time, and validations that grow with the split."""
    training = part.benchmark.training
    if task.trains and "steps" not in training:
        return spent * growth(task, counted, 0)  # a solved head
    if not task.trains or len(clock.times) < 4:
        return spent
    work = _work(part)
    gaps = [after - before for before, after in zip(clock.times, clock.times[1:], strict=False)]
    step = statistics.median(gaps[1:-1])  # neither the first, nor the last, which is validated
    batch = int(training.get("batch_size", 0))
    if task.grows and batch:
        step *= min(batch, counted.samples[0]) / max(1, min(batch, len(counted.data.train)))
    validation = max(0.0, gaps[-1] - step)
    return work.steps * step + work.validations * validation * growth(task, counted, 1)


def _new_texts(counted: Counted, growth: float) -> float:
    """How many times more different texts a split that is ``growth`` times as large has (a power law)."""
    texts = counted.data.train.texts
    if texts is None or len(texts) < 4:
        return 1.0
    half, all_of_them = len(set(texts[: len(texts) // 2])), len(set(texts))
    exponent = min(1.0, max(0.0, math.log2(all_of_them / half)))
    return float(max(1.0, growth) ** exponent)


def _times_encoded(part: Part, counted: Counted) -> float:
    """How often an image is encoded on average where features are not kept: in steps, validations and the test."""
    work, batch = _work(part), int(part.benchmark.training.get("batch_size", 1))
    train, validation, test = counted.samples
    encoded = train + work.steps * min(batch, train) + work.validations * validation + test
    return encoded / max(1, sum(counted.samples))


def _work(part: Part) -> Work:
    """Steps and validations of a part, as its own numbers have them."""
    training = part.benchmark.training
    steps = int(training.get("steps", 0))
    every = int(training.get("validate_every", max(1, steps // 6)))
    return work(steps, every, len(rate_factors(training, part.settings)))


def peak_of(counted: Counted, base: int, samples: int, features: int) -> int:
    """What the probe reached, and what more samples add: their pixels, and the features that are held in memory."""
    growth = sum(counted.samples) - sum(samples_here(counted.data))
    pixels = 0
    if isinstance(counted.data.test.images, Tensor):
        targets = counted.data.test.targets
        pixels = counted.data.test.images[:1].numel()
        pixels += targets[:1].nbytes if isinstance(targets, Tensor) else 0
    more = features * growth / max(1, sum(counted.samples))
    return int(max(base, samples) + growth * pixels + more)


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

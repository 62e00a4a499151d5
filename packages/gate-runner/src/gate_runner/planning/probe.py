"""One benchmark in small: each phase is timed on a few samples and steps, and extrapolated to the run's numbers."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from gate_data.data import Data
from gate_data.request import Size
from gate_runner.benchmarks import DataRequest
from gate_runner.errors import EncoderError
from gate_runner.machine.resources import PeakMemory
from gate_runner.runs.item_subsets import chosen_of
from gate_runner.runs.unit import EvalUnit
from gate_runner.tasks import Job, TaskType, find_task_type, run_task
from gate_runner.tasks.backbone import preserved_encoder
from gate_runner.tasks.fitting import rate_factors
from gate_runner.tasks.head_initialisation import head_first, head_settings, starts_at_solved
from gate_runner.tasks.recipes import recipe_for
from vision_adapters.training.rates import work
from vision_adapters.training.shared import each_tensor
from vision_features.encoders.blocks import Blocks, summary
from vision_features.encoders.encoder import Encoder, PatchFeatures
from vision_features.encoders.probe import chosen_precision
from vision_features.features.cache import IN_MEMORY

Given = TypeVar("Given", Tensor, Blocks)

_STEPS, _TRAINED_STEPS = 12, 4
"""Of a head, whose first steps are slower than those that follow; of an encoder: the last one is validated."""
_FORWARD_SECONDS = 1.5
"""For the encoder in one probe; a slow one sees few of the images, and what it gave stands for the others."""
_MOST_KEPT = 5
"""Checkpoints of a training whose mean scores, and memory, count."""


class Estimate(NamedTuple):
    """What one part will take: seconds by phase, the process's memory at its highest, a trained encoder's recipe."""

    phases: dict[str, float]
    peak_bytes: int
    recipe: dict[str, Any]


class Counted(NamedTuple):
    """Some samples of a benchmark, how many the run's splits will have, and seconds to make or read all of them."""

    data: Data[Any]
    samples: tuple[int, int, int]
    seconds: float

    @property
    def here(self) -> tuple[int, int, int]:
        """Samples of each split in the probe."""
        return len(self.data.train), len(self.data.validation), len(self.data.test)

    def times(self, split: int) -> float:
        """How many times more samples of a split the run has."""
        return self.samples[split] / max(1, self.here[split])

    @property
    def times_all(self) -> float:
        """The same of all splits."""
        return sum(self.samples) / max(1, sum(self.here))


@dataclass(frozen=True)
class _Noting(DataRequest):
    """A request that notes how many samples a source would make without a limit."""

    noted: list[int] = field(default_factory=list)

    def cap(self, count: int) -> int:
        self.noted.append(count)
        return super().cap(count)


def count(part: EvalUnit, few: int, size: Size) -> Counted:
    """Load a few samples of each split and find out how many the run will load.

    Sources that make their samples ask the request how many to make, and are asked for few; the time grows with the
    number. All others are asked for as many as the run.
    """
    most, chosen = part.settings.limit, chosen_of(part)
    limit = few if most is None else min(few, most)
    noting = _Noting(part.settings.data_root, limit, size, part.settings.skip_unreadable)
    start = time.perf_counter()
    data = part.benchmark.load(part.source, noting)
    seconds = time.perf_counter() - start
    run = part.request(size)
    if noting.noted:
        counts = [run.cap(number) for number in noting.noted]
        samples = (counts[0], counts[1], counts[2]) if len(counts) == 3 else (0, 0, counts[-1])
        seconds *= sum(samples) / max(1, len(data.train) + len(data.validation) + len(data.test))
    elif limit == most:
        samples = (len(data.train), len(data.validation), len(data.test))
    else:
        start = time.perf_counter()
        whole = part.benchmark.load(part.source, run)
        samples = (len(whole.train), len(whole.validation), len(whole.test))
        data, seconds = whole.limited(limit), time.perf_counter() - start
    return Counted(data, samples if chosen is None else (*samples[:2], len(chosen.items)), seconds)


@dataclass
class Sampler:
    """An encoder that is asked for as few images as the time allows; the others get copies of what it gave.

    ``seconds`` are those of ``images`` images, ``unseen`` those of warming up; ``answered`` images got features of
    ``values`` numbers in all.
    """

    encoder: Encoder
    seconds: float = 0.0
    unseen: float = 0.0
    images: int = 0
    answered: int = 0
    values: int = 0
    text_seconds: float = 0.0

    def wrapped(self) -> Encoder:
        """The encoder to give to a task."""
        real, blocks = self.encoder, self.encoder.blocks

        def of(function: Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor] | None:
            return None if function is None else lambda images: self._few(images, function)

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
            opened=real,
            image=lambda images: self._few(images, real.image),
            backbone=of(real.backbone),
            patches=None if real.patches is None else patches,
            blocks=None if blocks is None else lambda images: self._few(images, blocks),
            text=None if real.text is None else self._timed(real.text),
            text_tokens=None if real.text_tokens is None else self._timed(real.text_tokens),
        )

    @property
    def per_image(self) -> float:
        """Seconds of the encoder for one image."""
        return self.seconds / max(1, self.images)

    def _few(self, images: Tensor, encode: Callable[[Tensor], Given]) -> Given:
        begin = time.perf_counter()
        if self.images == 0:
            encode(images[:2])  # the first call of all is slow
            start = time.perf_counter()
            each_tensor(Tensor.cpu, encode(images[:2]))
            rate = (time.perf_counter() - start) / len(images[:2])
            self.unseen = time.perf_counter() - begin
        else:
            rate = self.per_image
        few = images[: max(1, int((_FORWARD_SECONDS - self.seconds) / max(rate, 1e-9)))]
        start = time.perf_counter()
        features: Given = each_tensor(Tensor.cpu, encode(few))
        self.seconds += time.perf_counter() - start
        self.images += len(few)
        self.answered += len(images)
        rows = summary(features) if isinstance(features, Blocks) else features
        self.values += rows[0].numel() * len(images)
        times = math.ceil(len(images) / len(few))
        repeated: Given = each_tensor(
            lambda part: part.repeat((times, *(1,) * (part.ndim - 1)))[: len(images)], features
        )
        return repeated

    def _timed(self, encode: Callable[[Sequence[str]], Any]) -> Callable[[Sequence[str]], Any]:
        def timed(texts: Sequence[str]) -> Any:
            start = time.perf_counter()
            embedded = encode(texts)
            self.text_seconds += time.perf_counter() - start
            return embedded

        return timed


class _Clock:
    """A `Progress` that notes when each step of training was over."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == "train":
            self.times.append(time.perf_counter())

    @property
    def gaps(self) -> list[float]:
        """Seconds of each step but the first; the last one is validated."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


class _Timed:
    """A task run in small: its seconds and memory."""

    def __init__(self, job: Job, clock: _Clock) -> None:
        memory, self.base, start = PeakMemory(), _resident(), time.perf_counter()
        with nullcontext() if job.settings.tune == "frozen" else preserved_encoder(job.encoder):
            self.outcome = run_task(job)
        self.spent, self.gaps = job.phases.seconds, clock.gaps
        self.rest = max(0.0, time.perf_counter() - start - sum(self.spent.values()))
        self.peaks = memory.read()

    def peak(self, counted: Counted, features: int = 0) -> int:
        """What was reached, and what more samples add: their pixels, and the features that are held in memory."""
        growth, test, pixels = sum(counted.samples) - sum(counted.here), counted.data.test, 0
        if isinstance(test.images, Tensor):
            pixels = test.images[:1].numel() + (test.targets[:1].nbytes if isinstance(test.targets, Tensor) else 0)
        more = features * growth / max(1, sum(counted.samples))
        return int(max(self.base, self.peaks.get("peak_bytes", self.base)) + growth * pixels + more)


def probe(part: EvalUnit, encoder: Encoder) -> Estimate:
    """Time a benchmark in small."""
    return _frozen(part, encoder) if part.settings.tune == "frozen" else _trained(part, encoder)


def _frozen(part: EvalUnit, encoder: Encoder) -> Estimate:
    task, training = find_task_type(part.benchmark.task), {**part.benchmark.training}
    few = max(task.probe_samples, min(256, int(training.get("batch_size", 0))))
    training |= {name: _STEPS for name in ("steps", "validate_every") if name in training}
    counted = count(part, few, encoder.image_size)
    sampler, clock = Sampler(encoder), _Clock()
    short = replace(part.benchmark, training=training)
    wrapped = sampler.wrapped()
    wrapped.precision = chosen_precision(encoder, part.settings.feature_precision, counted.data)
    timed = _Timed(Job(wrapped, short, counted.data, part.settings, part.seed, progress=clock), clock)
    size = int(4 * sampler.values / max(1, sum(counted.here)) * sum(counted.samples))
    phases = {
        "data": counted.seconds,
        "encode": _encode_seconds(counted, sampler, timed.spent.get("encode", 0.0)),
        "train": _train_seconds(part, task, counted, timed),
        "test": timed.spent.get("test", 0.0) * (counted.times(2) if task.grows else 1.0),
        "rest": timed.rest * counted.times_all,
    }
    return Estimate(phases, timed.peak(counted, size if size <= IN_MEMORY else 0), {})


def _encode_seconds(counted: Counted, sampler: Sampler, spent: float) -> float:
    """The encoder's own time by image, what surrounds it (reading, resizing, copying) likewise, and texts by number."""
    frames = math.prod(counted.data.test.images.shape[1:-3])
    around = max(0.0, spent - sampler.unseen - sampler.seconds - sampler.text_seconds) / max(1, sampler.answered)
    texts = sampler.text_seconds * _new_texts(counted)
    return sum(counted.samples) * frames * (sampler.per_image + around) + texts


def _new_texts(counted: Counted) -> float:
    """How many times more different texts the run has (a power law)."""
    texts = counted.data.train.texts
    if texts is None or len(texts) < 4:
        return 1.0
    half, all_of_them = len(set(texts[: len(texts) // 2])), len(set(texts))
    exponent = min(1.0, max(0.0, math.log2(all_of_them / half)))
    return float(max(1.0, counted.times_all) ** exponent)


def _train_seconds(part: EvalUnit, task: TaskType, counted: Counted, timed: _Timed) -> float:
    """Steps at the median step's time, and validations that grow with the split; episodes are as many as in the run."""
    training, spent = part.benchmark.training, timed.spent.get("train", 0.0)
    if task.trains and ("steps" not in training or timed.outcome.training.get("steps") == 0):
        return spent * (counted.times(0) if task.grows else 1.0)  # a solved head
    if task.fits:
        return spent * min(task.fits, counted.samples[0]) / max(1, counted.here[0])
    if not task.trains or len(timed.gaps) < 3:
        return spent
    steps = int(training.get("steps", 0))
    every = int(training.get("validate_every", max(1, steps // 6)))
    needed = work(steps, every, len(rate_factors(training, part.settings)))
    step = statistics.median(timed.gaps[1:-1])  # neither the first, nor the last, which is validated
    validation = max(0.0, timed.gaps[-1] - step)
    if task.grows:
        step *= _batch_growth(counted, int(training.get("batch_size", 0)))
        validation = max(0.0, timed.gaps[-1] - step) * counted.times(1)
    return needed.steps * step + needed.validations * validation


def _batch_growth(counted: Counted, batch: int) -> float:
    """How many times more samples a batch of the run has: a probe may have fewer than one."""
    return min(batch, counted.samples[0]) / max(1, min(batch, counted.here[0])) if batch else 1.0


def _trained(part: EvalUnit, encoder: Encoder) -> Estimate:
    """Time a training in small: four steps with the recipe's batch, a validation, a test."""
    task, settings = find_task_type(part.benchmark.task), part.settings
    if encoder.module is None:
        raise EncoderError(f"encoder {encoder.spec!r} shows no weights to train: --tune frozen only")
    recipe = recipe_for(settings, encoder.module, part.benchmark.task)
    counted = count(part, max(task.probe_samples, recipe.batch_size), encoder.image_size)
    steps = min(_TRAINED_STEPS, recipe.steps)
    first = head_first(Job(encoder, part.benchmark, counted.data, settings, part.seed))
    fields = {"steps": steps, "validate_every": max(1, steps), **({"head_start": "random"} if first else {})}
    short = settings.changed(recipe_fields={**settings.recipe_fields, **fields}, keep_zero_shot=(), wise_ft=None)
    stepped = replace(part.benchmark, training={**part.benchmark.training, "head": "transformer"})  # where it has one
    head = _frozen(replace(part, benchmark=stepped, settings=head_settings(settings)), encoder) if first else None
    clock = _Clock()
    job = Job(encoder, part.benchmark, counted.data, short, part.seed, progress=clock)
    timed = _Timed(job, clock)
    spent, training = timed.spent, timed.outcome.training
    step = statistics.median(timed.gaps[1:-1] or timed.gaps or [spent.get("train", 0.0)])
    if task.grows:
        step *= _batch_growth(counted, recipe.batch_size)
    validation = max(0.0, timed.gaps[-1] - step) if timed.gaps else 0.0
    validations = 1 + math.ceil(recipe.steps / recipe.validate_every)
    mixes = 0 if settings.wise_ft is None else 11 if settings.wise_ft == "best" else 5  # each is validated
    # a pass with each of those that are averaged; the probe validated twice
    passes = min(_MOST_KEPT, validations) / 2 if "ensembles" in training else 1.0
    phases = {
        "data": counted.seconds,
        "encode": spent.get("encode", 0.0) * (counted.times(0) if starts_at_solved(job) else 1.0),
        "train": recipe.steps * step + (validations + mixes) * validation * counted.times(1),
        "test": spent.get("test", 0.0) * passes * counted.times(2),
        "rest": timed.rest * counted.times_all,
    }
    weights = int(training.get("trained_parameters", 0)) * 4 * max(0, min(_MOST_KEPT, validations) - 2)
    peak = max(timed.peak(counted) + weights, timed.peaks.get("gpu_peak_bytes", 0))
    if head is not None:
        samples = sum(counted.samples)  # the test split is not encoded for the head
        phases["encode"] += head.phases["encode"] * (samples - counted.samples[2]) / max(1, samples)
        phases["train"] += head.phases["train"]
        peak = max(peak, head.peak_bytes)
    return Estimate(phases, peak, asdict(recipe))


def _resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

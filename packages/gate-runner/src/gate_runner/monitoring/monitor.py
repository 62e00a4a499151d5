"""A monitor: benchmarks on an encoder in training, within a share of its time, and without a trace in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gate_runner.errors import DataError, UsageError
from gate_runner.machine.resources import circumstances, command, versions
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.request import Names, eval_units_of, make_request, own_files
from gate_runner.runs.results import SCHEMA
from gate_runner.settings import Settings
from gate_runner.tasks import Job, Score, run_task
from gate_runner.tasks.augmentation import Augmented, kept_generators
from vision_adapters.rows import sample_generator
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.own import adopt
from vision_features.features import images_at

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_runner.runs.unit import EvalUnit

_LOG = logging.getLogger(__name__)
_SHOWN = 256
"""Test images of the first benchmark of which the geometry of the features is taken."""


class Reading(NamedTuple):
    """What a monitor found at a step: scores by benchmark, or why there is none, and the geometry of the features."""

    step: int
    scores: Mapping[str, tuple[Score, ...]]
    geometry: Mapping[str, float]
    seconds: float
    failed: Mapping[str, str]


def effective_rank(features: Float[Tensor, "n d"]) -> float:
    """RankMe: the exponential of the entropy of the singular values, 1 to min(n, d).

    Source:
        Garrido et al., RankMe (2023), equation 1.
    """
    values = torch.linalg.svdvals(features.double())
    shares = values / values.sum().clamp_min(1e-30) + 1e-7
    return float((-(shares * shares.log()).sum()).exp())


def alignment(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> float:
    """Mean squared distance of two views' unit features, 0 to 4; lower is better.

    Source:
        Wang and Isola (2020), equation 2 with alpha = 2.
    """
    return float((F.normalize(first, dim=1) - F.normalize(second, dim=1)).square().sum(dim=1).mean())


def uniformity(features: Float[Tensor, "n d"]) -> float:
    """Log of the mean Gaussian potential between unit features, at most 0; lower is better.

    Source:
        Wang and Isola (2020), equation 3 with t = 2.
    """
    squared = torch.pdist(F.normalize(features.double(), dim=1)).square()
    return float((-2 * squared).exp().mean().log()) if len(squared) else 0.0


class Monitor:
    """Scores the encoder that a loop trains, every so many steps, and changes nothing in the training.

    Modes of all layers, gradients, the buffers, and the random states of Python, NumPy and torch are afterwards what
    they were: a training has the same bits with and without it. Each reading freezes the encoder as it is, fits a head,
    and scores the test split; results lie in a run folder, which ``gate-runner report`` draws with a curve over steps.
    What goes wrong in a reading is warned about, and the training goes on.

    Args:
        benchmarks: packs or benchmarks, as in `gate_runner.run`.
        every: steps between two readings; the first is taken at step 0, where the loop calls it there.
        budget: share of the time since the first call that readings may take, like ``"5 %"`` or 0.05; a reading that
            would take more waits for a later step. None for no bound. The first reading is always taken.
        output: the run folder. An interrupted training that continues goes on in it.
        name: what reports call the encoder.
        pick: from the model that the loop trains to what `gate_runner.run` takes as an encoder: the module itself by
            default, for one that gives pooled features or has ``encode_image``.
        limit: samples of each split.
        batch_size: images per call of the encoder.
        data_root: folder of data sets' original files.
        seed: of heads.

    Raises:
        UsageError: a benchmark that does not exist, or a number that cannot be used.

    Example:
        >>> import tempfile
        >>> model = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 8))
        >>> monitor = Monitor("digits", every=2, output=tempfile.mkdtemp(), limit=40, budget=None)
        >>> for step in range(3):  # the loop trains here
        ...     reading = monitor(model, step)
        >>> [reading.step for reading in monitor.readings]
        [0, 2]
    """

    def __init__(
        self,
        benchmarks: Names,
        *,
        every: int = 500,
        budget: float | str | None = "5 %",
        output: str | PathLike[str] = "runs/monitor",
        name: str = "training",
        pick: Callable[[Any], Any] = lambda model: model,
        limit: int | None = 400,
        batch_size: int = 64,
        data_root: str | PathLike[str] | None = None,
        seed: int = 0,
    ) -> None:
        if every < 1:
            raise UsageError(f"every must be at least 1, not {every}")
        self.every, self.share, self.name, self.pick = every, _share(budget), name, pick
        settings = Settings(limit=limit, batch_size=batch_size, data_root=data_root, seeds=(seed,))  # type: ignore[arg-type]  # it reads paths
        self.request = make_request(benchmarks, output=output, settings=settings)
        self.parts = eval_units_of(self.request)
        self.folder = RunFolder(self.request.output)
        self.readings: list[Reading] = []
        self.postponed: list[int] = []
        self._data: dict[str, Data[Any]] = {}
        self._began: float | None = None
        self._spent, self._last, self._due, self._calls = 0.0, 0.0, False, 0
        self._claimed, self.seen = False, -1

    def __call__(self, model: nn.Module, step: int | None = None) -> Reading | None:
        """Take a reading, if one is due and the budget allows it.

        Args:
            model: that the loop trains; one that is wrapped by DistributedDataParallel or ``torch.compile`` is
                unwrapped, and only the first process reads.
            step: of the loop; counted from 0 where it is None.
        """
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        at, self._calls = (self._calls if step is None else step), self._calls + 1
        self.seen = at
        self._due = self._due or at % self.every == 0
        if not self._due or _rank() != 0:
            return None
        elapsed = now - self._began
        if self.readings and self.share is not None and self._spent + self._last > self.share * (elapsed + self._last):
            if at % self.every == 0:
                self.postponed.append(at)
            return None
        self._due = False
        try:
            with untraced(model):
                reading = self._read(_unwrapped(model), at, now)
        except Exception as error:  # noqa: BLE001 - a training must not end because it is looked at
            _LOG.warning("monitor at step %d: %s: %s", at, type(error).__name__, error)
            return None
        finally:
            self._last = time.monotonic() - now
            self._spent += self._last
        self.readings.append(reading)
        return reading

    def lightning(self) -> Any:
        """A callback for a Lightning ``Trainer``, which reads after batches; ``pick`` gets the LightningModule."""
        from lightning.pytorch import Callback

        monitor = self

        class MonitorCallback(Callback):
            """Reads before the first batch, and after batches; those of one accumulated step count once."""

            def on_train_start(self, trainer: Any, pl_module: Any) -> None:
                monitor(pl_module, int(trainer.global_step))

            def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
                if monitor.seen != trainer.global_step:
                    monitor(pl_module, int(trainer.global_step))

        return MonitorCallback()

    def transformers(self) -> Any:
        """A callback for transformers' ``Trainer``, which reads after steps; ``pick`` gets its model."""
        from transformers import TrainerCallback

        monitor = self

        class MonitorCallback(TrainerCallback):
            """Reads before the first step, and after steps."""

            def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
                monitor(model, int(state.global_step))

            on_step_end = on_train_begin

        return MonitorCallback()

    def _read(self, model: nn.Module, step: int, begin: float) -> Reading:
        encoder = adopt(self.pick(model), self.name)
        weight = next(model.parameters(), torch.zeros(1))
        encoder.to(str(weight.device))
        narrow = weight.dtype in (torch.bfloat16, torch.float16)
        with torch.autocast(weight.device.type, weight.dtype if narrow else torch.bfloat16, enabled=narrow):
            self._claim(encoder)
            geometry = self._geometry(encoder)
            scores: dict[str, tuple[Score, ...]] = {}
            failed: dict[str, str] = {}
            for part in self.parts:
                try:
                    scores[part.name] = self._scored(part, encoder, step, geometry)
                except Exception as error:  # noqa: BLE001 - the others are read all the same
                    failed[part.name] = f"{type(error).__name__}: {error}"
                    _LOG.warning("monitor at step %d: %s: %s", step, part.name, failed[part.name])
        return Reading(step, scores, geometry, time.monotonic() - begin, failed)

    def _scored(self, part: EvalUnit, encoder: Encoder, step: int, geometry: Mapping[str, float]) -> tuple[Score, ...]:
        start = time.monotonic()
        job = Job(encoder, part.benchmark, self._loaded(part, encoder), part.settings, part.seed)
        outcome = run_task(job)
        headline = outcome.scores[0]
        curve = [*self._earlier(part, step, "validation"), {"step": step, headline.metric: headline.value}]
        result = replace(
            part.blank(self._description(encoder)),
            status="ok",
            note=job.data.note,
            scores=outcome.scores,
            data={
                "train": len(job.data.train),
                "validation": len(job.data.validation),
                "test": len(job.data.test),
                "classes": len(job.data.classes),
                **part.known_by(job.data, job.data.digest()),
                **part.asked(encoder.image_size),
                "versions": dict(versions()),
            },
            training={
                **outcome.training,
                "steps": step,
                "validation": curve,
                "monitored": True,
                "geometry": [*self._earlier(part, step, "geometry"), {"step": step, **geometry}],
            },
            seconds={**job.phases.seconds, "total": time.monotonic() - start},
        )
        with self.folder.working(part.name, part.seed, wait=30):
            part.save(result, outcome.samples, predicted=outcome.predicted)
        return outcome.scores

    def _loaded(self, part: EvalUnit, encoder: Encoder) -> Data[Any]:
        if part.name not in self._data:
            self._data[part.name] = part.load(encoder.image_size)
        return self._data[part.name]

    def _earlier(self, part: EvalUnit, step: int, field: str) -> list[Mapping[str, Any]]:
        """The curve so far, also of an earlier process; what lies after this step is of a training that was cut."""
        try:
            result = self.folder.finished(part.name, part.seed)
        except DataError:
            return []
        return [row for row in result.training.get(field, ()) if row["step"] < step] if result else []

    def _geometry(self, encoder: Encoder) -> dict[str, float]:
        part = self.parts[0]
        images = self._loaded(part, encoder).test.images
        shown = images_at(images, torch.arange(min(_SHOWN, len(images))))
        shown = shown.reshape(len(shown), -1, *shown.shape[-3:])[:, 0]
        change = Augmented(shown)
        views = torch.stack([change(row, sample_generator(part.seed, 1, row)) for row in range(len(shown))])
        features, second = (
            torch.cat([encoder.encode_image(batch).cpu() for batch in torch.split(pictures, part.settings.batch_size)])
            for pictures in (shown, views)
        )
        aligned, uniform = alignment(features, second), uniformity(features)
        return {"rank": effective_rank(features), "alignment": aligned, "uniformity": uniform}

    def _description(self, encoder: Encoder) -> dict[str, Any]:
        """Of the encoder, without its weights, which differ at each reading."""
        return {
            "spec": self.name,
            "image_size": encoder.preparation()["image_size"],
            "provides": encoder.provides(),
            "parameters": encoder.parameters(),
            "fingerprint": None,
        }

    def _claim(self, encoder: Encoder) -> None:
        if self._claimed:
            return
        identity = {"encoder": self._description(encoder), "schema": SCHEMA, **self.request.settings.identity()}
        own = own_files(self.request.benchmarks, self.folder.path)
        self.folder.claim(identity, {"command": command(), **own, **circumstances()})
        self._claimed = True


def _share(budget: float | str | None) -> float | None:
    if budget is None:
        return None
    try:
        share = float(budget.strip().removesuffix("%")) / 100 if isinstance(budget, str) else float(budget)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise UsageError(f"budget is a share of the time like '5 %' or 0.05, or None, not {budget!r}")
    return share


def _rank() -> int:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if distributed else 0


def _unwrapped(model: Any) -> nn.Module:
    """The module within DistributedDataParallel, DataParallel or torch.compile."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            inner: nn.Module = model
            return inner


@contextmanager
def untraced(model: nn.Module) -> Iterator[None]:
    """Leave modes, gradient flags, gradients, buffers and random states as they were, whatever happens inside."""
    modes = [(part, part.training) for part in model.modules()]
    gradients = [(weight, weight.requires_grad) for weight in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    cuda: Any = torch.cuda
    cards = cuda.get_rng_state_all() if cuda.is_available() and cuda.is_initialized() else []
    grad = torch.is_grad_enabled()
    try:
        with kept_generators():
            yield
    finally:
        torch.set_grad_enabled(grad)
        for part, mode in modes:
            part.training = mode
        for weight, flag in gradients:
            weight.requires_grad_(flag)
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
        if cards:
            cuda.set_rng_state_all(cards)

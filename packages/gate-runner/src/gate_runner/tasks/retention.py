"""What follows the training of an encoder: the mix with where it started, and what was gained and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gate_data.request import DataRequest
from gate_runner.errors import MissingCapabilityError
from gate_runner.tasks.features import embedded
from knowledge_prompts import ClassPrompts, build_prompts, class_embeddings
from knowledge_prompts.class_words import words_in
from vision_adapters.training.head import Trained
from vision_adapters.training.retention import paired_change, zero_shot_outcomes
from vision_adapters.training.wise_ft import wise_ft
from vision_features.features import images_at

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_data.pictures import Pictures
    from gate_runner.benchmark import Benchmark
    from gate_runner.tasks.job import Job
    from vision_adapters.training import Direction
    from vision_adapters.training.wise_ft import Mix

TEMPLATES = ("a {}", "a photo of a {}", "a picture of a {}")
"""Of class prompts, where a benchmark names none."""


def class_weights(job: Job, benchmark: Benchmark, classes: Sequence[str]) -> Float[Tensor, "k d"]:
    """A unit vector for each class, from its prompts."""
    words = words_in(benchmark.training)
    if words is not None and (words.prompts or words.words or words.knowledge):
        prompts = words.built(classes)
    else:
        templates = list(benchmark.training.get("templates", TEMPLATES))
        prompts = build_prompts(ClassPrompts(benchmark.id, templates, list(classes)))
    embeddings = class_embeddings(lambda texts: embedded(job, texts).numpy(), prompts)
    return torch.from_numpy(embeddings.weights).float()


@dataclass(frozen=True, eq=False)
class Fitted(Trained):
    """A training, ``more`` that a result says of it, and class prompts' outcomes before it, where asked for."""

    more: Mapping[str, Any] = field(default_factory=dict)
    zero_shot: np.ndarray | None = None

    def about(self, metric: str) -> dict[str, Any]:
        """What a result's ``training`` says of it; ``metric`` is what validation chose by."""
        rates = [{"lr": rate.lr, "steps": rate.steps, metric: rate.score} for rate in self.tried]
        return {
            "steps": self.recipe.steps,
            "lr": self.recipe.lr,
            **({"tried": rates} if rates else {}),
            "chosen_step": self.best_step,
            "validation": [{"step": row.step, metric: row.score} for row in self.history],
            **self.more,
        }


@dataclass(frozen=True)
class _ZeroShot:
    """Test images of a benchmark, and what its class prompts are in the encoder's space."""

    name: str
    metric: str
    images: Tensor | Pictures
    truth: Int[Tensor, " n"]
    weights: Float[Tensor, "k d"]

    @classmethod
    def of(cls, job: Job, benchmark: Benchmark, name: str, data: Data[Any]) -> _ZeroShot:
        weights = class_weights(job, benchmark, data.classes)
        return cls(name, benchmark.metrics[0], data.test.images, data.test.targets, weights)

    def outcomes(self, job: Job) -> np.ndarray:
        """Per-sample outcomes of the encoder as it is now."""
        parts = [
            job.encoder.encode_image(images_at(self.images, rows)).cpu()
            for rows in torch.split(torch.arange(len(self.truth)), job.settings.batch_size)
        ]
        return zero_shot_outcomes(self.metric, torch.cat(parts), self.weights, self.truth)


def kept_sets(job: Job) -> list[_ZeroShot]:
    """The benchmarks whose zero-shot scores the settings ask to keep."""
    settings, sets = job.settings, []
    if job.keep_zero_shot and job.encoder.text is None:
        raise MissingCapabilityError(f"encoder {job.encoder.spec!r} has no text side; setting keep_zero_shot needs one")
    for benchmark in job.keep_zero_shot:
        source = benchmark.choose_source(settings.source, settings.data_root)
        size, skip = job.encoder.image_size, settings.skip_unreadable
        data = benchmark.load(source, DataRequest(settings.data_root, settings.limit, size, skip))
        sets.append(_ZeroShot.of(job, benchmark, benchmark.name_with(source), data))
    return sets


def after_training(
    job: Job,
    done: Trained,
    validate: Callable[[nn.Module], float],
    direction: Direction,
    *,
    mix_head: bool,
) -> Fitted:
    """Mix a trained encoder with its start, and score what was forgotten, as the settings ask."""
    settings = job.settings
    more: dict[str, Any] = {
        "recipe": asdict(done.recipe),
        "gradients": [{"step": row.step, "norm": row.norm, **row.layers} for row in done.gradients],
        "trained_parameters": sum(weight.numel() for weight in done.module.parameters() if weight.requires_grad),
    }
    sets = kept_sets(job)
    if settings.wise_ft is None and not sets:
        return Fitted(**vars(done), more=more)
    own = len(sets)
    if sets and job.benchmark.task == "image-classification":
        sets.append(_ZeroShot.of(job, job.benchmark, job.benchmark.id, job.data))
    outcomes: dict[float, list[np.ndarray]] = {}

    def look(share: float) -> None:
        with torch.no_grad():
            outcomes[share] = [benchmark.outcomes(job) for benchmark in sets]

    share: Any = settings.wise_ft
    mix = wise_ft(done.module, done.start, done.kept, share, validate, direction, whole=mix_head, look=look)
    if settings.wise_ft is not None:
        curve = [_row(row, sets[:own], outcomes[row.share]) for row in mix.curve]
        more["wise_ft"] = {"share": mix.share, "head": "mixed" if mix_head else "as trained", "curve": curve}
    if sets:
        more["zero_shot"] = [
            _forgotten(benchmark, before, after, job.seed)
            for benchmark, before, after in zip(sets[:own], outcomes[0.0], outcomes[mix.share], strict=False)
        ]
    before = outcomes[0.0][own] if len(sets) > own else None
    return Fitted(**{**vars(done), "kept": mix.kept}, more=more, zero_shot=before)


def _row(row: Mix, sets: Sequence[_ZeroShot], outcomes: Sequence[np.ndarray]) -> dict[str, Any]:
    values = {values.name: float(outcome.mean()) for values, outcome in zip(sets, outcomes, strict=False)}
    return {"share": row.share, "validation": row.validation, **({"zero_shot": values} if values else {})}


def _forgotten(benchmark: _ZeroShot, before: np.ndarray, after: np.ndarray, seed: int) -> dict[str, Any]:
    change = paired_change(benchmark.metric, before, after, seed=seed)
    return {"benchmark": benchmark.name, "samples": len(before), **change._asdict()}

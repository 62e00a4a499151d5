"""What follows the training of an encoder: the mix with where it started, and what was gained and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gate_runner.benchmarks import DataRequest, resolve
from gate_runner.class_words import words_in
from gate_runner.errors import MissingCapabilityError
from gate_runner.features import images_at
from gate_runner.tasks.features import embedded
from knowledge_prompts import ClassPrompts, build_prompts, class_embeddings
from vision_adapters.finetune import interpolate
from vision_adapters.metrics import METRICS, evaluate, paired_difference

if TYPE_CHECKING:
    from gate_data.data import Data
    from gate_data.pictures import Pictures
    from gate_runner.benchmarks.benchmark import Benchmark
    from gate_runner.tasks.job import Job
    from gate_runner.tasks.trained import Trained

TEMPLATES = ("a {}", "a photo of a {}", "a picture of a {}")
"""Of class prompts, where a benchmark names none."""
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TENTHS = tuple(number / 10 for number in range(11))


def class_weights(job: Job, benchmark: Benchmark, classes: Sequence[str]) -> Float[Tensor, "k d"]:
    """A unit vector for each class, from its prompts.

    Raises:
        MissingCapabilityError: the encoder has no text side.
    """
    words = words_in(benchmark.training)
    if words is not None and (words.prompts or words.names or words.knowledge):
        prompts = words.built(classes)
    else:
        templates = list(benchmark.training.get("templates", TEMPLATES))
        prompts = build_prompts(ClassPrompts(benchmark.id, templates, list(classes)))
    made = class_embeddings(lambda texts: embedded(job, texts).numpy(), prompts)
    return torch.from_numpy(made.weights).float()


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
        scores = F.normalize(torch.cat(parts), dim=-1) @ self.weights.T
        return np.asarray(evaluate(self.metric, scores, self.truth, resamples=0).outcomes)


def kept_sets(job: Job) -> list[_ZeroShot]:
    """The benchmarks whose zero-shot scores the settings ask to keep.

    Raises:
        MissingCapabilityError: the encoder has no text side.
        DataError: data that are not there.
    """
    settings, found = job.settings, []
    if settings.keep_zero_shot and job.encoder.text is None:
        raise MissingCapabilityError(f"encoder {job.encoder.spec!r} has no text side; --keep-zero-shot needs one")
    for benchmark in resolve(settings.keep_zero_shot):
        source = benchmark.choose_source(settings.source, settings.data_root)
        size, skip = job.encoder.image_size, settings.skip_unreadable
        data = benchmark.load(source, DataRequest(settings.data_root, settings.limit, size, skip))
        found.append(_ZeroShot.of(job, benchmark, benchmark.name_with(source), data))
    return found


def after_training(
    job: Job,
    module: nn.Module,
    start: Mapping[str, Tensor],
    done: Trained,
    validate: Callable[[nn.Module], float],
    *,
    higher: bool,
) -> Trained:
    """Mix a trained encoder with its start, and score what was forgotten, as the settings ask.

    Args:
        job: whose encoder is trained.
        module: encoder and head; left with the weights to be tested.
        start: what training could change, before.
        done: how it went.
        validate: scores the module.
        higher: whether higher scores are better.

    Returns:
        The same, with what a result says of all this; its checkpoints are mixed, too.

    Raises:
        MissingCapabilityError: zero-shot scores of an encoder without a text side.
    """
    settings = job.settings
    trained = sum(weight.numel() for weight in module.parameters() if weight.requires_grad)
    more: dict[str, Any] = {
        "recipe": asdict(done.recipe),
        "gradients": [{"step": row.step, "norm": row.gradient_norm, **row.layers} for row in done.history if row.step],
        "trained_parameters": trained,
    }
    sets = kept_sets(job)
    if settings.wise_ft is None and not sets:
        return replace(done, more=more)
    own = len(sets)
    if sets and job.benchmark.task == "image-classification":
        sets.append(_ZeroShot.of(job, job.benchmark, job.benchmark.id, job.data))
    whole = job.start is not None or bool(getattr(getattr(module, "head", None), "starts_somewhere", False))
    best = done.kept[0].state
    curve: list[dict[str, Any]] = []
    outcomes: dict[float, list[np.ndarray]] = {}
    for share in _shares(settings.wise_ft):
        module.load_state_dict(mixed(start, best, share, whole=whole), strict=False)
        module.eval()
        with torch.no_grad():
            value = float(validate(module))
        outcomes[share] = [one.outcomes(job) for one in sets]
        kept = {one.name: float(found.mean()) for one, found in zip(sets[:own], outcomes[share], strict=False)}
        curve.append({"share": share, "validation": value, **({"zero_shot": kept} if kept else {})})
    chosen = _chosen(curve, settings.wise_ft, higher)
    states = [each._replace(state=mixed(start, each.state, chosen, whole=whole)) for each in done.kept]
    module.load_state_dict(states[0].state, strict=False)
    if settings.wise_ft is not None:
        more["wise_ft"] = {"share": chosen, "head": "mixed" if whole else "as trained", "curve": curve}
    if sets:
        more["zero_shot"] = [
            _forgotten(one, before, after, job.seed)
            for one, before, after in zip(sets[:own], outcomes[0.0], outcomes[chosen], strict=False)
        ]
    before = outcomes[0.0][own] if len(sets) > own else None
    return replace(done, kept=states, more=more, zero_shot=before)


def gained(metric: str, before: np.ndarray, after: np.ndarray, seed: int) -> dict[str, Any]:
    """The change from one model's outcomes to another's on the same samples, with its interval."""
    found = paired_difference(metric, before, after, seed=seed)
    ones = np.ones((1, len(before)))
    values = [float(METRICS[metric].aggregate(each, ones)[0]) for each in (before, after)]
    return {
        "metric": metric,
        "before": values[0],
        "after": values[1],
        "change": found.value,
        "low": found.low,
        "high": found.high,
    }


def _forgotten(one: _ZeroShot, before: np.ndarray, after: np.ndarray, seed: int) -> dict[str, Any]:
    return {"benchmark": one.name, "samples": len(before), **gained(one.metric, before, after, seed)}


def _shares(asked: float | str | None) -> list[float]:
    if asked is None:
        return [0.0, 1.0]
    return list(_TENTHS) if asked == "best" else sorted({*_QUARTERS, float(asked)})


def _chosen(curve: Sequence[Mapping[str, Any]], asked: float | str | None, higher: bool) -> float:
    """The share that was asked for, or the one that validates best, the nearest to the start among equals."""
    if asked is None:
        return 1.0
    if asked != "best":
        return float(asked)
    sign = 1.0 if higher else -1.0
    return float(max(curve, key=lambda row: (sign * row["validation"], -row["share"]))["share"])


def mixed(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float, *, whole: bool) -> dict[str, Tensor]:
    """Weights between a start and a trained module.

    Args:
        start: what training could change, before.
        tuned: the same, after.
        share: of the trained weights, 0 to 1.
        whole: mix the head, too: only where it started at something, say the class prompts. A head that started at
            random stays as it was trained.

    Returns:
        The mix. Of a low-rank update the product with the start is mixed, which is zero: one factor is scaled.

    Source:
        WiSE-FT (Wortsman et al., 2022), equation 1.
    """
    fixed = {name for name in tuned if ".lora_A" in name or (name.startswith("head.") and not whole)}
    both = interpolate(
        {name: value for name, value in start.items() if name not in fixed},
        {name: value for name, value in tuned.items() if name not in fixed},
        share,
    )
    return {name: tuned[name] if name in fixed else both[name] for name in tuned}

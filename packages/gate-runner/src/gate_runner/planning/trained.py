"""What the training of a whole encoder takes: a few of its own steps, and its recipe's numbers."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from gate_runner.errors import EncoderError
from gate_runner.machine import PeakMemory, free_memory
from gate_runner.planning.counting import Counted, count
from gate_runner.planning.probe import Clock, Estimate, peak_of, probe, resident, samples_here
from gate_runner.tasks import Job, find_task_type, run_task
from gate_runner.tasks.backbone import untouched
from gate_runner.tasks.recipes import recipe_for
from gate_runner.tasks.started import head_first, head_settings, starts_at_solved

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.runs.part import Part

_STEPS = 4
"""Of a probe; the first is slow, and the last is validated."""
_MOST_KEPT = 5


def available_bytes(device: str) -> int | None:
    """Memory that a training may take, or None where nobody tells."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.get_device_properties(torch.device(device)).total_memory)
    return free_memory()


def probe_trained(part: Part, encoder: Encoder) -> Estimate:
    """Time a training in small: four steps with the recipe's batch, a validation, a test.

    Where that would take more memory than there is, blocks are computed again in the backward pass, and the estimate
    says that ``--checkpoint-blocks`` is needed.
    """
    estimate = _probed(part, encoder)
    most = available_bytes(str(encoder.device))
    if most is None or estimate.peak_bytes <= most or part.settings.checkpoint_blocks:
        return estimate
    try:
        smaller = _probed(replace(part, settings=part.settings.changed(checkpoint_blocks=True)), encoder)
    except EncoderError:
        return estimate
    return replace(smaller, needs=("--checkpoint-blocks",)) if smaller.peak_bytes < estimate.peak_bytes else estimate


def _probed(part: Part, encoder: Encoder) -> Estimate:
    task, settings = find_task_type(part.benchmark.task), part.settings
    if encoder.module is None:
        raise EncoderError(f"encoder {encoder.spec!r} shows no weights to train: --tune frozen only")
    recipe = recipe_for(settings, encoder.module, part.benchmark.task)
    counted = count(part, max(task.probe_samples, recipe.batch_size), encoder.image_size)
    steps = min(_STEPS, recipe.steps)
    before = head_first(Job(encoder, part.benchmark, counted.data, settings, part.seed))
    fields = {"steps": steps, "validate_every": max(1, steps), **({"head_start": "random"} if before else {})}
    short = settings.changed(
        recipe_fields={**settings.recipe_fields, **fields}, keep_zero_shot=(), wise_ft=None
    )  # fmt: skip
    head = probe(replace(part, settings=head_settings(settings)), encoder) if before else None
    memory, base, clock = PeakMemory(), resident(), Clock()
    job = Job(encoder, part.benchmark, counted.data, short, part.seed, progress=clock)
    start = time.perf_counter()
    with untouched(encoder):
        outcome = run_task(job)
    total, spent = time.perf_counter() - start, job.phases.seconds
    gaps = [after - before for before, after in zip(clock.times, clock.times[1:], strict=False)]
    step = statistics.median(gaps[1:-1] or gaps or [spent.get("train", 0.0)])
    sizes = samples_here(counted.data)
    if task.grows:
        step *= min(recipe.batch_size, counted.samples[0]) / max(1, min(recipe.batch_size, sizes[0]))
    validation = max(0.0, gaps[-1] - step) if gaps else 0.0
    validations = 1 + math.ceil(recipe.steps / recipe.validate_every)
    validated = validations + _mixes(settings.wise_ft)
    passes = 1.0
    if "ensembles" in outcome.training:  # a pass with each of those that are averaged; the probe validated twice
        passes = min(_MOST_KEPT, validations) / 2
    phases = {
        "data": counted.seconds,
        "encode": spent.get("encode", 0.0) * (_growth(counted, 0) if starts_at_solved(job) else 1.0),
        "train": recipe.steps * step + validated * validation * _growth(counted, 1),
        "test": spent.get("test", 0.0) * passes * _growth(counted, 2),
        "rest": max(0.0, total - sum(spent.values())) * sum(counted.samples) / max(1, sum(sizes)),
    }
    if head is not None:
        samples = sum(counted.samples)  # the test split is not encoded for the head
        phases["encode"] += head.phases["encode"] * (samples - counted.samples[2]) / max(1, samples)
        phases["train"] += head.phases["train"]
    checkpoint_bytes = int(outcome.training.get("trained_parameters", 0)) * 4 * max(0, min(_MOST_KEPT, validations) - 2)
    peak = peak_of(counted, base, memory.read().get("peak_bytes", base), 0) + checkpoint_bytes
    gpu = memory.read().get("gpu_peak_bytes", 0)
    peaks = (peak, gpu, 0 if head is None else head.peak_bytes)
    return Estimate(phases, max(peaks), recipe=asdict(recipe))


def _growth(counted: Counted, split: int) -> float:
    """How many times more samples of a split the run has; each is encoded once, also where there are episodes."""
    return counted.samples[split] / max(1, samples_here(counted.data)[split])


def _mixes(share: Any) -> int:
    """Validations of mixes with the start."""
    return 0 if share is None else 11 if share == "best" else 5

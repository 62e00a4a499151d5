"""From a run's settings to the points of a sweep, and from a point's name to its benchmark; without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gate_data.cards import ICINW
from gate_runner.axes import Variant
from gate_runner.class_words import WORDS
from gate_runner.errors import DataError, UsageError
from gate_runner.tasks.registry import find_task_type

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings


def cells(settings: Settings) -> Sequence[tuple[str, int]]:
    """Names of variants with their seeds; the benchmark itself where no axis is asked for."""
    axes = settings.axes()
    if axes is None:
        return [("", seed) for seed in settings.seeds]
    _check(settings)
    candidates = "+".join(axes.candidates())
    return [
        (f"{variant.name}:{candidates}" if variant.knowledge == "auto" else variant.name, seed)
        for variant, seed in axes.units()
    ]


def zero_shot(benchmark: Benchmark) -> Benchmark:
    """A benchmark that can be swept, with class prompts alone; any other, or a variant, as it is.

    Example:
        >>> from gate_runner.benchmarks import BENCHMARKS
        >>> zero_shot(BENCHMARKS["digits"]).task, zero_shot(BENCHMARKS["omniglot"]).task
        ('elevater', 'few-shot')
    """
    from gate_runner.settings import Settings

    task = find_task_type(benchmark.task)
    return task.varied(benchmark, cells(Settings(shots=("0",)))[0][0]) if task.sweeps else benchmark


def _check(settings: Settings) -> None:
    """Refuse what a sweep does not have."""
    alone = {"save_encoders": False, "keep_zero_shot": (), "wise_ft": None, "num_processes": 1, "items": None}
    for name, default in alone.items():
        if getattr(settings, name) != default:
            raise UsageError(f"--{name.replace('_', '-')} is for single trainings, not for a sweep")
    folder = settings.knowledge_folder
    if folder is not None and not any((folder / name).is_dir() for name in ("external", "gpt3")):
        raise DataError(f"--knowledge-folder {folder} holds neither external/ nor gpt3/")


def variant(benchmark: Benchmark, text: str) -> Benchmark:
    """A benchmark of image classification by ELEVATER's protocol, or without a probe."""
    if text in find_task_type(benchmark.task).same_samples:
        title, task = f"{benchmark.title}, {text}", find_task_type(text)
        metrics = benchmark.metrics if "acc@1" in task.own_metrics else tuple(task.own_metrics)
        return replace(benchmark, id=f"{benchmark.id}@{text}", title=title, task=text, metrics=metrics, training={})
    name, _, candidates = text.partition(":")
    point = Variant.parse(name)
    cell = {**point._asdict(), "candidates": candidates.split("+") if candidates else ["none"]}
    words = {name: benchmark.training[name] for name in WORDS if benchmark.training.get(name)}
    metric = ICINW[benchmark.id].metric if benchmark.id in ICINW else benchmark.metrics[0]
    return replace(
        benchmark,
        id=f"{benchmark.id}@{name}",
        title=f"{benchmark.title}, {name}",
        task="elevater",
        metrics=(metric,),
        training={"variant": cell, **words},
        original_training={},
        cost=30.0 if point.tune == "full" else 0.2,
    )

"""Which variants of a benchmark a run computes, and what stands behind ``@`` in a name, by task type; without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gate_data.cards import ICINW, SHEETS
from gate_runner.errors import DataError, UsageError
from gate_runner.settings.axes import Variant
from gate_runner.settings.values import PATCH_FEATURES
from gate_runner.tasks.registry import find_task_type
from knowledge_prompts.class_words import WORDS

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings

_WAYS = {"aircraft": (5, 9), "omniglot": (2, 49)}
"""The fewest and the most ways of GATE's episodes, where they are not 5 and 49."""


def points(settings: Settings) -> Sequence[tuple[str, int]]:
    """Names of variants with their seeds; the benchmark itself where no axis is asked for."""
    axes = settings.axes()
    if axes is None:
        return [("", seed) for seed in settings.seeds]
    _check_sweep(settings)
    candidates = ",".join(axes.candidates())
    return [
        (f"{variant.name}:{candidates}" if variant.knowledge == "auto" else variant.name, seed)
        for variant, seed in axes.units()
    ]


def zero_shot(benchmark: Benchmark) -> Benchmark:
    """A benchmark that can be swept, with class prompts alone; any other, or a variant, as it is."""
    from gate_runner.settings import Settings

    task = find_task_type(benchmark.task)
    return task.varied(benchmark, points(Settings(shots=("0",)))[0][0]) if task.sweeps else benchmark


def _check_sweep(settings: Settings) -> None:
    """Refuse what a sweep does not have."""
    alone = {"save_encoders": False, "keep_zero_shot": (), "wise_ft": None, "items": None}
    for name, default in alone.items():
        if getattr(settings, name) != default:
            raise UsageError(f"setting {name} is for single trainings, not for a sweep")
    if settings.num_processes > 1 and "auto" in settings.knowledge:
        raise UsageError("setting num_processes shares one training, and --knowledge auto is several: leave out one")
    _check_trained(settings)
    folder = settings.knowledge_folder
    if folder is not None and not any((folder / name).is_dir() for name in ("external", "gpt3")):
        raise DataError(f"setting knowledge_folder: {folder} holds neither external/ nor gpt3/")


def _check_trained(settings: Settings) -> None:
    """Refuse what only trainings of whole encoders have, and what ELEVATER's search of a recipe has not."""
    from gate_runner.tasks.recipes import HEAD_FIELDS, head_form

    head_form(settings)
    fields, whole = settings.recipe_fields, "full" in settings.tune.split(",")
    for name in HEAD_FIELDS:
        if name in fields and not whole:
            raise UsageError(f"recipe: {name} is for sweeps that train whole encoders: it goes with --tune full")
    if settings.probe != "elevater" or not whole:
        return
    if settings.recipe != "quick" or settings.num_processes > 1 or settings.class_weight == "sampled":
        raise UsageError(
            "setting probe=elevater with --tune full searches a recipe in one process: it goes without --recipe, "
            "num_processes and class_weight=sampled"
        )
    searched = ("lr", "weight_decay", "steps", "schedule", "optimiser", "validate_every")
    if fixed := [name for name in searched if name in fields]:
        raise UsageError(f"setting probe=elevater with --tune full sets {', '.join(fixed)} itself: leave it out")


def of_classification(benchmark: Benchmark, text: str) -> Benchmark:
    """A benchmark of image classification by ELEVATER's protocol, or without a probe."""
    if text in find_task_type(benchmark.task).same_samples:
        title, task = f"{benchmark.title}, {text}", find_task_type(text)
        metrics = benchmark.metrics if "acc@1" in task.own_metrics else tuple(task.own_metrics)
        return replace(benchmark, id=f"{benchmark.id}@{text}", title=title, task=text, metrics=metrics, training={})
    name, _, candidates = text.partition(":")
    point = Variant.parse(name)
    cell = {**point._asdict(), "candidates": candidates.split(",") if candidates else ["none"]}
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


def of_captions(benchmark: Benchmark, text: str) -> Benchmark:
    """A benchmark of images and captions whose encoder is scored as it is: ``ID@zero-shot-retrieval``."""
    same = find_task_type(benchmark.task).same_samples
    if text not in same:
        expected = ", ".join(f"{benchmark.id}@{name}" for name in same)
        raise UsageError(f"benchmark {benchmark.id!r} has no variant {text!r}; there is {expected}")
    metrics = tuple(find_task_type(text).own_metrics)
    title = f"{benchmark.title}, nothing trained"
    return replace(
        benchmark, id=f"{benchmark.id}@{text}", title=title, task=text, metrics=metrics, training={},
        original_training={}, cost=None,
    )  # fmt: skip


WORD_MAPS = "zero-shot-segmentation"
_FEATURES = "features="
_SCORED = tuple(name for name in PATCH_FEATURES if name != "proxyclip")
"""Patch features that a run scores where it names none."""


def of_segmentation(benchmark: Benchmark, text: str) -> Benchmark:
    """A benchmark of class maps, answered by words alone: ``ID@zero-shot-segmentation[,features=NAME]``."""
    name, _, cell = text.partition(",")
    if name != WORD_MAPS:
        raise UsageError(f"benchmark {benchmark.id!r} has no variant {text!r}; there is {benchmark.id}@{WORD_MAPS}")
    words = benchmark.training.get("by_words", {})
    known = {name: benchmark.training[name] for name in WORDS if benchmark.training.get(name)}
    plain = replace(
        benchmark,
        id=f"{benchmark.id}@{name}",
        title=f"{benchmark.title}, by words",
        task=WORD_MAPS,
        metrics=find_task_type(WORD_MAPS).own_metrics,  # type: ignore[arg-type]  # a tuple there
        training={"protocol_set": benchmark.id, **known, **words},
        original_training={},
        cost=None,
    )
    return of_patch_features(plain, cell) if cell else plain


def patch_features(settings: Settings) -> Sequence[str]:
    """One variant for each kind of patch features."""
    if settings.shots:
        raise UsageError("--shots does not apply to zero-shot segmentation: nothing is trained")
    return [f"{_FEATURES}{name}" for name in settings.patch_features or _SCORED]


def of_patch_features(benchmark: Benchmark, text: str) -> Benchmark:
    """A benchmark of zero-shot segmentation with one kind of patch features: ``ID@features=NAME``."""
    if "features" in benchmark.training:
        return benchmark
    name = text.removeprefix(_FEATURES)
    if not text.startswith(_FEATURES) or name not in PATCH_FEATURES:
        raise UsageError(
            f"benchmark {benchmark.id!r} has no variant {text!r}; expected features= with one of "
            f"{', '.join(PATCH_FEATURES)}"
        )
    sign = "," if "@" in benchmark.id else "@"
    return replace(
        benchmark,
        id=f"{benchmark.id}{sign}{text}",
        title=f"{benchmark.title}, {name}",
        training={**benchmark.training, "features": name},
    )


def protocol(settings: Settings) -> Sequence[str]:
    """One variant: the benchmark itself."""
    if settings.shots:
        raise UsageError("--shots does not apply to few-shot episodes; the benchmark ID-gate draws GATE's")
    return [""]


def of_few_shot(benchmark: Benchmark, name: str) -> Benchmark:
    """The benchmark of the same data whose id ends in ``-gate``."""
    card = SHEETS.get(benchmark.id)
    if name != "gate" or card is None or card.task != "few-shot":
        raise UsageError(f"benchmark {benchmark.id!r} has no variant {name!r}; GATE's seven few-shot sets have 'gate'")
    low, high = _WAYS.get(benchmark.id, (5, 49))
    return replace(
        benchmark,
        id=f"{benchmark.id}-gate",
        title=f"{card.title}, GATE's ways and shots",
        task="few-shot-gate",
        training={"least_ways": low, "most_ways": high, "episodes": 60, "steps": 40, "rates": (1.0, 0.3, 3.0)},
        original_training={"episodes": 600, "steps": 2500},
        cost=None,
    )


def shots_and_split(settings: Settings) -> Sequence[str]:
    """One variant for each number of shots, on the split that the settings name."""
    shots = settings.shots or ("full",)
    first = "valid" if settings.split == "valid" else ""
    return ["-".join(part for part in (first, "" if number == "full" else number) if part) for number in shots]


def of_detection(benchmark: Benchmark, suffix: str) -> Benchmark:
    """A detection benchmark scored on another split, or trained on few images."""
    words = suffix.split("-")
    split = words.pop(0) if words[0] == "valid" else "test"
    shots = words.pop(0) if words and words[0].isdecimal() else "full"
    if words:
        raise UsageError(
            f"benchmark {benchmark.id!r} has no variant {suffix!r}; expected a number of shots, valid, or valid-N"
        )
    training = {**benchmark.training, "shots": shots, "split": split}
    sources = dict(benchmark.sources)
    if split == "valid":
        sources = {name: f"{where}@valid" if name == "local" else where for name, where in sources.items()}
    return replace(benchmark, id=f"{benchmark.id}@{suffix}", training=training, sources=sources)

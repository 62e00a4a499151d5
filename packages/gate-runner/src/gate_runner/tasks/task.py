"""What a task type is: one frozen record, readable without importing torch, that everything else asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gate_data.imports import named
from gate_runner.errors import UsageError
from gate_runner.settings.values import ENSEMBLE_FIELD, ensemble_in

if TYPE_CHECKING:
    import numpy as np

    from gate_data.ragged import Outcomes
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings
    from gate_runner.tasks.job import Job, Outcome
    from vision_adapters.training.gate import Task as GateTask


class Drawing(NamedTuple):
    """A tested unit as an image: ``uint8`` pixels ``[h, w, 3]``, what it is in a few words, and the classes in it.

    ``key`` has the name and the red, green and blue of each class that the image shows by its colour alone; a report
    prints one key for all images of a benchmark.

    Example:
        >>> import numpy as np
        >>> Drawing(np.zeros((32, 32, 3), np.uint8), "true: cat").caption
        'true: cat'
    """

    pixels: np.ndarray
    caption: str
    key: Mapping[str, tuple[int, int, int]] = {}


Run = Callable[["Job"], "Outcome"]
Statistic = Callable[["Outcomes", "np.ndarray"], "np.ndarray"]
Named = Callable[..., Any] | str
"""A function, or its ``"module:name"``."""


class Details(NamedTuple):
    """A table that a report shows of one result: sentences above it, heads, rows, and which columns hold words."""

    notes: Sequence[str]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = ()


_OF_SWEEPS = ("head_norm", "logit_scale", "train_scale")
"""Fields of a recipe that heads of sweeps alone have."""


@dataclass(frozen=True)
class TaskType:
    """A kind of problem: how features become a score, and what else must know of it.

    Functions are given as themselves or as ``"module:name"``, which is imported when it is first needed.

    Args:
        id: what a benchmark's ``task`` says.
        summary: head and loss in words.
        run: encodes, fits the head, and scores the test split once.
        draw: data, a result's ``training`` and the index of a tested unit to a `Drawing`.
        say: data, what was predicted of a tested unit (a row of `Outcome.predicted`) and its index to words; empty
            where nothing is predicted that words can say.
        by_class: whether targets are class indices, so that the hardest samples shown need not all be of one class.
        statistics: by metric, the function of per-sample outcomes and weights ``[r, n]`` to values ``[r]``, for metrics
            that are neither ``paired_scores.metrics``' nor a mean of one number per sample: with it ``compare``
            computes the metric again on resampled samples.
        limits: by metric, the least and the largest value that it can have, if `paired_scores.metrics` lacks it.
        probe_samples: samples of each split that ``gate-runner plan`` looks at, at least.
        grows: whether training and test take longer with more samples; episodes, say, are as many in any run.
        trains: whether ``training["steps"]`` says how many steps a head is trained for.
        fits: training samples that it looks at, at most, where it takes no steps; 0 for all.
        single_samples: whether the headline is the mean of one number from 0 to 1 for each test sample, the same
            whichever others are scored: with it ``--items`` can score some of them alone.
        details: from a result's ``training`` and the encoder's spec to a table that reports show of it; empty for none.
        overview: from stored runs to tables over all their results of this type; empty for none.
        cells: from a run's settings to the variants of each benchmark that it runs, say one for each number of shots;
            ``""`` is the benchmark itself, and all there is where this is left out. A variant that does not run with
            every seed comes with its own, one pair for each.
        weighs: whether ``class_weight``, ``folds`` and attentive read-outs apply.
        protocols: whether ``protocol``, ``methods``, ``views`` and ``choose_on`` apply.
        submits: whether its predictions can be kept without a sweep, see the setting ``keep_predictions``.
        sweeps: whether its variants take ``init``, ``projection``, ``knowledge`` and several ``--tune``.
        nested: whether a variant of another task's benchmark, such as ``ID@TASK``, has variants of its own.
        same_samples: task types that score the same samples under ``ID@TASK``.
        variant: from a benchmark and what stands behind ``@`` in a name to that variant, whose id is ``ID@VARIANT``.
        readouts: how much a read-out of the encoder is worth to it, from features and targets of samples that are not
            tested to a number: with it ``--readout`` can choose where pooled features are read; empty for none.
        side: ``"recognition"``, ``"composition"`` or ``"retrieval"``: under which a trade-off shows it; "other tasks"
            where it is empty.
        class_prompts: whether a benchmark's classes have prompts, by which an encoder with a text side scores.
        keeps_heads: whether its head can be kept, to be loaded with `vision_features.heads.load_head`.
        best: how many of the best samples a report shows beside the worst.
        training: numbers by which a head is trained on a stand-in; none where it is solved, or nothing is trained.
        original_training: what differs of them for a data set's own files.
        own_metrics: of a benchmark of one's own that names none.
        further_metrics: that make sense of it besides, of a benchmark of one's own.
        own_training: numbers by which a head is trained on data of one's own.
        gate_recipe: what GATE's recipe for a trained encoder calls the task, see `vision_adapters.gate_recipe`.
        quick: what differs for it in the quick recipe.

    Raises:
        UsageError: a part is missing; the message names it.

    Example:
        >>> TaskType("counting", "nothing trained", "my_package.counting:run").probe_samples
        64
    """

    id: str
    summary: str
    run: Named
    draw: Named = "gate_runner.tasks.drawing:sample"
    say: Named = ""
    by_class: bool = False
    statistics: Mapping[str, Named] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    probe_samples: int = 64
    grows: bool = True
    trains: bool = True
    fits: int = 0
    single_samples: bool = False
    details: Named = ""
    overview: Named = ""
    cells: Named = ""
    weighs: bool = False
    sweeps: bool = False
    submits: bool = False
    protocols: bool = False
    nested: bool = False
    same_samples: Sequence[str] = ()
    variant: Named = ""
    readouts: str = ""
    side: str = ""
    class_prompts: bool = False
    keeps_heads: bool = False
    best: int = 0
    training: Mapping[str, Any] = field(default_factory=dict)
    original_training: Mapping[str, Any] = field(default_factory=dict)
    own_metrics: Sequence[str] = ()
    further_metrics: Sequence[str] = ()
    own_training: Mapping[str, Any] = field(default_factory=dict)
    gate_recipe: GateTask = "classification"
    quick: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that nothing is missing."""
        for name in ("id", "summary", "run", "draw"):
            if not getattr(self, name):
                raise UsageError(f"task type {self.id!r} lacks its {name}")
        optional = [(name, function) for name in ("details", "say", "overview") if (function := getattr(self, name))]
        for name, value in (("run", self.run), ("draw", self.draw), *optional, *self.statistics.items()):
            if not callable(value) and not (isinstance(value, str) and ":" in value):
                raise UsageError(
                    f"task type {self.id!r}: {name} is {value!r}; expected a function, or its 'module:name'"
                )
        if self.probe_samples < 1:
            raise UsageError(f"task type {self.id!r}: probe_samples must be at least 1, not {self.probe_samples}")

    def variants(self, benchmark: Benchmark, settings: Settings) -> list[tuple[Benchmark, int]]:
        """The benchmarks that a run with these settings computes of one benchmark, each with a seed."""
        from gate_runner.settings.record import FIELDS, flag_of

        swept = replace(settings, keep_predictions=False) if self.submits else settings
        if swept.sweeps and not self.sweeps:
            raise UsageError(
                f"{benchmark.id!r} cannot be swept over --init, --knowledge, projection or several --tune: its task "
                f"type is {self.id!r}, not image-classification or multi-label"
            )
        for name in ("protocol", "methods", "views", "choose_on"):
            if not self.protocols and getattr(settings, name) != FIELDS[name].default:
                raise UsageError(
                    f"{flag_of(name)} does not apply to {benchmark.id!r}, whose task type is {self.id!r}: it is for "
                    "the pack coop"
                )
        for name in ("class_weight", "folds"):
            if getattr(settings, name) not in (None, "none") and not self.weighs:
                raise UsageError(f"{name} does not apply to {benchmark.id!r}, whose task type is {self.id!r}")
        if settings.unlabelled and settings.class_weight != "none":
            raise UsageError(
                f"class_weight={settings.class_weight} does not go with --unlabelled: images without labels are of no "
                "class that could be weighed; leave one of the two out"
            )
        if settings.folds is not None and (
            settings.shots or settings.sweeps or settings.readout or settings.tune != "frozen" or settings.save_heads
        ):
            raise UsageError("folds are of frozen encoders, without shots, a sweep, a read-out or saved heads")
        if settings.readout:
            return self._read_out(benchmark, settings)
        of_sweeps = [name for name in _OF_SWEEPS if name in settings.recipe_fields]
        if of_sweeps and settings.axes() is None:
            raise UsageError(f"recipe: {of_sweeps[0]} is for sweeps that train whole encoders (--shots, --tune full)")
        self._may_average(settings)
        if not self.cells or (self.sweeps and settings.axes() is None):
            if settings.shots:
                raise UsageError(f"--shots does not apply to {benchmark.id!r}, whose task type is {self.id!r}")
            return [(benchmark, seed) for seed in settings.seeds]
        units: list[tuple[Benchmark, int]] = []
        for cell in named(self.cells)(settings):
            listed = [(cell, seed) for seed in settings.seeds] if isinstance(cell, str) else [cell]
            units += [(self.varied(benchmark, name), seed) for name, seed in listed]
        return units

    def _may_average(self, settings: Settings) -> None:
        """Refuse the mean of several checkpoints as the headline where there is none, or where one is to be kept."""
        if ensemble_in(settings.recipe_fields) == 1:
            return
        if settings.tune == "frozen" or settings.axes() is not None or not self.trains:
            raise UsageError(f"recipe: {ENSEMBLE_FIELD} is for trainings of an encoder (--tune full), without a sweep")
        if self.id == "detection":
            raise UsageError(f"recipe: {ENSEMBLE_FIELD} is a mean of outputs, which the boxes of detection do not have")
        if settings.save_heads or settings.save_encoders:
            raise UsageError(f"recipe: {ENSEMBLE_FIELD} scores several checkpoints, of which a head or encoder is one")

    def _read_out(self, benchmark: Benchmark, settings: Settings) -> list[tuple[Benchmark, int]]:
        """A unit for each read-out and seed."""
        if settings.shots or settings.sweeps or settings.tune != "frozen":
            raise UsageError("--readout is of frozen encoders, without --shots or a sweep")
        named = [benchmark if unit == "last" else self.read_at(benchmark, unit) for unit in settings.readout]
        return [(unit, seed) for unit in named for seed in settings.seeds]

    def read_at(self, benchmark: Benchmark, readout: str) -> Benchmark:
        """The benchmark with the encoder read out somewhere, whose id is ``ID@readout=WHERE``."""
        from vision_features.readouts import CHOICES, checked

        checked((readout,))
        of_places = readout.endswith("/places")
        fits = readout in CHOICES or of_places if "tasks.dense_readouts" in self.readouts else not of_places
        if not self.readouts or not fits or (readout.endswith("/attentive") and not self.weighs):
            shown = f" {readout}" if self.readouts else ""
            raise UsageError(f"--readout{shown} does not apply to {benchmark.id!r}, whose task type is {self.id!r}")
        sign = "," if "@" in benchmark.id else "@"
        training = {**benchmark.training, "readout": readout}
        title = f"{benchmark.title}, read out: {readout}"
        return replace(benchmark, id=f"{benchmark.id}{sign}readout={readout}", title=title, training=training)

    def varied(self, benchmark: Benchmark, name: str) -> Benchmark:
        """A variant of a benchmark by what stands behind ``@`` in its name; empty for the benchmark itself."""
        if not name or ("@" in benchmark.id and not self.nested):
            return benchmark
        if not self.variant:
            raise UsageError(f"benchmark {benchmark.id!r} has no variants, such as {name!r}")
        variant: Benchmark = named(self.variant)(benchmark, name)
        return variant

    def statistic(self, metric: str) -> Statistic | None:
        """The task's own way from per-sample outcomes to a metric, or None where it is nobody's but the metric's."""
        statistic: Statistic | None = named(self.statistics[metric]) if metric in self.statistics else None
        return statistic

    def within(self, metric: str, direction: str, outcomes: Outcomes) -> tuple[float, float]:
        """Return the least and the largest value of a metric: the mean of shares of which more is better is a share."""
        import numpy as np

        from paired_scores.metrics import METRICS

        if metric in self.limits:
            return self.limits[metric]
        if metric in METRICS:
            return METRICS[metric].within
        if direction == "higher" and isinstance(outcomes, np.ndarray) and outcomes.ndim == 1:
            known = outcomes[~np.isnan(outcomes)]
            if ((known >= 0) & (known <= 1)).all():
                return 0.0, 1.0
        return -math.inf, math.inf

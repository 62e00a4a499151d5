"""The test samples on which encoders do worst, as small images, made again from the benchmark's source."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_data.imports import named
from gate_data.ragged import Outcomes, Ragged, taken
from gate_runner.charts.markup import folded, joined, note, piece
from gate_runner.errors import UsageError
from gate_runner.reports.contents import Contents, Row
from gate_runner.reports.places import brief
from gate_runner.runs.item_subsets import samples_asked
from gate_runner.runs.unit import pooled
from gate_runner.tasks.registry import known_task_type
from paired_scores.paired import value_of

if TYPE_CHECKING:
    from markupsafe import Markup

    from gate_data.data import Data
    from gate_data.request import Size
    from gate_runner.runs.results import Result
    from gate_runner.runs.stored import StoredRun
    from gate_runner.tasks.task import TaskType

_SHOWN = 128
_CONFUSIONS = 3
"""Of a benchmark, whose samples are shown."""
_RANKS = ("roc_auc", "average_precision")
"""Metrics of several labels whose outcomes are scores and truths ``[n, 2, k]``."""


def examples(contents: Contents, count: int, data_root: Roots) -> str:
    """Images of the hardest test samples of each benchmark, and of its worst confusions; empty for none wanted."""
    if count < 1 or not contents.rows:
        return ""
    explained = (
        "The worst test samples over runs and seeds; below them the samples of the most frequent confusions. They were "
        "reloaded from their source and are shown only where they are the same data, by digest, as the runs saw."
    )
    parts = [note(explained)]
    for row in contents.rows:
        again, reason = reload_samples(contents, row, data_root)
        shown, reason = again.hardest(count) if again else ([], reason)
        parts.append(piece("headed", row.name))
        if reason:
            parts.append(note(f"No images: {reason}."))
        if shown:
            parts += [_key(again, shown)] if again and any(example.key for example in shown) else []
            parts.append(piece("pictures", shown))
        for caption, confused in again.confused(count) if again and not reason else ():
            parts.append(folded(caption, piece("pictures", confused)))
    return joined(parts)


@dataclass(frozen=True)
class Example:
    """An image of a test sample, at the size in which it is shown."""

    address: str  # a data: address
    width: int
    height: int
    index: int  # of the tested unit
    truth: str
    predicted: str  # what the encoders took it for; empty where that was not kept
    verdict: str  # how they did
    key: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # classes shown by colour alone

    @property
    def caption(self) -> str:
        """All of it in one line."""
        parts = [self.truth, f"predicted: {self.predicted}" if self.predicted else "", self.verdict]
        return "; ".join(filter(None, parts))


@dataclass(frozen=True, eq=False)
class ReloadedSamples:
    """The test samples of a row, made again from their source, and what each run did with them."""

    row: Row
    task: TaskType
    data: Data[Any]  # the same as the runs', by digest
    results: Sequence[tuple[StoredRun, Result]]  # of every run and seed that finished

    def hardest(self, count: int) -> tuple[list[Example], str]:
        """Samples with the worst outcome, averaged over runs and seeds; or why they cannot be drawn."""
        measured = [_goodness(self.task, self.row, run.outcomes(result)) for run, result in self.results]
        by_run, metric = [goodness for goodness, _ in measured], measured[0][1]
        mean = np.mean(by_run, axis=0)
        kinds = [int(value) for value in self.data.test.targets] if self.task.by_class else []
        worst = _worst(mean, kinds, count)
        order = [int(index) for index in np.argsort(-mean, kind="stable") if np.isfinite(mean[index])]
        best = [index for index in order[: min(self.task.best, count)] if index not in worst]
        try:
            return [
                self.example(index, _verdict(metric, [goodness[index] for goodness in by_run]))
                for index in [*worst, *best]
            ], ""
        except Exception as error:  # noqa: BLE001 - a plug-in draws these, and the report goes on without them
            return [], f"its images cannot be drawn: {type(error).__name__}: {error}"

    def confused(self, count: int) -> Iterator[tuple[str, list[Example]]]:
        """Of the first run's most frequent confusions, in words, the samples behind each."""
        run, result = self.results[0]
        predicted, classes = run.predicted(result), list(self.data.classes or ())
        about = result.training.get("by_class")
        if predicted is None or not about or predicted.shape != (len(self.data.test),):
            return
        targets = np.asarray(self.data.test.targets)
        for true, guessed, cases in about["confused"][:_CONFUSIONS]:
            behind = (targets == classes.index(true)) & (predicted == classes.index(guessed))
            examples = [self.example(int(index), "") for index in np.flatnonzero(behind)[:count]]
            yield f"{true} taken for {guessed}: {cases} of {int((targets == classes.index(true)).sum())}", examples

    def example(self, index: int, verdict: str) -> Example:
        """Return the image of a tested sample, with its truth and the predictions."""
        pixels, truth, *keys = named(self.task.draw)(self.data, self.results[0][1].training, index)
        guesses = [(run.label, run.predicted(result)) for run, result in self.results]
        answers = _answers(self.data, self.task, guesses, index)
        return Example(*encoded(pixels), index, truth, answers, verdict, dict(keys[0]) if keys else {})


Roots = Path | Sequence[Path] | None
"""Folders of original files or of one's own data: each row takes the first that its run's data are in."""


def reload_samples(
    contents: Contents, row: Row, data_root: Roots = None, *, size: Size = 224
) -> tuple[ReloadedSamples | None, str]:
    """Return the samples of a row, images of files at ``size``, or why there are none to show."""
    roots = (data_root,) if isinstance(data_root, Path) else tuple(data_root or ())
    again, reason = None, ""
    for root in roots or (None,):
        again, reason = _reload_samples(contents, row, root, size)
        if again is not None or row.source not in ("local", "file"):
            break
    return again, reason


def _reload_samples(
    contents: Contents, row: Row, data_root: Path | None, size: Size
) -> tuple[ReloadedSamples | None, str]:
    import torch

    from gate_runner.benchmarks import DataRequest, find_benchmark
    from gate_runner.benchmarks.own import own_benchmark

    results = [(run, result) for run in contents.runs for result in run.named(row.name) if result.status == "ok"]
    if not results or row.mixed:
        return None, row.mixed or "no run finished this benchmark"
    if any(tested.imported for _, tested in results):
        return None, "imported scores have no test samples"
    run, result = results[0]
    try:
        own = run.own_file(row.benchmark, data_root)
        benchmark = find_benchmark(row.benchmark) if own is None else own_benchmark(own)
        if row.source == "local" and data_root is None:
            return None, "its images are read from original files: give --data-root"
        skip = bool(result.settings.get("skip_unreadable"))
        near = bool(result.settings.get("drop_near"))
        limit = result.settings.get("limit")
        request = DataRequest(data_root, limit, size, skip_unreadable=skip, drop_near=near)
        with _cached() if row.source == "hub" else nullcontext():
            data = benchmark.load(row.source, request)
        if result.settings.get("folds") is not None:
            data = pooled(data)
    except Exception as error:  # noqa: BLE001 - whatever a benchmark's source raises, the report goes on without images
        message = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        return None, f"its data cannot be reloaded: {brief(message)}"
    if data.digest() != result.data.get("sha256"):
        return None, "the data made now are not those of the run (their digests differ)"
    if len({samples_asked(tested) for _, tested in results}) > 1:
        return None, "the runs asked for other test samples each"
    chosen = result.data.get("test_items")
    if chosen is not None:
        data = replace(data, test=data.test.take(torch.tensor(chosen)))
    return ReloadedSamples(row, known_task_type(row.task), data, results), ""


def _cached() -> AbstractContextManager[None]:
    """What has been fetched: a run's folder does not decide that the network is asked."""
    from gate_data.hub.reaching import cache_alone

    return cache_alone()


def _goodness(task: TaskType, row: Row, outcomes: Outcomes) -> tuple[np.ndarray, str]:
    """One number per sample, larger for better, and of which metric: ranks of labels say nothing of one sample."""
    if row.metric in _RANKS and not isinstance(outcomes, Ragged):
        return -np.square(outcomes[:, 0] - outcomes[:, 1]).mean(axis=1), "squared error"
    measure = task.statistic(row.metric) or value_of(row.metric)
    if isinstance(outcomes, Ragged) or outcomes.ndim > 1:
        samples = [taken(outcomes, np.array([index])) for index in range(len(outcomes))]
        outcomes = np.array([measure(sample, np.ones((1, 1)))[0] for sample in samples])
    signed: np.ndarray = np.nan_to_num(outcomes if row.direction == "higher" else -outcomes, nan=np.inf)
    return signed, row.metric


def _worst(mean: np.ndarray, kinds: list[int], count: int) -> list[int]:
    """The worst tested units; where they have classes, ``kinds``, not all of one."""
    order = [int(index) for index in np.argsort(mean, kind="stable") if np.isfinite(mean[index])]
    if not kinds:
        return order[:count]
    classes: set[int] = set()
    level = mean[order[min(count, len(order)) - 1]] if order else 0.0
    fresh = []
    for index in order:
        if mean[index] <= level and kinds[index] not in classes:
            classes.add(kinds[index])
            fresh.append(index)
    return (fresh + [index for index in order if index not in set(fresh)])[:count]


def _key(again: ReloadedSamples, shown: Sequence[Example]) -> Markup:
    """Return the colours of all classes that some images show, in the classes' order, others last."""
    colours = {name: colour for example in shown for name, colour in example.key.items()}
    order = {name: number for number, name in enumerate(again.data.classes)}
    names = sorted(colours, key=lambda name: order.get(name, len(order)))
    return piece("colours", [(name, "#{:02x}{:02x}{:02x}".format(*colours[name])) for name in names])


def _answers(data: Data[Any], task: TaskType, guesses: Sequence[tuple[str, np.ndarray | None]], index: int) -> str:
    """What each run predicted, those of one mind together; empty where no guess was stored."""
    if not task.say:
        return ""
    by_words: dict[str, list[str]] = {}
    for label, predicted in guesses:
        if predicted is not None:
            by_words.setdefault(named(task.say)(data, predicted[index], index), []).append(label)
    if len(by_words) == 1 and all(predicted is not None for _, predicted in guesses):
        return next(iter(by_words))
    listed = []
    for words, labels in by_words.items():
        who = [f"{label} ({count} seeds)" if count > 1 else label for label, count in Counter(labels).items()]
        listed.append(f"{words} by {', '.join(who)}")
    return ", ".join(listed)


def _verdict(metric: str, values: list[float]) -> str:
    if metric in ("acc@1", "acc@5", "group", "text", "image"):
        wrong = sum(value < 0.5 for value in values)
        return "wrong" if len(values) == 1 else f"wrong in {wrong} of {len(values)} runs"
    mean = abs(float(np.mean(values)))
    return f"{metric} {mean:.2f}" + ("" if len(values) == 1 else f", mean of {len(values)} runs")


def encoded(pixels: np.ndarray) -> tuple[str, int, int]:
    """A ``data:`` address, width and height."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "JPEG", quality=88, optimize=True)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    larger = max(1, _SHOWN // pixels.shape[0])
    return address, larger * pixels.shape[1], larger * pixels.shape[0]

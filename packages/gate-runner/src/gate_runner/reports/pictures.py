"""The test samples on which encoders do worst, as small pictures, made again from the benchmark's source."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_runner.comparison.paired import Statistic, value_of
from gate_runner.errors import UsageError
from gate_runner.imports import named
from gate_runner.ragged import Outcomes, Ragged, taken
from gate_runner.reports.contents import Contents, Row
from gate_runner.tasks.registry import known_task_type

if TYPE_CHECKING:
    from gate_runner.benchmarks.data import Data
    from gate_runner.tasks.task import TaskType

_SHOWN = 128


@dataclass(frozen=True)
class Example:
    """A picture of a test sample.

    Args:
        address: a ``data:`` address.
        width: at which it is shown; small pictures are shown larger.
        height: likewise.
        caption: what it is, and how the encoders did.
    """

    address: str
    width: int
    height: int
    caption: str


def hardest(contents: Contents, row: Row, count: int, data_root: Path | None = None) -> tuple[list[Example], str]:
    """Samples with the worst outcome, averaged over runs and seeds.

    Args:
        contents: of the report.
        row: the benchmark.
        count: how many, at most.
        data_root: folder of original files, for benchmarks that read them.

    Returns:
        The pictures, and why there are none (empty where there are).
    """
    import torch

    from gate_runner.benchmarks import DataRequest, find_benchmark

    runs = [run for run in contents.runs if row.name in {one.name for one in run.results if one.status == "ok"}]
    if not runs or row.mixed:
        return [], row.mixed or "no run finished this benchmark"
    results = [(run, result) for run in runs for result in run.named(row.name) if result.status == "ok"]
    limit, digest = results[0][1].settings.get("limit"), results[0][1].data.get("sha256")
    try:
        benchmark = find_benchmark(row.benchmark)
        if row.source == "local" and data_root is None:
            return [], "its pictures are read from original files: give --data-root"
        data = benchmark.load(row.source, DataRequest(data_root, limit))
    except Exception as error:  # noqa: BLE001 - whatever a benchmark's source raises, the report goes on without pictures
        said = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        return [], f"its data cannot be made again: {said}"
    if data.digest() != digest:
        return [], "the data made now are not those of the run (their digests differ)"
    chosen = results[0][1].data.get("test_items")
    if chosen is not None:
        data = replace(data, test=data.test.take(torch.tensor(chosen)))
    task = known_task_type(row.task)
    measure = task.statistic(row.metric) or value_of(row.metric)
    each = [_goodness(measure, run.outcomes(result), row.direction) for run, result in results]
    mean = np.mean(each, axis=0)
    examples = []
    worst = _worst(mean, _kinds(data, task), count)
    for index in [*worst, *(one for one in _best(mean, min(task.best, count)) if one not in worst)]:
        try:
            picture, said = named(task.draw)(data, results[0][1].training, index)
        except Exception as error:  # noqa: BLE001 - a plug-in draws these, and the report goes on without them
            return [], f"its pictures cannot be drawn: {type(error).__name__}: {error}"
        examples.append(_example(picture, f"{said}; {_verdict(row, [one[index] for one in each])}"))
    return examples, ""


def _goodness(measure: Statistic, outcomes: Outcomes, direction: str) -> np.ndarray:
    """One number per sample, larger for better."""
    if isinstance(outcomes, Ragged) or outcomes.ndim > 1:
        each = [taken(outcomes, np.array([index])) for index in range(len(outcomes))]
        outcomes = np.array([measure(one, np.ones((1, 1)))[0] for one in each])
    signed: np.ndarray = np.nan_to_num(outcomes if direction == "higher" else -outcomes, nan=np.inf)
    return signed


def _kinds(data: Data[Any], task: TaskType) -> list[int]:
    """A class per tested unit where it has one, so that the worst are not all of one kind."""
    return [int(value) for value in data.test.targets] if task.by_class else []


def _worst(mean: np.ndarray, kinds: list[int], count: int) -> list[int]:
    order = [int(index) for index in np.argsort(mean, kind="stable") if np.isfinite(mean[index])]
    if not kinds:
        return order[:count]
    seen: set[int] = set()
    level = mean[order[min(count, len(order)) - 1]] if order else 0.0
    fresh = []
    for index in order:
        if mean[index] <= level and kinds[index] not in seen:
            seen.add(kinds[index])
            fresh.append(index)
    return (fresh + [index for index in order if index not in set(fresh)])[:count]


def _best(mean: np.ndarray, count: int) -> list[int]:
    order = [int(index) for index in np.argsort(-mean, kind="stable") if np.isfinite(mean[index])]
    return order[:count]


def _verdict(row: Row, values: list[float]) -> str:
    if row.metric in ("acc@1", "acc@5", "group", "text", "image"):
        wrong = sum(value < 0.5 for value in values)
        return "wrong" if len(values) == 1 else f"wrong in {wrong} of {len(values)} runs"
    mean = abs(float(np.mean(values)))
    return f"{row.metric} {mean:.2f}" + ("" if len(values) == 1 else f", mean of {len(values)} runs")


def _example(pixels: np.ndarray, caption: str) -> Example:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "JPEG", quality=88, optimize=True)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    larger = max(1, _SHOWN // pixels.shape[0])
    return Example(address, larger * pixels.shape[1], larger * pixels.shape[0], caption)

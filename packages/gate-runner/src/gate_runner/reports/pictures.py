"""The test samples on which encoders do worst, as small pictures, made again from the benchmark's source."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gate_runner.comparison.paired import value_of
from gate_runner.errors import UsageError
from gate_runner.reports.contents import Contents, Row

if TYPE_CHECKING:
    from gate_runner.benchmarks.data import Data

_PIXELS = 96
_SHOWN = 128
_COLOURS = np.random.default_rng(7).integers(40, 235, (256, 3)).astype(np.uint8)
_COLOURS[0] = 24


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
    from gate_runner.benchmarks import DataRequest, find_benchmark

    runs = [run for run in contents.runs if row.name in {one.name for one in run.results if one.status == "ok"}]
    if not runs or row.mixed:
        return [], row.mixed or "no run finished this benchmark"
    results = [(run, result) for run in runs for result in run.named(row.name) if result.status == "ok"]
    limit, digest = results[0][1].limit, results[0][1].data.get("sha256")
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
    each = [_goodness(row.metric, run.outcomes(result), row.direction) for run, result in results]
    mean = np.mean(each, axis=0)
    examples = []
    for index in _worst(mean, _kinds(data, row), count):
        picture, said = _draw(data, row, results[0][1].training, index)
        examples.append(_example(picture, f"{said}; {_verdict(row, [one[index] for one in each])}"))
    return examples, ""


def _goodness(metric: str, outcomes: np.ndarray, direction: str) -> np.ndarray:
    """One number per sample, larger for better."""
    if outcomes.ndim > 1:
        measure = value_of(metric)
        outcomes = np.array([measure(one[None], np.ones((1, 1)))[0] for one in outcomes])
    signed: np.ndarray = np.nan_to_num(outcomes if direction == "higher" else -outcomes, nan=np.inf)
    return signed


def _kinds(data: Data, row: Row) -> list[int]:
    """A class per tested unit where it has one, so that the worst are not all of one kind."""
    targets = data.test.targets
    single = targets.ndim == 1 and row.task not in ("few-shot", "video-regression")
    return [int(value) for value in targets] if single else []


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


def _draw(data: Data, row: Row, training: Any, index: int) -> tuple[np.ndarray, str]:
    """Pixels ``[h, w, 3]`` of a tested unit, and what it is."""
    test = data.test
    if row.task == "few-shot":
        from gate_runner.tasks.few_shot import TEST_SEED, episode_indices

        ways, shots, queries = (int(training[key]) for key in ("ways", "shots", "queries"))
        drawn = episode_indices(test, "test", ways, shots, queries, index + 1, TEST_SEED)[index]
        rows = [np.concatenate([_pixels(test.images[int(i)], 32) for i in one], axis=1) for one in drawn]
        return np.concatenate(rows, axis=0), f"an episode: a class per row, its shot{'s' * (shots > 1)} on the left"
    if test.groups is not None:
        members = np.flatnonzero(test.groups.numpy() == np.unique(test.groups.numpy())[index])
        index = int(members[len(members) // 2])
    image, target = test.images[index], test.targets[index]
    if target.ndim == 2:
        mask = _COLOURS[target.clamp(0, 255).numpy().astype(np.uint8)]
        size = min(_PIXELS, image.shape[-1])
        return np.concatenate([_pixels(image, size), _resized(mask, size, nearest=True)], axis=1), "image and truth"
    if image.ndim == 4:
        frames = [_pixels(frame, 48) for frame in image[:8]]
        half = (len(frames) + 1) // 2 if len(frames) > 3 else len(frames)
        lines = [frames[:half], frames[half:]] if len(frames) % 2 == 0 and len(frames) > 3 else [frames]
        picture = np.concatenate([np.concatenate(line, axis=1) for line in lines if line], axis=0)
    else:
        picture = _pixels(image, min(_PIXELS, max(32, image.shape[-1])))
    return picture, _said(data, row, index)


def _said(data: Data, row: Row, index: int) -> str:
    target = data.test.targets[index]
    questions = data.test.questions
    if row.task == "pair-scoring" and questions is not None:
        return f"“{questions[2 * index]}” and “{questions[2 * index + 1]}”"
    answer = f"{float(target):g}" if target.is_floating_point() or not data.classes else data.classes[int(target)]
    return f"{questions[index]} True: {answer}" if questions else f"true: {answer}"


def _verdict(row: Row, values: list[float]) -> str:
    if row.metric in ("acc@1", "acc@5", "group", "text", "image"):
        wrong = sum(value < 0.5 for value in values)
        return "wrong" if len(values) == 1 else f"wrong in {wrong} of {len(values)} runs"
    mean = abs(float(np.mean(values)))
    return f"{row.metric} {mean:.2f}" + ("" if len(values) == 1 else f", mean of {len(values)} runs")


def _pixels(image: Any, size: int) -> np.ndarray:
    return _resized(image.permute(1, 2, 0).numpy(), size)


def _resized(pixels: np.ndarray, size: int, *, nearest: bool = False) -> np.ndarray:
    from PIL import Image

    if pixels.shape[:2] == (size, size):
        return pixels
    how = Image.Resampling.NEAREST if nearest else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(pixels).resize((size, size), how))


def _example(pixels: np.ndarray, caption: str) -> Example:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "JPEG", quality=88, optimize=True)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    larger = max(1, _SHOWN // pixels.shape[0])
    return Example(address, larger * pixels.shape[1], larger * pixels.shape[0], caption)

"""The run itself: every check first, then one benchmark after another, each kept as soon as it is there."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.benchmarks import Benchmark, DataRequest
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.display import Display, PlainDisplay
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import SCHEMA, Result, Score

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunRequest:
    """What is to be run.

    Args:
        benchmarks: in order.
        encoder: a spec string.
        output: the run folder.
        source: ``"local"``, ``"built-in"``, ``"micro"``, or None for each benchmark's first possible one.
        data_root: folder of original files, or None.
        limit: at most so many samples in each split, or None.
        batch_size: images per call of the encoder.
        device: a torch device.
        seeds: each benchmark runs once with each.
    """

    benchmarks: Sequence[Benchmark]
    encoder: str
    output: Path
    source: str | None = None
    data_root: Path | None = None
    limit: int | None = None
    batch_size: int = 128
    device: str = "cpu"
    seeds: Sequence[int] = (0,)


@dataclass(frozen=True)
class _Part:
    """One benchmark, source and seed."""

    benchmark: Benchmark
    source: str
    seed: int

    @property
    def name(self) -> str:
        return self.benchmark.name_with(self.source)


def run(request: RunRequest, display: Display | None = None) -> list[Result]:
    """Run benchmarks, or what is left of them.

    Args:
        request: what to run.
        display: where progress goes; plain lines by default.

    Returns:
        One result per benchmark and seed, those that were already there included. A benchmark that fails is a result
        with status ``"failed"``; the others are run all the same.

    Raises:
        UsageError: a source, data root, encoder or run folder that cannot be used. Raised before any training, and
            with nothing in the run folder touched.
    """
    display = display or PlainDisplay()
    parts = _parts(request)
    display.start(request.encoder, request.output)
    from gate_runner.encoders import load_encoder

    encoder = load_encoder(request.encoder, device=request.device)
    description = encoder.describe()
    folder = RunFolder(request.output)
    done = [folder.finished(part.name, part.seed) for part in parts]
    from gate_runner.runs.circumstances import circumstances

    identity = {"encoder": description, "limit": request.limit, "schema": SCHEMA}
    folder.claim(identity, circumstances())
    display.plan(
        [
            (part.name, part.seed, part.benchmark.cost, found is not None)
            for part, found in zip(parts, done, strict=True)
        ]
    )
    results = []
    for part, found in zip(parts, done, strict=True):
        result = found
        if result is None:
            result = _run_part(part, request, encoder, description, folder, display)
            display.finish(result)
        results.append(result)
    display.table(results)
    return results


def _parts(request: RunRequest) -> list[_Part]:
    """Which source each benchmark uses, with all that can be checked before an encoder is loaded."""
    if not request.benchmarks:
        raise UsageError("nothing to run: name a pack or a benchmark")
    for name, value in (("--limit", request.limit), ("--batch-size", request.batch_size)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if request.data_root is not None and not request.data_root.is_dir():
        raise DataError(f"data root {request.data_root} is not a folder")
    if request.output.exists() and not request.output.is_dir():
        raise UsageError(f"output {request.output} is a file, expected a folder")
    parts = []
    for benchmark in request.benchmarks:
        source = benchmark.choose_source(request.source, request.data_root)
        if source == "local":
            assert request.data_root is not None
            importlib.import_module(benchmark.sources[source].partition(":")[0]).check(request.data_root)
        parts += [_Part(benchmark, source, seed) for seed in request.seeds]
    return parts


def _run_part(
    part: _Part,
    request: RunRequest,
    encoder: Encoder,
    description: dict[str, Any],
    folder: RunFolder,
    display: Display,
) -> Result:
    """One benchmark; whatever goes wrong in it becomes its reason."""
    from gate_runner.tasks import Job, run_task

    display.begin(part.name, part.seed)
    start = time.perf_counter()
    blank = Result(
        benchmark=part.benchmark.id,
        name=part.name,
        task=part.benchmark.task,
        source=part.source,
        seed=part.seed,
        status="failed",
        limit=request.limit,
        encoder=description,
    )
    try:
        display.progress("data", 0, 1)
        data = part.benchmark.load(part.source, DataRequest(request.data_root, request.limit))
        seconds = {"data": time.perf_counter() - start}
        checkpoint = folder.unfinished_file(part.name, part.seed)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        job = Job(
            encoder=encoder,
            benchmark=part.benchmark,
            data=data,
            seed=part.seed,
            batch_size=request.batch_size,
            checkpoint=checkpoint,
            progress=display.progress,
            seconds=seconds,
        )
        outcome = run_task(job)
        result = replace(
            blank,
            status="ok",
            note=data.note,
            scores=tuple(Score(**asdict(score)) for score in outcome.scores),
            data={
                "train": len(data.train),
                "validation": len(data.validation),
                "test": len(data.test),
                "classes": len(data.classes),
                "sha256": data.digest(),
            },
            training=outcome.training,
            seconds={**seconds, "total": time.perf_counter() - start},
        )
        folder.save(result, outcome.samples)
    except Exception as error:  # noqa: BLE001 - whatever a benchmark raises is its row's reason; the others go on
        _LOG.debug("%s failed", part.name, exc_info=True)
        reason = next(iter(str(error).splitlines()), "") or "no message"
        if not isinstance(error, UsageError):
            reason = f"{type(error).__name__}: {reason}"
        result = replace(blank, reason=reason, seconds={"total": time.perf_counter() - start})
        folder.save(result, None)
    return result

"""What is to be run, and all that can be checked of it before an encoder is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gate_runner.benchmarks import Benchmark
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.part import Part

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

Isolation = Literal["none", "worker", "benchmark"]


@dataclass(frozen=True)
class RunRequest:
    """What is to be run.

    Args:
        benchmarks: in order.
        encoder: a spec string, or an encoder that is there already (then ``isolate`` must be ``"none"``).
        output: the run folder.
        source: ``"local"``, ``"built-in"``, ``"micro"``, or None for each benchmark's first possible one.
        data_root: folder of original files, or None.
        limit: at most so many samples in each split, or None.
        batch_size: images per call of the encoder.
        device: a torch device; ``"auto"`` takes the GPUs where there are some.
        seeds: each benchmark runs once with each.
        isolate: ``"none"`` computes in this process; ``"worker"`` in a process that takes one benchmark after another
            and is replaced when it dies; ``"benchmark"`` in a fresh process for each.
        time_limit: seconds after which a part is stopped and counts as failed, or None; needs isolation.
        retries: how often a part that failed is tried again, from where it stopped.
        workers: parts at the same time on CPUs; on GPUs it is one for each.
        recompute: compute again what is there but damaged or changed, instead of stopping.
        executor: ``"local"``, ``"ray"``, ``"slurm"`` or a plug-in.
        executor_options: what the executor understands, e.g. ``{"address": "ray://head:10001"}``.
    """

    benchmarks: Sequence[Benchmark]
    encoder: str | Encoder
    output: Path
    source: str | None = None
    data_root: Path | None = None
    limit: int | None = None
    batch_size: int = 128
    device: str = "cpu"
    seeds: Sequence[int] = (0,)
    isolate: Isolation = "none"
    time_limit: float | None = None
    retries: int = 0
    workers: int = 1
    recompute: bool = False
    executor: str = "local"
    executor_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """The encoder's spec string."""
        return self.encoder if isinstance(self.encoder, str) else self.encoder.spec


def resolve_for_run(names: Sequence[str], encoder: str) -> list[Benchmark]:
    """Benchmarks by name, and a look at the encoder's spec: what is misspelt is found before torch is imported.

    Args:
        names: packs or benchmarks.
        encoder: a spec string.

    Returns:
        The benchmarks, in order.

    Raises:
        UsageError: an unknown name or spec; the message shows the nearest.
    """
    from gate_runner.benchmarks import resolve
    from gate_runner.encoders.spec import parse_spec

    benchmarks = resolve(names)
    parse_spec(encoder)
    return benchmarks


def parts_of(request: RunRequest) -> list[Part]:
    """The parts of a run, each with the source that it uses.

    Args:
        request: what is to be run.

    Returns:
        One part for each benchmark and seed, in order.

    Raises:
        UsageError: a number, source, data root, executor or output that cannot be used; the message shows it.
    """
    if not request.benchmarks:
        raise UsageError("nothing to run: name a pack or a benchmark")
    for name, value in (("limit", request.limit), ("batch-size", request.batch_size), ("workers", request.workers)):
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, not {value}")
    if request.retries < 0:
        raise UsageError(f"--retries must be at least 0, not {request.retries}")
    if request.time_limit is not None and not request.time_limit > 0:
        raise UsageError(f"--time-limit must be positive, not {request.time_limit} s")
    _check_isolation(request)
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
        for seed in request.seeds:
            part = Part(
                benchmark=benchmark.trained_for(source),
                source=source,
                seed=seed,
                encoder=request.spec,
                output=request.output,
                data_root=request.data_root,
                limit=request.limit,
                batch_size=request.batch_size,
                device=request.device,
            )
            parts.append(part)
    return parts


def _check_isolation(request: RunRequest) -> None:
    if request.isolate not in ("none", "worker", "benchmark"):
        raise UsageError(f"--isolate must be none, worker or benchmark, not {request.isolate!r}")
    if request.isolate != "none":
        if not isinstance(request.encoder, str):
            raise UsageError("an encoder that is an object runs in this process only: isolate='none'")
        return
    for said, needs in (
        ("--time-limit", request.time_limit is not None),
        ("--workers", request.workers > 1),
        (f"--executor {request.executor}", request.executor != "local"),
    ):
        if needs:
            raise UsageError(f"{said} needs processes of their own: --isolate worker or benchmark, not none")

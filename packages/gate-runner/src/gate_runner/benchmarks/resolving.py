"""From names, as a user says them, to benchmarks: packs, ids, variants, stand-ins and files of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gate_runner.benchmark import Benchmark
from gate_runner.benchmarks.registry import BENCHMARKS, PACKS, all_benchmarks
from gate_runner.errors import UsageError, unknown
from gate_runner.tasks.registry import find_task_type


def find_benchmark(name: str) -> Benchmark:
    """One benchmark by its id."""
    base, _, variant = name.partition("@")
    benchmarks = BENCHMARKS if base in BENCHMARKS else all_benchmarks()
    if base not in benchmarks:
        raise unknown("benchmark", base, benchmarks)
    return benchmarks[base] if not variant else _varied(benchmarks[base], variant)


def resolve(names: Iterable[str]) -> list[Benchmark]:
    """Packs and benchmarks to benchmarks, each once, in the order in which they were first named."""
    resolved: dict[str, Benchmark] = {}
    benchmarks: dict[str, Benchmark] = BENCHMARKS
    for name in names:
        if name.endswith(".toml"):
            from gate_runner.benchmarks.own import own_benchmark

            own = own_benchmark(Path(name))
            if own.id in resolved and resolved[own.id].sources != own.sources:
                raise UsageError(
                    f"{name} is called {own.id!r}, as {resolved[own.id].sources['file']} is: rename one of them"
                )
            resolved[own.id] = own
            continue
        base, _, variant = name.partition("@")
        stand_in = _stand_in(base)
        if stand_in is None and base not in PACKS and base not in benchmarks:
            benchmarks = all_benchmarks()
            if base not in benchmarks:
                if Path(name).exists():
                    folder = Path(name) if Path(name).is_dir() else Path(name).absolute().parent
                    raise UsageError(f"{name} is no benchmark's file (.toml); try: gate-runner run --data {folder}")
                if "/" in name and not name.startswith("micro/"):
                    raise UsageError(
                        f"{name} does not exist; expected a pack, a benchmark or a benchmark's file (.toml)"
                    )
                known = _stand_ins(benchmarks) if name.startswith("micro/") else benchmarks
                raise unknown("pack or benchmark", base, {**PACKS, **known})
        packed = (_member(member, benchmarks) for member in PACKS.get(base, (base,)))
        members = list(packed) if stand_in is None else [stand_in]
        for plain in members:
            benchmark = _varied(plain, variant) if variant else plain
            resolved[benchmark.id] = benchmark
    return list(resolved.values())


def _member(name: str, benchmarks: Mapping[str, Benchmark]) -> Benchmark:
    """A pack's member: a benchmark, a variant of one, or a stand-in."""
    base, _, variant = name.partition("@")
    plain = _stand_in(base) or benchmarks[base]
    return _varied(plain, variant) if variant else plain


def _stand_in(name: str) -> Benchmark | None:
    """The benchmark that ``micro/ID`` names, with its stand-in as the only source."""
    benchmark = all_benchmarks().get(name.removeprefix("micro/")) if name.startswith("micro/") else None
    if benchmark is None or "micro" not in benchmark.sources:
        return None
    return replace(benchmark, sources={"micro": benchmark.sources["micro"]})


def _stand_ins(benchmarks: Mapping[str, Benchmark]) -> dict[str, Benchmark]:
    """The benchmarks that have a stand-in, by the names that choose it."""
    return {f"micro/{name}": benchmark for name, benchmark in benchmarks.items() if "micro" in benchmark.sources}


def _varied(benchmark: Benchmark, variant: str) -> Benchmark:
    """What ``ID@VARIANT`` names, see `gate_runner.tasks.TaskType.variant`."""
    point, _, readout = variant.rpartition("readout=") if "readout=" in variant else (variant, "", "")
    varied = find_task_type(benchmark.task).varied(benchmark, point.removesuffix(","))
    return find_task_type(varied.task).read_at(varied, readout) if readout else varied

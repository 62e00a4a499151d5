"""Which episodes few-shot benchmarks draw: five classes with one shot, or GATE's many ways and shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gate_runner.errors import UsageError

if TYPE_CHECKING:
    from gate_runner.benchmarks.benchmark import Benchmark
    from gate_runner.settings import Settings


def cells(settings: Settings) -> Sequence[str]:
    """One variant: the benchmark itself, or what ``--protocol gate`` asks for.

    Example:
        >>> from gate_runner.settings import Settings
        >>> cells(Settings()), cells(Settings(protocol="gate"))
        ([''], ['gate'])
    """
    if settings.shots:
        raise UsageError("--shots does not apply to few-shot episodes; --protocol gate draws GATE's")
    return ["gate" if settings.protocol == "gate" else ""]


def variant(benchmark: Benchmark, said: str) -> Benchmark:
    """The benchmark of the same data whose id ends in ``-gate``.

    Example:
        >>> from gate_runner.benchmarks import BENCHMARKS
        >>> variant(BENCHMARKS["mini"], "gate").id
        'mini-gate'
    """
    from gate_runner.benchmarks.registry import BENCHMARKS

    found = BENCHMARKS.get(f"{benchmark.id}-gate")
    if said != "gate" or found is None:
        raise UsageError(f"benchmark {benchmark.id!r} has no variant {said!r}; GATE's seven few-shot sets have 'gate'")
    return replace(found, sources=benchmark.sources)

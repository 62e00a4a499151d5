"""Which episodes few-shot benchmarks draw: five classes with one shot, or GATE's many ways and shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gate_data.cards import SHEETS
from gate_runner.errors import UsageError

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings


_WAYS = {"aircraft": (5, 9), "omniglot": (2, 49)}
"""The fewest and the most ways of GATE's episodes, where they are not 5 and 49."""


def cells(settings: Settings) -> Sequence[str]:
    """One variant: the benchmark itself, or what ``--protocol gate`` asks for."""
    if settings.shots:
        raise UsageError("--shots does not apply to few-shot episodes; --protocol gate draws GATE's")
    return ["gate" if settings.protocol == "gate" else ""]


def variant(benchmark: Benchmark, name: str) -> Benchmark:
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

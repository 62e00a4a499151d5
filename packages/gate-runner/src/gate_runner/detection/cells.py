"""The variants of a detection benchmark: how many shots, and which split is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gate_runner.errors import UsageError

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings


def cells(settings: Settings) -> Sequence[str]:
    """One variant for each number of shots, on the split that the settings name."""
    shots = settings.shots or ("full",)
    first = "valid" if settings.split == "valid" else ""
    return ["-".join(part for part in (first, "" if number == "full" else number) if part) for number in shots]


def variant(benchmark: Benchmark, suffix: str) -> Benchmark:
    """A detection benchmark scored on another split, or trained on few pictures."""
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

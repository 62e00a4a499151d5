"""What a tracker is told of a result, as names and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.runs.results import Result


class Reading(NamedTuple):
    """One number: where it belongs, what it is, and its value."""

    group: str
    name: str
    value: float


def group_of(result: Result) -> str:
    """The benchmark's name and seed, e.g. ``micro/cifar100/seed0``."""
    return f"{result.name}/seed{result.seed}"


def scores_of(result: Result) -> Iterator[Reading]:
    """Every metric on the test split with its interval and chance, seconds, and joules where they were measured."""
    group = group_of(result)
    for score in result.scores:
        for name, value in (
            (score.metric, score.value),
            (f"{score.metric} low", score.low),
            (f"{score.metric} high", score.high),
            (f"{score.metric} chance", score.chance),
        ):
            yield Reading(group, f"test {name}", value)
    if "total" in result.seconds:
        yield Reading(group, "seconds", result.seconds["total"])
    for device, phases in result.energy.get("joules", {}).items():
        yield Reading(group, f"{device} joules", phases["total"])


def curve_of(result: Result) -> Iterator[tuple[int, Reading]]:
    """Optimiser steps, and the validation metric at each."""
    group = group_of(result)
    for row in result.training.get("validation", ()):
        for name, value in row.items():
            if name != "step":
                yield int(row["step"]), Reading(group, f"validation {name}", float(value))


def configuration(output: Path) -> dict[str, Any]:
    """What the run folder's manifest says of encoder, limit, versions and machine; empty before there is one."""
    try:
        manifest = json.loads((output / "manifest.json").read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {**manifest["identity"], **(manifest["runs"][-1] if manifest["runs"] else {})}

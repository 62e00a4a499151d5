"""Trackers of runs: TensorBoard's files in the run folder, and Weights & Biases."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate_runner.errors import UsageError, unknown
from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result

_LOGIN_SECONDS = 60.0


class WandbTracker(Observer):
    """One W&B run for each run folder: the same command again continues it."""

    run: Any = None

    def opened(self, encoder: str, output: Path) -> None:
        """Note where to write."""
        self.encoder, self.output = encoder, output

    def planned(self, parts: Sequence[Planned]) -> None:
        """Start or continue the W&B run, with the configuration."""
        if all(part.done for part in parts):
            return
        import wandb

        identity = f"{self.output.resolve()} {self.encoder}"
        self.run = wandb.init(
            project="gate-runner",
            name=self.encoder,
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            resume="allow",
            dir=str(self.output),
            config={"spec": self.encoder, **configuration(self.output)},
            settings=wandb.Settings(init_timeout=_LOGIN_SECONDS),
        )
        for part in parts:
            group = f"{part.name}/seed{part.seed}"
            self.run.define_metric(f"{group}/step")
            self.run.define_metric(f"{group}/validation *", step_metric=f"{group}/step")

    def finished(self, result: Result) -> None:
        """Log the curve, and put scores into the summary, or why there are none."""
        group = group_of(result)
        for step, reading in curve_of(result):
            self.run.log({f"{group}/step": step, f"{group}/{reading.name}": reading.value})
        for reading in scores_of(result):
            self.run.summary[f"{group}/{reading.name}"] = reading.value
        if result.status == "failed":
            self.run.summary[f"{group}/failed"] = result.reason

    def closed(self, results: Sequence[Result]) -> None:
        """End the W&B run; its exit code says whether anything failed."""
        if self.run is not None:
            self.run.finish(exit_code=int(any(result.status == "failed" for result in results)))


class TensorBoardTracker(Observer):
    """Writes each result as it comes; what an earlier command computed is in that command's event file."""

    def opened(self, encoder: str, output: Path) -> None:
        """Note where to write."""
        self.encoder, self.output = encoder, output

    def planned(self, parts: Sequence[Planned]) -> None:
        """Open the event file and write the configuration."""
        if all(part.done for part in parts):
            return
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.output / "tensorboard"))
        shown = json.dumps({"encoder": self.encoder, **configuration(self.output)}, indent=2, sort_keys=True)
        self.writer.add_text("configuration", f"```json\n{shown}\n```")

    def finished(self, result: Result) -> None:
        """Write curve and scores, or why there are none."""
        for step, reading in curve_of(result):
            self.writer.add_scalar(_tag(reading), reading.value, step)
        for reading in scores_of(result):
            self.writer.add_scalar(_tag(reading), reading.value, 0)
        if result.status == "failed":
            self.writer.add_text(f"{group_of(result)}/failed", result.reason)
        self.writer.flush()

    def closed(self, results: Sequence[Result]) -> None:
        """Close the event file."""
        if hasattr(self, "writer"):
            self.writer.close()


def _tag(reading: Reading) -> str:
    """TensorBoard takes letters, digits, dots, dashes and slashes."""
    return f"{reading.group}/{re.sub(r'[^A-Za-z0-9_.-]+', '_', reading.name)}"


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


TRACKERS: dict[str, type[Observer]] = {"tensorboard": TensorBoardTracker, "wandb": WandbTracker}
"""Trackers by name; the extra that each needs has the same name."""


def make_trackers(names: Iterable[str]) -> list[Observer]:
    """Trackers that write beside a run's results, each once.

    Args:
        names: ``"tensorboard"``, ``"wandb"``.

    Returns:
        Observers for `gate_runner.executors.run`, which warns about one that fails and goes on.

    Raises:
        UsageError: no tracker has this name, or its extra is not installed; the message names it.

    Example:
        >>> make_trackers([])
        []
    """
    trackers: list[Observer] = []
    for name in dict.fromkeys(names):
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"--tracker {name} needs the extra: pip install 'gate-runner[{name}]'")
        trackers.append(TRACKERS[name]())
    return trackers

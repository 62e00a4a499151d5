"""A plan: what each part of a run will take, kept in the run folder so that the run can show both."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gate_runner.encoders.loading import device_for
from gate_runner.errors import UsageError
from gate_runner.executors.slot import Slot
from gate_runner.executors.threads import workers_for
from gate_runner.files import write
from gate_runner.planning.budget import Choice, best_subset
from gate_runner.runs.estimated import chosen_of, estimate_note, is_adaptive
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest, parts_of
from gate_runner.signatures import words_for

SCHEMA = "gate-runner/plan/1"


@dataclass(frozen=True)
class PartPlan:
    """One benchmark and seed of a plan.

    Args:
        benchmark: its id.
        name: its name in reports.
        seed: of the part.
        seconds: that it will take; 0 where it would fail.
        peak_bytes: memory of the process at its highest; 0 where it would fail.
        phases: seconds of data, encode, train, test and the rest.
        features: where they will be: ``"memory"``, ``"disk"``, or ``"encoded again"`` where the cap leaves no room.
        feature_bytes: that all of them take together.
        reason: why it would fail, or empty.
        note: how many test samples are scored, where ``--items`` chose; empty otherwise.
        recipe: by which the encoder is trained; empty for a frozen one.
        needs: options without which it would take more memory than there is; the command has them.
        done: its result is there already.
        command: runs this part alone, in the same folder; empty where the encoder is no spec string.
    """

    benchmark: str
    name: str
    seed: int
    seconds: float
    peak_bytes: int
    phases: dict[str, float] = field(default_factory=dict)
    features: str = "memory"
    feature_bytes: int = 0
    reason: str = ""
    note: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    done: bool = False
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a run will take.

    Args:
        encoder: its spec.
        startup_seconds: to start a process and load the encoder.
        parts: in order, without those that a budget leaves out.
        workers: parts at the same time.
        probe_seconds: that the plan itself took.
        choice: what a budget left over, or None where none was given.
    """

    encoder: str
    startup_seconds: float
    parts: tuple[PartPlan, ...]
    workers: int = 1
    probe_seconds: float = 0.0
    choice: Choice | None = None

    @property
    def seconds(self) -> float:
        """All that is left: the start, and the parts, each given to the worker that is free first."""
        free = [0.0] * self.workers
        for part in self.parts:
            if not part.done:
                free[free.index(min(free))] += part.seconds
        return self.startup_seconds + max(free) if any(free) else 0.0

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"schema": SCHEMA, **asdict(self), "seconds": self.seconds}


def plan(request: RunRequest, *, budget: float | None = None) -> Plan:
    """Measure what a run will take, on a few samples and steps of each benchmark, and write it into the run folder."""
    from gate_runner.encoders import load_encoder
    from gate_runner.encoders.probe import probe as check

    begin = time.monotonic()
    parts = parts_of(request)
    workers = workers_for(request.settings, len(parts))
    device = device_for(request.settings.device)
    if isinstance(request.encoder, str):
        startup = _startup(request.encoder, device) if request.settings.isolate != "none" else 0.0
        start = time.monotonic()
        encoder = load_encoder(request.encoder, device=device)
        startup = startup or time.monotonic() - start
    else:
        encoder, startup = request.encoder, 0.0
        encoder.to(device)
        check(encoder)
    planned = [_planned(part, request, first) for part, first in _probed(parts, encoder)]
    choice = None
    if budget is not None:
        planned, choice = _within(planned, budget - startup, workers)
    result = Plan(request.spec, startup, tuple(planned), workers, time.monotonic() - begin, choice)
    write(request.output / "plan.json", (json.dumps(result.to_mapping(), indent=2, sort_keys=True) + "\n").encode())
    return result


def _startup(encoder: str, device: str) -> float:
    """Seconds to start a worker and load the encoder in it."""
    slot = Slot(encoder, device)
    start = time.monotonic()
    try:
        slot.open()
        return time.monotonic() - start
    finally:
        slot.close()


def _probed(parts: Sequence[Part], encoder: Any) -> list[tuple[Part, dict[str, Any]]]:
    """Each part with what its benchmark's first seed took; of a sweep, its first unit of equal shots and tuning."""
    from gate_runner.planning.probe import probe
    from gate_runner.planning.trained import probe_trained

    measured: dict[tuple[object, ...], dict[str, Any]] = {}
    for part in parts:
        if _alike(part) in measured:
            continue
        try:
            estimate = probe(part, encoder) if part.settings.tune == "frozen" else probe_trained(part, encoder)
            measured[_alike(part)] = {**vars(estimate), "seconds": estimate.seconds}
        except UsageError as error:
            measured[_alike(part)] = {"seconds": 0.0, "peak_bytes": 0, "reason": " ".join(str(error).split())}
    planned: list[tuple[Part, dict[str, Any]]] = []
    encoded: set[str] = set()
    for part in parts:
        name, measurement = part.name.partition("@")[0], measured[_alike(part)]
        if "variant" in part.benchmark.training and name in encoded and "phases" in measurement:
            phases = {**measurement["phases"], "data": 0.0, "encode": 0.0}  # its first unit's
            measurement = {**measurement, "phases": phases, "seconds": sum(phases.values())}
        encoded.add(name)
        planned.append((part, measurement))
    return planned


def _alike(part: Part) -> tuple[object, ...]:
    """What parts have in common that take about as long."""
    variant = part.benchmark.training.get("variant")
    if variant is None:
        return (part.name,)
    return part.name.partition("@")[0], variant["shots"], part.settings.tune


def _planned(part: Part, request: RunRequest, measured: dict[str, Any]) -> PartPlan:
    done = RunFolder(request.output).finished(part.name, part.seed, recompute=request.settings.recompute) is not None
    items, chosen = part.settings.items, chosen_of(part)
    command = command_for(part, request)
    return PartPlan(
        part.benchmark.id,
        part.name,
        part.seed,
        **measured,
        note=f"by blocks until ± {part.settings.until:g} points: at most so long"
        if is_adaptive(part)
        else estimate_note(chosen, items.level)
        if items is not None and chosen is not None
        else "",
        done=done,
        command=(*command, *measured.get("needs", ())) if command else (),
    )


def command_for(part: Part, request: RunRequest) -> tuple[str, ...]:
    """The command line that runs one part alone."""
    if not isinstance(request.encoder, str):
        return ()
    alone = request.settings.changed(
        source=part.source, seeds=(part.seed,), workers=1, executor="local", executor_options={}
    )
    words = ["gate-runner", "run", part.benchmark.id, "--encoder", request.encoder, "--output", str(request.output)]
    return (*words, *words_for(alone))


def _within(planned: list[PartPlan], budget: float, workers: int) -> tuple[list[PartPlan], Choice]:
    """What a budget keeps; parts that are done, or would fail, cost nothing."""
    cost: dict[str, float] = {}
    for part in planned:
        cost[part.benchmark] = cost.get(part.benchmark, 0.0) + (0.0 if part.done else part.seconds / workers)
    free = {name for name, seconds in cost.items() if seconds == 0}
    costs = {name: seconds for name, seconds in cost.items() if name not in free}
    choice = best_subset(costs, budget) if costs else Choice(())
    chosen = [part for part in planned if part.benchmark in free or part.benchmark in choice.benchmarks]
    return chosen, replace(choice, benchmarks=tuple(dict.fromkeys(part.benchmark for part in chosen)))

"""A plan: what each part of a run will take, kept in the run folder so that the run can show both."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gate_runner.errors import UsageError
from gate_runner.executors.threads import workers_for
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.item_subsets import chosen_of, estimate_note, is_adaptive
from gate_runner.runs.request import RunRequest, eval_units_of
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings.signatures import words_for
from vision_features.encoders.loading import device_for
from wary_files.folders import write

SCHEMA = "gate-runner/plan/2"
_EXHAUSTIVE = 16
"""Benchmarks up to which every subset is looked at."""


@dataclass(frozen=True)
class UnitPlan:
    """One benchmark and seed of a plan."""

    benchmark: str
    name: str  # in reports
    seed: int
    seconds: float  # 0 where it would fail
    peak_bytes: int  # memory of the process at its highest; 0 where it would fail
    phases: dict[str, float] = field(default_factory=dict)  # seconds of data, encode, train, test and the rest
    reason: str = ""  # why it would fail
    note: str = ""  # how many test samples are scored, where --items chose
    recipe: dict[str, Any] = field(default_factory=dict)  # by which the encoder is trained; empty for a frozen one
    done: bool = False  # its result is there already
    command: tuple[str, ...] = ()  # runs this part alone, in the same folder; empty where the encoder has no spec


@dataclass(frozen=True)
class Choice:
    """The benchmarks of a request that fit a time."""

    benchmarks: tuple[str, ...]  # in the order in which they were given
    left_out: tuple[str, ...] = ()  # those that the time does not allow
    unjudged: tuple[str, ...] = ()  # of these, what GATE's table does not know: nothing says what they would tell
    # Of the rest of the table, predicted from the chosen (standardised; lower is better), and the mean of random
    # subsets that fit; None where everything fits, and nothing had to be chosen.
    error: float | None = None
    random_error: float | None = None


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
    parts: tuple[UnitPlan, ...]
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
    from vision_features.encoders import load_encoder
    from vision_features.encoders.probe import probe as check

    begin = time.monotonic()
    parts = eval_units_of(request)
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
    planned = [_planned(part, request, measured) for part, measured in _probed(parts, encoder)]
    choice = None
    if budget is not None:
        planned, choice = _within(planned, budget - startup, workers)
    result = Plan(request.spec, startup, tuple(planned), workers, time.monotonic() - begin, choice)
    write(
        RunFolder(request.output).plan_file, (json.dumps(result.to_mapping(), indent=2, sort_keys=True) + "\n").encode()
    )
    return result


def _startup(encoder: str, device: str) -> float:
    """Seconds to start a worker and load the encoder in it."""
    slot = WorkerProcess(encoder, device)
    start = time.monotonic()
    try:
        slot.open()
        return time.monotonic() - start
    finally:
        slot.close()


def _probed(parts: Sequence[EvalUnit], encoder: Any) -> list[tuple[EvalUnit, dict[str, Any]]]:
    """Each part with what its benchmark's first seed took; of a sweep, its first unit of equal shots and tuning."""
    from gate_runner.planning.probe import probe

    measured: dict[tuple[object, ...], dict[str, Any]] = {}
    planned: list[tuple[EvalUnit, dict[str, Any]]] = []
    encoded: set[str] = set()
    for part in parts:
        name, variant = part.name.partition("@")[0], part.benchmark.training.get("variant")
        alike = (part.name,) if variant is None else (name, variant["shots"], part.settings.tune)
        if alike not in measured:
            try:
                measured[alike] = probe(part, encoder)._asdict()
            except UsageError as error:
                measured[alike] = {"phases": {}, "peak_bytes": 0, "reason": " ".join(str(error).split())}
        measurement = measured[alike]
        if variant is not None and name in encoded and measurement["phases"]:
            phases = {**measurement["phases"], "data": 0.0, "encode": 0.0}  # they are its first unit's
            measurement = {**measurement, "phases": phases}
        encoded.add(name)
        planned.append((part, measurement))
    return planned


def _planned(part: EvalUnit, request: RunRequest, measured: dict[str, Any]) -> UnitPlan:
    items, chosen, note = part.settings.items, chosen_of(part), ""
    if is_adaptive(part):
        note = f"by blocks until ± {part.settings.until:g} points: at most so long"
    elif items is not None and chosen is not None:
        note = estimate_note(chosen, items.level)
    return UnitPlan(
        part.benchmark.id,
        part.name,
        part.seed,
        sum(measured["phases"].values()),
        **measured,
        note=note,
        done=RunFolder(request.output).finished(part.name, part.seed, recompute=request.settings.recompute) is not None,
        command=_command_for(part, request),
    )


def _command_for(part: EvalUnit, request: RunRequest) -> tuple[str, ...]:
    """The command line that runs one part alone."""
    if not isinstance(request.encoder, str):
        return ()
    alone = request.settings.changed(
        source=part.source, seeds=(part.seed,), workers=1, executor="local", executor_options={}
    )
    words = ["gate-runner", "run", part.benchmark.id, "--encoder", request.encoder, "--output", str(request.output)]
    return (*words, *words_for(alone))


def _within(planned: list[UnitPlan], budget: float, workers: int) -> tuple[list[UnitPlan], Choice]:
    """What a budget keeps; parts that are done, or would fail, cost nothing."""
    cost: dict[str, float] = {}
    for part in planned:
        cost[part.benchmark] = cost.get(part.benchmark, 0.0) + (0.0 if part.done else part.seconds / workers)
    free = {name for name, seconds in cost.items() if seconds == 0}
    costs = {name: seconds for name, seconds in cost.items() if name not in free}
    choice = best_subset(costs, budget) if costs else Choice(())
    chosen = [part for part in planned if part.benchmark in free or part.benchmark in choice.benchmarks]
    return chosen, replace(choice, benchmarks=tuple(dict.fromkeys(part.benchmark for part in chosen)))


def best_subset(seconds: Mapping[str, float], budget: float) -> Choice:
    """Choose among benchmarks by what they cost and what they tell.

    Every benchmark stays where all fit. Otherwise, of the subsets that fit, the one is chosen from whose scores
    EEVEE's ridge meta-model best predicts the scores on all thirty benchmarks of GATE's published table, measured on
    models that it was not fitted on.

    Source: EEVEE, section 3, with a budget in place of the number of benchmarks; the table is the paper's table 2,
        as `eevee` ships it. Stand-ins bear a data set's task, not its scores: for them the choice is a default.
    """
    ids = list(seconds)
    if sum(seconds.values()) <= budget:
        return Choice(tuple(ids))
    import eevee

    table = eevee.load_table("gate")
    names = [name for name in ids if name in table.benchmark_ids]
    if not names or min(seconds[name] for name in names) > budget:
        cheapest = min(names or ids, key=lambda name: seconds[name])
        raise UsageError(
            f"no benchmark of GATE's table fits {budget:.0f} s besides the start; the cheapest, {cheapest}, takes "
            f"{seconds[cheapest]:.0f} s"
        )
    priced = replace(
        table, benchmarks=tuple(replace(row, cost=float(seconds.get(row.id, 0.0))) for row in table.benchmarks)
    )
    chosen = eevee.select(
        priced,
        budget=budget,
        exclude=[name for name in table.benchmark_ids if name not in names],
        method="exhaustive" if len(names) <= _EXHAUSTIVE else "greedy-swap",
        randoms=200,
        nested=False,
    )
    return Choice(
        tuple(name for name in ids if name in chosen.benchmarks),
        tuple(name for name in ids if name not in chosen.benchmarks),
        tuple(name for name in ids if name not in table.benchmark_ids),
        float(chosen.error),
        float(chosen.random_error),
    )

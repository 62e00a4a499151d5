"""The run itself: every check first, then an executor computes the units that are missing, and each is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from importlib.metadata import entry_points

from gate_data.imports import named
from gate_data.request import size_of
from gate_runner.errors import unknown
from gate_runner.executors.executor import Executor, HereExecutor, Leaving, LockedElsewhere
from gate_runner.machine.resources import command
from gate_runner.runs.display import PlainDisplay
from gate_runner.runs.folder import RunFolder, stored_plan
from gate_runner.runs.observers import Observer, ObserverList, Planned
from gate_runner.runs.request import RunRequest, as_values, eval_units_of, own_files
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit
from gate_runner.tasks.recipes import is_solved
from wary_files.locks import BusyError
from wary_files.stopping import TerminatedError

_LOOK_AGAIN = 0.5
"""Seconds between two looks at a unit that another process computes."""


def run(request: RunRequest, display: Observer | None = None, observers: Sequence[Observer] = ()) -> list[Result]:
    """Run benchmarks, or what is left of them; one result per benchmark and seed, those already there included.

    What cannot be used is an error before any training, with nothing in the run folder touched. A benchmark that fails
    is a result with that status, and the others are run all the same; an observer that raises is dropped.
    """
    audience = ObserverList([display or PlainDisplay(), *observers])
    units, results_of = eval_units_of(request), dict[tuple[str, int], Result]()
    folder = RunFolder(request.output)
    # where all seems to be there, nothing is computed: another process would only take its time to start
    finished = isinstance(request.encoder, str) and all(
        folder.result_file(unit.name, unit.seed).exists() for unit in units
    )
    executor: Executor = make_executor(request) if not finished else HereExecutor(request)
    audience.opened(request.spec, request.output)
    try:
        opening = executor.open()
        identity = opening.identity(request.settings)
        folder.check(identity)
        digests: dict[tuple[str, ...], str] = {}
        for unit in units:
            stored = unit.finished()
            if stored is not None:
                unit.check_data(stored, size_of(opening.description["image_size"]), digests)
                results_of[unit.name, unit.seed] = stored
        missing = _missing(units, results_of)
        if missing and finished:
            executor.close()
            executor = make_executor(request)
            opening = executor.open()
        if missing:
            own = own_files(request.benchmarks, request.output)
            about = {"command": command(), "request": as_values(request), **own}
            folder.claim(identity, {**about, **opening.circumstances})
        expected = stored_plan(request.output)
        audience.planned([_planned(unit, expected, results_of) for unit in units])
        while missing:
            for outcome in executor.run(missing, audience):
                if isinstance(outcome, LockedElsewhere):
                    audience.postponed(*outcome)
                else:
                    results_of[outcome.name, outcome.seed] = outcome
                    audience.finished(outcome)
            missing = _missing(units, results_of)
            while missing and all(_busy(unit) for unit in missing):
                time.sleep(_LOOK_AGAIN)
    except TerminatedError:
        if isinstance(executor, Leaving):
            executor.leave()
        raise
    finally:
        executor.close()
    results = [results_of[unit.name, unit.seed] for unit in units]
    audience.closed(results)
    return results


def _planned(
    unit: EvalUnit, expected: dict[tuple[str, int], float], results_of: dict[tuple[str, int], Result]
) -> Planned:
    key, training = (unit.name, unit.seed), unit.benchmark.training
    whole = unit.settings.limit is None and "@" not in unit.name and unit.source not in ("local", "hub")
    cost = unit.benchmark.cost if whole or "variant" in training else None  # it is of all of a stand-in's images
    trained = unit.settings.tune != "frozen"
    steps = bool(training.get("steps")) and not is_solved(unit.settings, training)
    return Planned(*key, expected.get(key, cost), key in results_of, key in expected, trained, steps)


def _missing(units: Sequence[EvalUnit], results_of: dict[tuple[str, int], Result]) -> list[EvalUnit]:
    return cheap_first([unit for unit in units if (unit.name, unit.seed) not in results_of])


def cheap_first(units: Sequence[EvalUnit]) -> list[EvalUnit]:
    """Sort units by cost, so that a mistake shows after seconds; those of unknown cost come last.

    Parts of one benchmark stay together and in order, for they share what they load.
    """
    return sorted(units, key=lambda unit: math.inf if unit.benchmark.cost is None else unit.benchmark.cost)


def _busy(unit: EvalUnit) -> bool:
    """Whether another process computes a unit now."""
    try:
        with unit.folder.working(unit.name, unit.seed):
            return False
    except BusyError:
        return True


ENTRY_POINTS = "gate_runner.executors"
"""Entry-point group of plug-ins: each value is a function from a `RunRequest` to an `Executor`."""


_MAKERS = {
    "local": "gate_runner.executors.local:LocalExecutor",
    "slurm": "gate_runner.executors.slurm:SlurmExecutor",
}


def executor_names() -> list[str]:
    """The names that ``--executor`` takes, plug-ins last."""
    return [*_MAKERS, *(point.name for point in entry_points(group=ENTRY_POINTS))]


def make_executor(request: RunRequest) -> Executor:
    """The executor that a request asks for."""
    if request.settings.isolate == "none":
        return HereExecutor(request)
    name = request.settings.executor
    plugins = list(entry_points(group=ENTRY_POINTS, name=name))
    if name not in _MAKERS and not plugins:
        raise unknown("executor", name, executor_names())
    executor: Executor = (named(_MAKERS[name]) if name in _MAKERS else plugins[0].load())(request)
    return executor

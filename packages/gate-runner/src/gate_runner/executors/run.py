"""The run itself: every check first, then an executor computes the parts that are missing, and each is kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import entry_points

from gate_data.imports import named
from gate_data.request import size_of
from gate_runner.errors import unknown
from gate_runner.executors.executor import Executor, HereExecutor, Leaving, Postponed
from gate_runner.machine import command
from gate_runner.runs.display import PlainDisplay
from gate_runner.runs.folder import RunFolder, stored_plan
from gate_runner.runs.observers import Audience, Observer, Planned
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest, as_values, own_files, parts_of
from gate_runner.runs.results import Result
from wary_files.locks import BusyError
from wary_files.stopping import TerminatedError

_LOOK_AGAIN = 0.5
"""Seconds between two looks at a part that another process computes."""


def run(request: RunRequest, display: Observer | None = None, observers: Sequence[Observer] = ()) -> list[Result]:
    """Run benchmarks, or what is left of them; one result per benchmark and seed, those already there included.

    What cannot be used is an error before any training, with nothing in the run folder touched. A benchmark that fails
    is a result with that status, and the others are run all the same; an observer that raises is dropped.
    """
    audience = Audience([display or PlainDisplay(), *observers])
    parts, results_of = parts_of(request), dict[tuple[str, int], Result]()
    folder = RunFolder(request.output)
    # where all seems to be there, nothing is computed: another process would only take its time to start
    finished = isinstance(request.encoder, str) and all(
        folder.result_file(part.name, part.seed).exists() for part in parts
    )
    executor: Executor = make_executor(request) if not finished else HereExecutor(request)
    audience.opened(request.spec, request.output)
    try:
        opening = executor.open()
        identity = opening.identity(request.settings)
        folder.check(identity)
        digests: dict[tuple[str, ...], str] = {}
        for part in parts:
            stored = part.finished()
            if stored is not None:
                part.check_data(stored, size_of(opening.description["image_size"]), digests)
                results_of[part.name, part.seed] = stored
        missing = _missing(parts, results_of)
        if missing and finished:
            executor.close()
            executor = make_executor(request)
            opening = executor.open()
        if missing:
            own = own_files(request.benchmarks, request.output)
            about = {"command": command(), "request": as_values(request), **own}
            folder.claim(identity, {**about, **opening.circumstances})
        expected = stored_plan(request.output)
        audience.planned([_planned(part, expected, results_of) for part in parts])
        while missing:
            for outcome in executor.run(missing, audience):
                if isinstance(outcome, Postponed):
                    audience.postponed(*outcome)
                else:
                    results_of[outcome.name, outcome.seed] = outcome
                    audience.finished(outcome)
            missing = _missing(parts, results_of)
            while missing and all(_busy(part) for part in missing):
                time.sleep(_LOOK_AGAIN)
    except TerminatedError:
        if isinstance(executor, Leaving):
            executor.leave()
        raise
    finally:
        executor.close()
    results = [results_of[part.name, part.seed] for part in parts]
    audience.closed(results)
    return results


def _planned(part: Part, expected: dict[tuple[str, int], float], results_of: dict[tuple[str, int], Result]) -> Planned:
    key, training = (part.name, part.seed), part.benchmark.training
    whole = part.settings.limit is None and "@" not in part.name and part.source not in ("local", "hub")
    cost = part.benchmark.cost if whole or "variant" in training else None  # it is of all of a stand-in's pictures
    trained, steps = part.settings.tune != "frozen", bool(training.get("steps"))
    return Planned(*key, expected.get(key, cost), key in results_of, key in expected, trained, steps)


def _missing(parts: Sequence[Part], results_of: dict[tuple[str, int], Result]) -> list[Part]:
    return [part for part in parts if (part.name, part.seed) not in results_of]


def _busy(part: Part) -> bool:
    """Whether another process computes a part now."""
    try:
        with part.folder.working(part.name, part.seed):
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

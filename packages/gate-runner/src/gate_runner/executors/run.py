"""The run itself: every check first, then the parts that are missing, each kept as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gate_runner.configuration import as_values
from gate_runner.executors.executor import Executor, Postponed
from gate_runner.executors.here import HereExecutor
from gate_runner.executors.making import make_executor
from gate_runner.runs.circumstances import command, own_files
from gate_runner.runs.display import PlainDisplay
from gate_runner.runs.folder import RunFolder, stored_plan
from gate_runner.runs.lock import BusyError
from gate_runner.runs.observers import Audience, Observer, Planned
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest, parts_of
from gate_runner.runs.results import Result

_LOOK_AGAIN = 0.5
"""Seconds between two looks at a part that another process computes."""


def run(request: RunRequest, display: Observer | None = None, observers: Sequence[Observer] = ()) -> list[Result]:
    """Run benchmarks, or what is left of them.

    Args:
        request: what to run.
        display: where progress goes; plain lines by default.
        observers: told of everything besides the display; one that raises is warned about and dropped.

    Returns:
        One result per benchmark and seed, those that were already there included. A benchmark that fails is a result
        with status ``"failed"``; the others are run all the same.

    Raises:
        UsageError: a source, data root, encoder or run folder that cannot be used. Raised before any training, and
            with nothing in the run folder touched.
        StorageError: the run folder cannot be written any more.

    Example:
        >>> import tempfile
        >>> from gate_runner.runs.request import make_request
        >>> from gate_runner.settings import Settings
        >>> how = Settings(limit=40)
        >>> request = make_request("digits", "micro-clip/random", output=tempfile.mkdtemp(), settings=how)
        >>> [result.status for result in run(request, Observer())]
        ['ok']
    """
    audience = Audience([display or PlainDisplay(), *observers])
    parts, found = parts_of(request), dict[tuple[str, int], Result]()
    folder, apart = RunFolder(request.output), request.settings.isolate != "none"
    # where all seems to be there, nothing is computed: another process would only take its time to start
    finished = apart and all(folder.result_file(part.name, part.seed).exists() for part in parts)
    executor: Executor = make_executor(request) if not finished else HereExecutor(request)
    audience.opened(request.spec, request.output)
    try:
        opening = executor.open()
        identity = opening.identity(request.settings)
        folder.check(identity)
        digests: dict[tuple[str, ...], str] = {}
        for part in parts:
            there = part.finished()
            if there is not None:
                part.check_data(there, int(opening.description["image_size"]), digests)
                found[part.name, part.seed] = there
        left = _missing(parts, found)
        if left and finished:
            executor.close()
            executor = make_executor(request)
            opening = executor.open()
        if left:
            own = own_files(request.benchmarks, request.output)
            about = {"command": command(), "request": as_values(request), **own}
            folder.claim(identity, {**about, **opening.circumstances})
        expected = stored_plan(request.output)
        audience.planned([_planned(part, expected, found) for part in parts])
        while left:
            for outcome in executor.run(left, audience):
                if isinstance(outcome, Postponed):
                    audience.postponed(*outcome)
                else:
                    found[outcome.name, outcome.seed] = outcome
                    audience.finished(outcome)
            left = _missing(parts, found)
            while left and all(_busy(part) for part in left):
                time.sleep(_LOOK_AGAIN)
    finally:
        executor.close()
    results = [found[part.name, part.seed] for part in parts]
    audience.closed(results)
    return results


def _planned(part: Part, expected: dict[tuple[str, int], float], found: dict[tuple[str, int], Result]) -> Planned:
    key = (part.name, part.seed)
    trained = part.settings.tune != "frozen"
    steps = bool(part.benchmark.training.get("steps"))
    return Planned(*key, expected.get(key, part.benchmark.cost), key in found, key in expected, trained, steps)


def _missing(parts: Sequence[Part], found: dict[tuple[str, int], Result]) -> list[Part]:
    return [part for part in parts if (part.name, part.seed) not in found]


def _busy(part: Part) -> bool:
    """Whether another process computes a part now."""
    try:
        with part.folder.working(part.name, part.seed):
            return False
    except BusyError:
        return True

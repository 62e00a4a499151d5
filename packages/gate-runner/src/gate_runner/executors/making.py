"""The executors that there are, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from gate_runner.errors import unknown
from gate_runner.executors.executor import Executor
from gate_runner.runs.request import RunRequest

ENTRY_POINTS = "gate_runner.executors"
"""Entry-point group of plug-ins: each value is a function from a `RunRequest` to an `Executor`."""


def _local(request: RunRequest) -> Executor:
    from gate_runner.executors.local import LocalExecutor

    return LocalExecutor(request)


def _ray(request: RunRequest) -> Executor:
    from gate_runner.executors.ray_cluster import RayExecutor

    return RayExecutor(request)


def _slurm(request: RunRequest) -> Executor:
    from gate_runner.executors.slurm import SlurmExecutor

    return SlurmExecutor(request)


_MAKERS: dict[str, Callable[[RunRequest], Executor]] = {"local": _local, "ray": _ray, "slurm": _slurm}


def executor_names() -> list[str]:
    """The names that ``--executor`` takes, plug-ins last.

    Example:
        >>> executor_names()[:3]
        ['local', 'ray', 'slurm']
    """
    return [*_MAKERS, *(point.name for point in entry_points(group=ENTRY_POINTS))]


def make_executor(request: RunRequest) -> Executor:
    """The executor that a request asks for.

    Args:
        request: its settings ``executor``, ``isolate`` and ``executor_options`` decide.

    Returns:
        The executor, not yet opened.

    Raises:
        UsageError: no executor has this name, or its options are wrong.
        ImportError: it needs an extra that is not installed; the message names it.

    Example:
        >>> from pathlib import Path
        >>> request = RunRequest([], "micro-clip", Path("runs/x"))
        >>> type(make_executor(request)).__name__
        'HereExecutor'
    """
    if request.settings.isolate == "none":
        from gate_runner.executors.here import HereExecutor

        return HereExecutor(request)
    asked = request.settings.executor
    if asked in _MAKERS:
        return _MAKERS[asked](request)
    found = list(entry_points(group=ENTRY_POINTS, name=asked))
    if not found:
        raise unknown("executor", asked, executor_names())
    plugin: Executor = found[0].load()(request)
    return plugin

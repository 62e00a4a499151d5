"""Parts on other machines: what runs there, and how it is seen from here."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gate_runner.errors import StorageError, UsageError
from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.slot import Slot
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

_SLOTS: dict[str, Slot] = {}
"""The slot of this process, kept for the next part where the same encoder and device are asked for."""


def described(request: RunRequest) -> Opening:
    """Load the encoder once on this machine's CPU, in a process apart, to know whose results the folder will hold."""
    assert isinstance(request.encoder, str)
    slot = Slot(request.encoder, "cpu")
    try:
        return slot.open()
    finally:
        slot.close()


def order(part: Part, opening: Opening) -> dict[str, Any]:
    """All that another machine needs for a part, JSON-ready."""
    return {
        "part": part.to_mapping(),
        "description": dict(opening.description),
        "outputs": dict(opening.outputs),
        "directory": os.getcwd(),  # noqa: PTH109 - text, for a module of the user's beside which the run was started
    }


def compute(values: Mapping[str, Any]) -> dict[str, Any]:
    """Compute a part on this machine, in a worker of its own."""
    part = Part.from_mapping(values["part"])
    if not (part.output / "manifest.json").exists():
        raise StorageError(
            f"{part.output} holds no manifest.json on {platform.node()}: "
            "the run folder must lie on a file system that all nodes share"
        )
    opening = Opening(values["description"], {}, values["outputs"])
    part.folder.check(opening.identity(part.settings))
    device = part.settings.device
    key = json.dumps([part.encoder, device, values["directory"], os.environ.get("CUDA_VISIBLE_DEVICES")])
    for slot_name in [name for name in _SLOTS if name != key]:
        _SLOTS.pop(slot_name).close()
    if key not in _SLOTS:
        _SLOTS[key] = Slot(part.encoder, device, directory=values["directory"])
        _SLOTS[key].opening = opening
    outcome = _SLOTS[key].run(part, lambda: None, lambda phase, done, total: None)
    if isinstance(outcome, Postponed):
        return {"busy": outcome.owner}
    return {"result": json.loads(outcome.to_json())}


def outcome_of(part: Part, answer: Mapping[str, Any]) -> Result | Postponed:
    """What `compute` answered, as an outcome."""
    if "busy" in answer:
        return Postponed(part.name, part.seed, str(answer["busy"]))
    return Result.from_mapping(answer["result"], part.name)


def tell_started(parts: Sequence[Part], started: set[tuple[str, int]], observer: Observer) -> None:
    """Tell of the parts that have begun somewhere since the last look: their lock files are there."""
    for part in parts:
        key = (part.name, part.seed)
        if key not in started and part.folder.lock_file(part.name, part.seed).exists():
            started.add(key)
            observer.started(part.name, part.seed)


def numbers_in(options: Mapping[str, str]) -> dict[str, Any]:
    """Options with whole and decimal numbers as numbers.

    Example:
        >>> numbers_in({"mem_gb": "8", "slurm_partition": "gpu", "num_gpus": "0.5"})
        {'mem_gb': 8, 'slurm_partition': 'gpu', 'num_gpus': 0.5}
    """
    return {key: _number(value) for key, value in options.items()}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def take(options: dict[str, Any], available: Mapping[str, Any], executor: str) -> Iterator[Any]:
    """The values of known options, in their order, with defaults."""
    extra = sorted(set(options) - set(available))
    if extra:
        raise UsageError(f"the {executor} executor has no option {extra[0]!r}; it has: {', '.join(available)}")
    for name, default in available.items():
        yield options.get(name, default)

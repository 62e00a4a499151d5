"""What is installed here and on what it runs, for people who report a problem."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution, entry_points
from typing import Any

from packaging.requirements import Requirement

from gate_runner.machine.resources import OWN, cores, installed, processor

_GROUPS = ("vision_features.encoders", "gate_runner.benchmarks", "gate_runner.tasks", "gate_runner.executors")


def environment() -> dict[str, Any]:
    """Versions, hardware, extras and plug-ins; no paths, host names or users.

    Nothing is imported but torch, where it is installed, to ask for GPUs.
    """
    packages = {name: installed(name) for name in OWN}
    present = [name for name, version in packages.items() if version is not None]
    required = {needs.name for name in present for needs in _needed(name, "")} - set(packages)
    return {
        "packages": packages,
        "system": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "venv": sys.prefix != sys.base_prefix,
        },
        "hardware": _hardware(),
        "requirements": {name: installed(name) for name in sorted(required)},
        "extras": {name: _extras(name) for name in present},
        "plug-ins": sorted(f"{point.name} ({point.value})" for group in _GROUPS for point in entry_points(group=group)),
    }


def described(entries: Mapping[str, Any]) -> Iterator[str]:
    """The same as lines."""
    for title, values in entries.items():
        if title == "extras":
            for name, extras in values.items():
                lacking = [f"{extra} lacks {', '.join(absent)}" for extra, absent in extras.items() if absent]
                complete = [extra for extra, absent in extras.items() if not absent]
                if extras:
                    yield f"extras of {name}: {'; '.join([*complete, *lacking])}"
        elif isinstance(values, Mapping):
            yield f"{title}: {', '.join(f'{name} {_in_words(value)}' for name, value in values.items())}"
        else:
            yield f"{title}: {', '.join(values) or 'none'}"


def _in_words(value: Any) -> str:
    if value is None:
        return "not installed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _hardware() -> dict[str, Any]:
    hardware: dict[str, Any] = {"processor": processor(), "cores": cores()}
    try:
        import torch
    except ImportError:
        return hardware
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {**hardware, "threads": torch.get_num_threads(), "CUDA": torch.version.cuda or "none", "GPUs": gpus}


def _extras(name: str) -> dict[str, list[str]]:
    """Extra to the names of what it lacks here."""
    always = {needs.name for needs in _needed(name, "")}
    return {
        extra: [
            needs.name for needs in _needed(name, extra) if needs.name not in always and installed(needs.name) is None
        ]
        for extra in distribution(name).metadata.get_all("Provides-Extra") or []
    }


def _needed(name: str, extra: str) -> list[Requirement]:
    """What a distribution requires on this system, with an extra."""
    every = [Requirement(text) for text in distribution(name).requires or []]
    return [needs for needs in every if needs.marker is None or needs.marker.evaluate({"extra": extra})]

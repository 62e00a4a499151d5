"""What is installed here and on what it runs, for people who report a problem."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution, entry_points
from typing import Any

from packaging.requirements import Requirement

from gate_runner.machine import OWN, cores, installed, processor

_GROUPS = ("gate_runner.encoders", "gate_runner.benchmarks", "gate_runner.tasks", "gate_runner.executors")


def environment() -> dict[str, Any]:
    """Versions, hardware, extras and plug-ins.

    An extra counts as there when all that it requires on this system can be found; nothing is imported but torch, where
    it is installed, to ask for GPUs. No paths, host names or users are in it.

    Example:
        >>> description = environment()
        >>> list(description["packages"])[0], sorted(description)
        ('gate-runner', ['extras', 'hardware', 'packages', 'plug-ins', 'programs', 'requirements', 'system'])
    """
    packages = {name: installed(name) for name in OWN}
    return {
        "packages": packages,
        "system": {
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "in a virtual environment": sys.prefix != sys.base_prefix,
        },
        "hardware": _hardware(),
        "requirements": _requirements(packages),
        "extras": {name: _extras(name) for name, present in packages.items() if present is not None},
        "programs": {name: shutil.which(name) is not None for name in ("chromium", "sbatch", "git")},
        "plug-ins": _plugins(),
    }


def described(entries: Mapping[str, Any]) -> Iterator[str]:
    """The same as lines.

    Example:
        >>> list(described({"packages": {"gate-runner": "1.0", "eqsim": None}, "programs": {"git": True}}))
        ['packages: gate-runner 1.0, eqsim not installed', 'programs: git yes']
    """
    for title, values in entries.items():
        if title == "extras":
            for name, extras in values.items():
                lines = [
                    f"{extra} {'lacks ' + ', '.join(lacking) if lacking else 'yes'}"
                    for extra, lacking in extras.items()
                ]
                if lines:
                    yield f"extras of {name}: {'; '.join(lines)}"
        elif isinstance(values, Mapping):
            yield f"{title}: {', '.join(f'{name} {_said(value)}' for name, value in values.items())}"
        else:
            yield f"{title}: {', '.join(values) or 'none'}"


def _said(value: Any) -> str:
    if value is None:
        return "not installed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _hardware() -> dict[str, Any]:
    hardware: dict[str, Any] = {"processor": processor(), "cores": cores(), "memory GB": _memory()}
    try:
        import torch
    except ImportError:
        return hardware
    hardware["threads"] = torch.get_num_threads()
    hardware["CUDA"] = torch.version.cuda or "none"
    hardware["GPUs"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return hardware


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _requirements(packages: Mapping[str, str | None]) -> dict[str, str | None]:
    """Versions of what our packages require without extras, each other aside."""
    required = {needs.name for name, present in packages.items() if present is not None for needs in _needed(name, "")}
    return {name: installed(name) for name in sorted(required - set(packages))}


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


def _plugins() -> list[str]:
    points = [f"{point.name} ({point.value})" for group in _GROUPS for point in entry_points(group=group)]
    return sorted(points)

"""The machine: what it is, for manifests; how much memory a part took and others may take."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gate_runner.machine.revision import revision

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_GROUPS = Path("/sys/fs/cgroup")


class PeakMemory:
    """The largest memory of this process, and of its GPUs, since this object was made."""

    def __init__(self) -> None:
        self.since_here = False
        try:
            _CLEAR.write_text("5")  # Linux: the high-water mark falls to what is used now
            self.since_here = True
        except OSError:
            pass
        for device in _gpus():
            sys.modules["torch"].cuda.reset_peak_memory_stats(device)

    def read(self) -> dict[str, int]:
        """The peaks in bytes."""
        peaks = {}
        if self.since_here and (resident := high_water()) is not None:
            peaks["peak_bytes"] = resident
        used = sum(int(sys.modules["torch"].cuda.max_memory_allocated(device)) for device in _gpus())
        if used:
            peaks["gpu_peak_bytes"] = used
        return peaks


def high_water() -> int | None:
    """The largest resident memory of this process in bytes, or None where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


def free_memory() -> int | None:
    """Bytes that this process may still take, or None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    return min([free, *_left_in_groups()])


def _left_in_groups() -> list[int]:
    """Bytes under the limits of a container: what is used counts, but for cached files, which make room."""
    left = []
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = (int((_GROUPS / name).read_text()) for name in (limit, used))
            lines = (_GROUPS / used).with_name("memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no limit, or another version
            continue
        files = next((int(line.split()[1]) for line in lines if line.startswith(f"{cached} ")), 0)
        left.append(max(0, most - max(0, now - files)))
    return left


def release() -> None:
    """Give free what nothing refers to any more."""
    gc.collect()
    if _gpus():
        sys.modules["torch"].cuda.empty_cache()


def killed_for_memory() -> int | None:
    """How many processes this system has killed for want of memory since its start, or None where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _gpus() -> list[int]:
    """The GPUs that this process uses; empty where torch was never imported, or no GPU was touched."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    return list(range(torch.cuda.device_count()))


OWN = (
    "gate-runner", "eqsim", "knowledge-prompts", "vision-adapters", "eqben-builder", "oven-retrieval", "eevee-search",
    "gate-data", "vision-features", "paired-scores", "wary-files",
)  # fmt: skip
"""Our own distributions."""
_PACKAGES = (
    *OWN, "torch", "open_clip_torch", "timm", "transformers", "numpy", "scikit-learn", "pillow", "scipy", "torchvision",
)  # fmt: skip


def circumstances() -> dict[str, Any]:
    """Versions, hardware and git revision where parts are computed; nothing that identifies a person."""
    import torch

    return {
        "git": revision(Path()),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        },
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": dict(versions()),
    }


@cache
def versions() -> Mapping[str, str]:
    """Versions of the packages that results rest on, as far as they are installed."""
    return {name: present for name in _PACKAGES if (present := installed(name)) is not None}


def command() -> list[str]:
    """The command line of gate-runner that this process was started with; of any other program its name alone."""
    program = Path(sys.argv[0]).stem if sys.argv else ""
    if program in ("gate-runner", "-c"):
        return ["gate-runner", *sys.argv[1:]]
    return [program or "python"]


def installed(name: str) -> str | None:
    """The version of a distribution; None where it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")

"""How many processes and threads compute: as many as are free, which sleep while they wait."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.machine.energy import EnergyMeter
from gate_runner.machine.resources import cores, free_memory

if TYPE_CHECKING:
    from gate_runner.settings import Settings

_DEVICES = Path("/dev")
_MOST, _SEVERAL, _MEMORY = 4, 4, 3_000_000_000
"""Workers that are started unasked, benchmarks from which they are, and bytes that each should have free."""


def workers_for(settings: Settings, units: int) -> int:
    """Benchmarks at the same time, where nobody said: threads help small heads little, another process does.

    Energy is counted for the whole machine, and a training of the encoder fills it: these run one after another.
    """
    if settings.workers is not None:
        return settings.workers
    alone = settings.isolate == "none" or settings.tune != "frozen" or settings.device not in ("auto", "cpu")
    if alone or units < _SEVERAL or any(_DEVICES.glob("nvidia[0-9]*")) or EnergyMeter().counters:
        return 1
    return max(1, min(units, _MOST, (free_memory() or 0) // _MEMORY, _free_cores()))


def gpus_expected(settings: Settings) -> int:
    """GPUs that workers will share this machine's cores over, as far as it shows them before torch is imported."""
    if settings.device != "auto":
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() and name.strip() != "-1"])
    return len(list(_DEVICES.glob("nvidia[0-9]*")))


def thread_settings(processes: int = 1) -> dict[str, str]:
    """Variables that OpenMP reads when torch is imported; those that the user set are left out.

    A thread that waits by spinning takes a core from whoever else computes on the machine, and from the thread that it
    waits for: with as many busy processes as cores, sums take many times as long.
    """
    free = _free_cores()
    settings = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
    if processes > 1 or free < cores():
        settings["OMP_NUM_THREADS"] = str(max(1, free // processes))
    if processes > 1:
        settings["GATE_DATA_READERS"] = str(max(1, free // processes))
    return {name: value for name, value in settings.items() if name not in os.environ}


def _free_cores() -> int:
    busy = min(os.getloadavg()[0], cores()) if hasattr(os, "getloadavg") else 0.0
    if round(busy):
        busy = min(busy, _running())
    return max(1, round(cores() - busy))


def _running() -> float:
    """Threads of others that compute now: the load is of the last minute, and remembers what has ended since."""
    counts = []
    for _ in range(5):
        try:
            counts.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
        except (OSError, ValueError, IndexError):
            return float("inf")
        time.sleep(0.005)
    return max(counts)

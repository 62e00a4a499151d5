"""How many threads a process computes with: as many as are free, which sleep while they wait."""

from __future__ import annotations

import os


def thread_settings(processes: int = 1) -> dict[str, str]:
    """Variables that OpenMP reads when torch is imported; those that the user set are left out.

    A thread that waits by spinning takes a core from whoever else computes on the machine, and from the thread that it
    waits for: with as many busy processes as cores, sums take many times as long.

    Example:
        >>> set(thread_settings()) <= {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS"}
        True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = min(os.getloadavg()[0], cores) if hasattr(os, "getloadavg") else 0.0
    free = max(1, round(cores - busy))
    settings = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
    if processes > 1 or free < cores:
        settings["OMP_NUM_THREADS"] = str(max(1, free // processes))
    return {name: value for name, value in settings.items() if name not in os.environ}

"""What every benchmark prints and writes: hardware, versions, medians, a small JSON file."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

import deap
import numpy as np

import eevee

RESULTS = Path(__file__).parent / "results"


def setting() -> dict[str, object]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": np.__version__,
        "deap": deap.__version__,
        "eevee": eevee.__version__,
    }


def alternate(runs: dict[str, object], repeats: int) -> dict[str, dict[str, float]]:
    """Median wall and processor seconds of each function, in turns, so that a busy machine slows all alike."""
    wall: dict[str, list[float]] = {name: [] for name in runs}
    busy: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start, clock = time.perf_counter(), time.process_time()
            run()
            wall[name].append(time.perf_counter() - start)
            busy[name].append(time.process_time() - clock)
    return {name: {"wall": statistics.median(wall[name]), "cpu": statistics.median(busy[name])} for name in runs}


def record(name: str, result: dict[str, object]) -> None:
    print(json.dumps(result, indent=1))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"setting": setting(), **result}, indent=1) + "\n")


def earlier(name: str) -> dict[str, object]:
    """What an earlier piece of the same benchmark recorded."""
    path = RESULTS / f"{name}.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    return {key: value for key, value in recorded.items() if key != "setting"}


def stop(message: str) -> None:
    print(f"WRONG, so no speed is printed: {message}")
    sys.exit(1)

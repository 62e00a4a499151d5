"""What every benchmark here shares: processor time, peak memory, and a description of the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).with_name("results")


def machine() -> dict[str, str]:
    cpu = "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next(line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "processor": cpu,
        "threads": str(torch.get_num_threads()),
        "gpu": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": f"{os.getloadavg()[0]:.1f} processes waiting for {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d"),
    }


def alternate(candidates: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median processor seconds of each, one run of each in turn, after one run of each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats + 1):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            if repeat:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_megabytes(run: Callable[[], object]) -> float:
    """Resident memory that a run adds at its peak (Linux; the result of the run counts, its input does not)."""
    status = Path("/proc/self/status")
    Path("/proc/self/clear_refs").write_text("5")
    before = _status(status, "VmRSS")
    result = run()
    peak = _status(status, "VmHWM")
    del result
    return (peak - before) / 1024


def _status(path: Path, field: str) -> int:
    line = next(line for line in path.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def save(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine()} | content, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")

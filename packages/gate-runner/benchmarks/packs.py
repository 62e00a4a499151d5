"""What whole packs of stand-ins cost: wall and processor time, peak memory, and each benchmark's share.

Runs each pack once in a fresh process with micro-clip, and checks that every benchmark in it ended with a score. The
peak is that of the largest process, as the kernel counts it. Other work on the machine lengthens the wall time: the
processor time, over all threads, and the load before and after are printed beside it.

    python packages/gate-runner/benchmarks/packs.py full base [--output packs.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gate_runner.benchmarks.registry import PACKS

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()"]


def run(name: str, folder: Path) -> dict[str, Any]:
    """Times, memory and the benchmarks' seconds of one run of a pack."""
    load, start = os.getloadavg()[0], time.perf_counter()
    process = subprocess.Popen([*COMMAND, "run", name, "--output", str(folder)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    stored = [json.loads(path.read_text()) for path in (folder / "results").glob("*.json")]
    results = {one["benchmark"]: one for one in stored}
    lost = [one for one in PACKS[name] if results.get(one, {}).get("status") != "ok"]
    if status or lost:
        raise SystemExit(f"{name}: status {status}, without a score: {lost}")
    return {
        "benchmarks": len(PACKS[name]),
        "wall_s": round(wall, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gb": round(usage.ru_maxrss / 1e6, 2),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "seconds": {one: round(results[one]["seconds"]["total"], 1) for one in PACKS[name]},
    }


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+", choices=sorted(PACKS))
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "torch")},
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "packs": {},
    }
    if asked.output and asked.output.exists():  # another pack, measured before
        found["packs"] = json.loads(asked.output.read_text())["packs"]
    for name in asked.packs:
        with tempfile.TemporaryDirectory() as folder:
            one = found["packs"][name] = run(name, Path(folder) / "run")
        slow = sorted(one["seconds"].items(), key=lambda pair: -pair[1])
        cost = f"{one['wall_s']:.0f} s ({one['cpu_s']:.0f} s of processor), {one['peak_gb']} GB"
        print(f"{name}: {cost}, load {one['load']}")
        print("".join(f"  {seconds:6.1f}  {benchmark}\n" for benchmark, seconds in slow), end="", flush=True)
        if asked.output:
            asked.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

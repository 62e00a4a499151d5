"""What a run takes by the clock beside as many busy processes as there are cores, against its processor time.

Threads that spin while they wait take a core from whoever computes, and a run beside other work then takes many times
as long. And how long Ctrl-C takes then. Runs are in fresh processes from an empty cache, with no thread variables set.

    python packages/gate-runner/benchmarks/beside_work.py [--benchmark micro/cifar100] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()", "run"]
TARGET = 2.0
"""Seconds by the clock for each of the processor, at most."""


def measured(benchmark: str, folder: Path) -> dict[str, float]:
    """One run: seconds by the clock, of processor, and their ratio."""
    variables = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [*COMMAND, benchmark, "--encoder", "micro-clip", "--output", str(folder / "run")]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env={**variables, "GATE_RUNNER_CACHE": str(folder / "cache")}, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{benchmark} failed")
    cpu = usage.ru_utime + usage.ru_stime  # of its workers too: it waits for them
    return {"seconds": seconds, "cpu_seconds": cpu, "ratio": seconds / cpu}


def interrupted(benchmark: str, folder: Path) -> float:
    """Seconds from Ctrl-C in the middle of a training until no process of the run is there any more."""
    command = [*COMMAND, benchmark, "--encoder", "micro-clip", "--output", str(folder / "run")]
    restored = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's jobs ignore it
    command[2] = restored + command[2]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    while not any(folder.glob("run/unfinished/*.pt")):
        if process.poll() is not None:
            raise SystemExit(f"{benchmark} ended before it could be interrupted")
        time.sleep(0.1)
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(map(int, line.split()) for line in table.splitlines())
    family = [pid for pid, parent in parents.items() if process.pid in (pid, parent)]
    start = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    process.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in family):
        time.sleep(0.01)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="micro/cifar100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "beside_work.json")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    rows = []
    try:
        time.sleep(20)  # until the load average shows them
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                rows.append({**measured(options.benchmark, Path(folder)), "load": os.getloadavg()[0]})
            print(json.dumps(rows[-1]), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            ended = interrupted("micro/clevr-math", Path(folder))
    finally:
        for process in busy:
            process.kill()
    ratio = statistics.median(row["ratio"] for row in rows)
    report = {
        "benchmark": options.benchmark,
        "busy_processes": cores,
        "ratio": ratio,
        "reached": ratio <= TARGET,
        "seconds_after_ctrl_c": ended,
        "rows": rows,
        "hardware": {"machine": platform.machine(), "cores": cores},
        "versions": {name: version(name) for name in ("gate-runner", "torch")},
    }
    print(f"{ratio:.2f} s by the clock for each of the processor beside {cores} busy processes (at most {TARGET:g})")
    print(f"{ended:.2f} s from Ctrl-C until all its processes are gone (at most 2)")
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

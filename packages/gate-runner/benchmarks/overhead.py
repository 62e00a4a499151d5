"""What the runner costs: `gate-runner run small` against the same tasks called one after another in one plain process.

Both in fresh processes, alternating, with the same threads. The plain one loads the encoder, makes the data and calls
the tasks; the runner adds its worker process, locks, checkpoints, kept features, digests and files. Checks first that
the scores are the same. The ratio is of medians of processor seconds, which other work on the machine disturbs less
than the clock; the clock's is printed beside it.

    python packages/gate-runner/benchmarks/overhead.py [small] [--limit 130] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

PLAIN = """
import json, sys
from gate_runner.benchmarks import DataRequest, resolve
from vision_features.encoders import load_encoder
from gate_runner.tasks import Job, run_task

encoder = load_encoder("micro-clip")
scores = {}
for benchmark in resolve(sys.argv[2:]):
    data = benchmark.load("micro", DataRequest(limit=int(sys.argv[1]) or None))
    outcome = run_task(Job(encoder, benchmark, data))
    scores[benchmark.id] = [score.value for score in outcome.scores]
print(json.dumps(scores))
"""
RUN = [sys.executable, "-c", "from gate_runner.cli import main; main()", "run"]


def measured(command: list[str]) -> tuple[float, float, str]:
    """Processor seconds of the command and of all that it started, seconds by the clock, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.monotonic() - start, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["small"], help="packs or benchmarks")
    parser.add_argument("--limit", type=int, default=0, help="0 for the whole pack")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--isolate", nargs="+", default=["worker"], choices=["none", "worker", "benchmark"])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "overhead.json")
    options = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.repeats):
        spent, clock, message = measured([sys.executable, "-c", PLAIN, str(options.limit), *options.names])
        times.setdefault("plain", []).append((spent, clock))
        scores: dict[str, Any] = json.loads(message)
        for isolate in options.isolate:
            with tempfile.TemporaryDirectory() as folder:
                limit = ["--limit", str(options.limit)] if options.limit else []
                spent, clock, _ = measured([*RUN, *options.names, "--isolate", isolate, "--output", folder, *limit])
                records = [json.loads(path.read_text()) for path in (Path(folder) / "results").glob("*.json")]
            if {record["benchmark"]: [score["value"] for score in record["scores"]] for record in records} != scores:
                raise SystemExit("the scores differ: no figure is worth printing")
            times.setdefault(isolate, []).append((spent, clock))
        print(
            {name: [f"{a:.1f} s ({b:.1f} s by the clock)" for a, b in column] for name, column in times.items()},
            flush=True,
        )
    medians = {
        name: [statistics.median(column) for column in zip(*pairs, strict=True)] for name, pairs in times.items()
    }
    report = {
        "names": options.names,
        "limit": options.limit or None,
        "repeats": options.repeats,
        "processor_seconds": {name: median[0] for name, median in medians.items()},
        "clock_seconds": {name: median[1] for name, median in medians.items()},
        "overhead": {name: medians[name][0] / medians["plain"][0] - 1 for name in options.isolate},
        "overhead_by_the_clock": {name: medians[name][1] / medians["plain"][1] - 1 for name in options.isolate},
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {name: version(name) for name in ("gate-runner", "torch", "numpy")},
    }
    print(json.dumps(report, indent=2))
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

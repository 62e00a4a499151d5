"""Kills a run of the pack `small` with SIGKILL at random moments, and compares what it ends with.

First an undisturbed run; then the same command again and again, killed each time at a moment drawn between the end of
its start and the time that the rest takes, until it has been killed often enough; then once to its end. Fails where a
result differs in anything but seconds, energy and memory. Prints how much work was done twice: steps of training that
a run repeated, and batches that it encoded again.

    python packages/gate-runner/benchmarks/kills.py [--kills 20] [--limit 130] [--steps 60] [--encoder micro-clip]
    python packages/gate-runner/benchmarks/kills.py digits --tune full --kills 10   # inside the training of an encoder
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

RUN = """
import json, sys
from dataclasses import replace
from pathlib import Path
from gate_runner.benchmarks import resolve
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.observers import Observer
from gate_runner.settings import Settings

class Log(Observer):
    def started(self, name, seed): print(json.dumps([name, "start", 0]), flush=True)
    def progress(self, name, seed, phase, done, total): print(json.dumps([name, phase, done]), flush=True)
    def finished(self, result): print(json.dumps([result.name, result.status, 0]), flush=True)

limit, most, tune = int(sys.argv[3]) or None, int(sys.argv[4]), sys.argv[5]
small = resolve(sys.argv[6:])
fields = {"steps": most, "validate_every": max(1, most // 6), "batch_size": 8} if tune != "frozen" else {}
if most:
    shorter = {"steps": most, "validate_every": max(1, most // 6)}
    numbers = [{key: shorter.get(key, value) for key, value in one.training.items()} for one in small]
    small = [replace(one, training=training) for one, training in zip(small, numbers)]
run(RunRequest(small, sys.argv[1], Path(sys.argv[2]), Settings(limit=limit, isolate="worker", tune=tune,
    recipe_fields=fields)), Log())
"""
VARYING = ("seconds", "energy", "memory", "digest")


def start(encoder: str, folder: Path, limit: int, steps: int, how: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, encoder, str(folder), str(limit), str(steps), *how],
        stdout=subprocess.PIPE,
        text=True,
    )


def whole(
    encoder: str, folder: Path, limit: int, steps: int, how: list[str]
) -> tuple[float, list[tuple[str, str, int]]]:
    """Run to the end: seconds, and what was said."""
    begin = time.monotonic()
    process = start(encoder, folder, limit, steps, how)
    message, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run that nobody killed ended with {process.returncode}")
    return time.monotonic() - begin, [tuple(json.loads(line)) for line in message.splitlines()]


def results(folder: Path) -> dict[str, Any]:
    contents = {}
    for path in sorted((folder / "results").glob("*.json")):
        content = json.loads(path.read_text())
        contents[path.name] = {key: value for key, value in content.items() if key not in VARYING}
    return contents


def repeated(runs: list[list[tuple[str, str, int]]]) -> int:
    """The most steps of one training that one run did again, seen from what the runs before had said."""
    most, furthest = 0, {}
    for run in runs:
        first: dict[str, int] = {}
        for name, phase, done in run:
            if phase == "train":
                first.setdefault(name, done)
        for name, step in first.items():
            most = max(most, furthest.get(name, 0) - step + 1 if name in furthest else 0)
        for name, phase, done in run:
            if phase == "train":
                furthest[name] = max(furthest.get(name, 0), done)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["small"], help="packs or benchmarks")
    parser.add_argument("--tune", default="frozen", help="kill inside the training of an encoder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--limit", type=int, default=130, help="0 for the whole pack")
    parser.add_argument("--steps", type=int, default=60, help="of each training, 0 for the pack's own")
    parser.add_argument("--encoder", default="micro-clip")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "kills.json")
    options = parser.parse_args()
    rng, how = random.Random(options.seed), [options.tune, *options.names]
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, cut = Path(folder) / "undisturbed", Path(folder) / "killed"
        seconds, _ = whole(options.encoder, undisturbed, options.limit, options.steps, how)
        print(f"undisturbed: {seconds:.0f} s", flush=True)
        runs: list[list[tuple[str, str, int]]] = []
        in_this_folder = 0
        again = 0
        moments: dict[str, int] = {}
        while len(runs) < options.kills:
            process = start(options.encoder, cut, options.limit, options.steps, how)
            assert process.stdout is not None
            lines = [process.stdout.readline()]  # it has started computing
            listener = threading.Thread(target=lines.extend, args=(process.stdout,))
            listener.start()
            while options.tune != "frozen" and process.poll() is None and not any('"train"' in line for line in lines):
                time.sleep(0.01)
            timer = time.monotonic() + rng.uniform(0, 2 * seconds / options.kills)
            while time.monotonic() < timer and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is not None:
                print(f"it was over after {len(runs)} kills: starting another folder", flush=True)
                if results(cut) != results(undisturbed):
                    raise SystemExit("the results differ")
                again = max(again, repeated(runs[in_this_folder:]))
                cut, in_this_folder = Path(folder) / f"killed{len(runs)}", len(runs)
                continue
            process.send_signal(signal.SIGKILL)
            process.wait()
            listener.join()
            records = [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
            runs.append(records)
            phase = records[-1][1].partition(" ")[0]
            moments[phase] = moments.get(phase, 0) + 1
            time.sleep(0.5)  # its worker notices, and goes too
        _, records = whole(options.encoder, cut, options.limit, options.steps, how)
        runs.append(records)
        if results(cut) != results(undisturbed):
            raise SystemExit("the results differ")
        left = [
            path.name for path in cut.rglob("*") if path.is_file() and path.parent.name not in ("results", "samples")
        ]
        if left != ["manifest.json"]:
            raise SystemExit(f"files were left behind: {left}")
    report = {
        "encoder": options.encoder,
        "limit": options.limit,
        "steps": options.steps,
        "steps_between_validations": max(1, options.steps // 6) if options.steps else "the pack's own",
        "kills": options.kills,
        "killed_in": moments,
        "names": options.names,
        "tune": options.tune,
        "differing_results": 0,
        "undisturbed_seconds": seconds,
        "most_steps_repeated": max(again, repeated(runs[in_this_folder:])),
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "numpy")},
    }
    print(json.dumps(report, indent=2))
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

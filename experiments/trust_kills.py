"""A hundred kills, at start, in encoding, training and writing of every task type: each run ends with the same results.

    python experiments/trust_kills.py [--kills 100] [--limit 40]

For each task type one benchmark is run undisturbed. Then the same command runs in another folder, and is killed with
SIGKILL at its start, while it encodes, while it trains, before and after a file is put in its place, in turn; then it
runs to its end. Fails where a result or its outcomes differ in anything but seconds, energy and memory, or where
anything is left over. The result is written after each task type; `--go-on` leaves out those that the output already
has.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gate_runner
from gate_runner.benchmarks import BENCHMARKS, Benchmark
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.folder import read_samples
from gate_runner.runs.observers import Observer
from gate_runner.settings import Settings

RESULTS = Path(__file__).parent / "results"
MOMENTS = ("start", "encode", "train", "before writing", "after writing")
VARYING = ("seconds", "energy", "memory", "digest")


class Killer(Observer):
    """Ends this process at a moment; some moments never come in some task types."""

    def __init__(self, moment: str, after: int) -> None:
        self.moment, self.left = moment, after

    def _die(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def started(self, name: str, seed: int) -> None:
        """A part begins."""
        if self.moment == "start":
            self._die()

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """A step is over."""
        if self.moment in ("encode", "train") and phase.startswith(self.moment):
            self._die()

    def around_writing(self) -> None:
        """Put itself before or after every rename of a file."""
        real = os.replace

        def call(*arguments: Any, **options: Any) -> None:
            if self.moment == "before writing":
                self._die()
            real(*arguments, **options)
            if self.moment == "after writing":
                self._die()

        os.replace = call


FEW_SHOT = 130
"""Samples that a few-shot episode needs at least."""


def one_of_each() -> list[Benchmark]:
    """The first benchmark of each task type that can be made without files."""
    collected: dict[str, Benchmark] = {}
    for benchmark in BENCHMARKS.values():
        if any(source != "local" for source in benchmark.sources):
            numbers = {**benchmark.training}
            for key, most in (("steps", 8), ("validate_every", 3), ("episodes", 6), ("test_episodes", 6)):
                if key in numbers:
                    numbers[key] = min(int(numbers[key]), most)
            collected.setdefault(benchmark.task, replace(benchmark, training=numbers))
    return list(collected.values())


def child(benchmark: Benchmark, folder: Path, limit: int, killer: Killer | None) -> int:
    """Run a benchmark in a process of its own; how that ended."""
    most = max(limit, FEW_SHOT) if benchmark.task.startswith("few-shot") else limit
    pid = os.fork()
    if pid == 0:
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        watching = killer or Observer()
        if killer is not None:
            killer.around_writing()
        try:
            results = run(RunRequest([benchmark], "micro-clip/random", folder, Settings(limit=most)), watching)
        except BaseException:  # noqa: BLE001 - the parent sees the status
            os._exit(3)
        os._exit(0 if all(result.status == "ok" for result in results) else 4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(folder: Path) -> dict[str, Any]:
    """Results without what varies, outcomes, and the names of everything that lies there."""
    collected: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        if name.startswith("results/"):
            raw = json.loads(path.read_text())
            collected[name] = {key: value for key, value in raw.items() if key not in VARYING}
        elif name.startswith("samples/"):
            samples = read_samples(path)
            arrays = samples.to_arrays() if hasattr(samples, "to_arrays") else {"": samples}
            collected[name] = {key: np.asarray(value).tolist() for key, value in arrays.items()}
        else:
            collected[name] = None
    return collected


def keep(tasks: dict[str, dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What was done until now; written, if all task types are asked for."""
    moments: Counter[str] = Counter()
    for task in tasks.values():
        moments.update(task["kills"])
    result = {
        "kills": moments.total(),
        "moments": dict(moments),
        "other_results": sum(not task["same"] for task in tasks.values()),
        "limit": options.limit,
        "task_types": tasks,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    if not options.only:
        options.output.parent.mkdir(exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--only", default="", help="task types whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS / "trust_kills.json")
    parser.add_argument("--go-on", action="store_true", help="leave out task types that the output has already")
    options = parser.parse_args()
    benchmarks = [task for task in one_of_each() if options.only in task.task]
    with tempfile.TemporaryDirectory() as temporary:  # what this process has imported, its children need not
        gate_runner.run("digits", encoder="micro-clip/random", output=Path(temporary) / "run", limit=20, show=False)
    rng = np.random.default_rng(0)
    tasks: dict[str, dict[str, Any]] = {}
    if options.go_on and options.output.exists():
        tasks = {
            name: task for name, task in json.loads(options.output.read_text())["task_types"].items() if task["same"]
        }
    begun = time.process_time()
    turns = -(-options.kills // max(1, len(benchmarks)))
    with tempfile.TemporaryDirectory() as temporary:
        for benchmark in benchmarks:
            if sum(tasks.get(benchmark.task, {"kills": {}})["kills"].values()) >= turns:
                continue
            kills: Counter[str] = Counter()
            bad = 0
            undisturbed, folder = Path(temporary) / f"{benchmark.id}-whole", Path(temporary) / f"{benchmark.id}-killed"
            status = child(benchmark, undisturbed, options.limit, None)
            if status:
                tasks[benchmark.task] = {"kills": {}, "same": False}
                keep(tasks, options)
                print(f"{benchmark.task} ({benchmark.id}): undisturbed, it ended with {status}", flush=True)
                continue
            for turn in range(4 * turns):
                if kills.total() == turns:
                    break
                moment = MOMENTS[turn % len(MOMENTS)]
                most = {"start": 1, "encode": 3, "train": 6}.get(moment, 2)
                status = child(benchmark, folder, options.limit, Killer(moment, int(rng.integers(most))))
                if status == -signal.SIGKILL:
                    kills[moment] += 1
                elif status:
                    bad += 1
                    print(f"{benchmark.task}: after a kill it ended with {status}", flush=True)
                else:  # it was through before the moment came: begin again elsewhere
                    if content(folder) != content(undisturbed):
                        bad += 1
                        print(f"{benchmark.task}: a run that had been killed ended with another result", flush=True)
                    folder = folder.with_name(f"{folder.name}-")
            status = child(benchmark, folder, options.limit, None)
            same = status == 0 and content(folder) == content(undisturbed)
            if not same:
                bad += 1
                ours, theirs = (content(task) if task.exists() else {} for task in (folder, undisturbed))
                names = sorted({*ours} ^ {*theirs}) or [name for name in ours if ours[name] != theirs[name]]
                print(f"{benchmark.task}: ended with {status}; differs in {names}", flush=True)
            tasks[benchmark.task] = {"kills": dict(kills), "same": not bad}
            text = "ANOTHER RESULT" if bad else "the same result"
            print(f"{benchmark.task}: {kills.total()} kills, {text}", flush=True)
            keep(tasks, options)
    print(json.dumps(keep(tasks, options), indent=1))
    print(f"{time.process_time() - begun:.0f} s of this process", file=sys.stderr)
    return 0 if all(task["same"] for task in tasks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

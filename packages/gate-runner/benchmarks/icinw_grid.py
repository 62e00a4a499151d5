"""The whole sweep of `micro/icinw` by the command line: wall and processor seconds, units, and pictures encoded.

    python packages/gate-runner/benchmarks/icinw_grid.py [--limit 60] [-- further options of gate-runner run]

Runs the command that docs/icinw.md gives, into a new folder, and reads what it left: each unit's own seconds by what
was tuned and by images per class, the counter of encoded pictures, and the mean over data sets of every row of the
table. Loads before and after say what else the machine did.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.settings.axes import shots_in_words
from gate_runner.tasks.elevater.tables import Record, _start, records_of

GRID = (
    "--shots", "0,5,20,50,full", "--tune", "frozen,full", "--init", "random,language", "--setting", "projection=1p,2p",
    "--knowledge", "none,wiktionary,wordnet,gpt3,auto", "--seed", "0", "--seed", "1", "--seed", "2", "--workers", "2",
)  # fmt: skip


def main() -> None:
    """Run, read and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limit", type=int, help="samples of each split, for a try")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "icinw_grid.json")
    parser.add_argument("more", nargs="*", help="further options of gate-runner run")
    args = parser.parse_args()
    few = [] if args.limit is None else ["--limit", str(args.limit)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "grid"
        command = ["gate-runner", "run", "micro/icinw", *GRID, *few, *args.more]
        loads, began, before = [os.getloadavg()[0]], time.monotonic(), _processor()
        script = Path(sys.executable).with_name("gate-runner")
        subprocess.run([str(script), *command[1:], "--output", str(folder)], check=True)
        report = {
            "command": " ".join(command),
            "wall_seconds": round(time.monotonic() - began, 1),
            "processor_seconds": round(_processor() - before, 1),
            "processors": os.cpu_count(),
            "load": [*loads, os.getloadavg()[0]],
            **figures(folder),
            "versions": {name: version(name) for name in ("gate-runner", "vision-adapters", "torch", "numpy")},
        }
    args.output.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in ("wall_seconds", "processor_seconds", "units", "encoded")}))


def _processor() -> float:
    """Seconds of processor time of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(folder: Path) -> dict[str, Any]:
    """What a run folder says of its cells, its encoder's work and its scores."""
    results = read_run(folder).results
    records = records_of(results)
    kinds: dict[str, list[float]] = defaultdict(list)
    rows: dict[str, list[float]] = defaultdict(list)
    for record, result in zip(records, results, strict=True):
        if record.status == "ok" and not result.training["shared"]:
            kinds[f"{record.cell.tune}, {shots_in_words(record.cell.shots)}"].append(result.seconds["total"])
        if record.status == "ok" and record.value is not None and record.cell.knowledge in ("none", "auto"):
            rows[_row(record)].append(record.value)
    shared = sum(bool(result.training.get("shared")) for result in results)
    return {
        "units": {**Counter(record.status for record in records), "shared": shared},
        "computed": {
            kind: {"units": len(seconds), "seconds": round(sum(seconds), 1), "each": round(statistics.mean(seconds), 3)}
            for kind, seconds in sorted(kinds.items())
        },
        "encoded": sum(result.memory.get("encoded", 0) for result in results),
        "untrained_kept": _kept(results),
        "means": {row: round(100 * statistics.mean(values), 2) for row, values in sorted(rows.items())},
    }


def _row(record: Record) -> str:
    cell = record.cell
    start = _start(cell.shots, cell.init, cell.projection)
    return f"{shots_in_words(cell.shots)}, {cell.tune}, {start}, {cell.knowledge}"


def _kept(results: Sequence[Result]) -> dict[str, int]:
    """Of the computed trainings of the encoder, how many validation left at their start."""
    own = [result.training for result in results if result.status == "ok" and not result.training["shared"]]
    steps = [training["chosen"]["step"] for training in own if training["variant"]["tune"] == "full"]
    return {"trainings": len(steps), "left at the start": steps.count(0)}


if __name__ == "__main__":
    main()

"""How true the time is that a run says is left: ten commands, their estimates at each tenth against what came.

python benchmarks/time_left.py [--only NAME …] [--pictures FOLDER]

Each command runs as anybody's would, in this process, from an empty feature cache; what its display would say of the
time left is noted twice a second. At each tenth of the time from the start of the first part to the end, the estimate
that stood there is compared with the truth; an estimate that was not given is counted apart. Printed: for each command
the median error over its tenths and how many of the nine had an estimate; the median of these over all commands (at
most .3).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

import gate_runner
from gate_runner.runs.display import PlainDisplay
from gate_runner.runs.observers import Planned
from gate_runner.runs.results import Result

RESULTS = Path(__file__).parent / "results" / "time_left.json"


class Noting(PlainDisplay):
    """Notes when what was said, twice a second and with each result."""

    def __init__(self) -> None:
        super().__init__(Console(file=open(os.devnull, "w")))  # noqa: SIM115, PTH123 - nobody reads it
        self.begun_at = self.ended_at = 0.0
        self.notes: list[tuple[float, float | None]] = []

    def planned(self, parts: Sequence[Planned]) -> None:
        """The clock starts when the encoder is loaded."""
        super().planned(parts)
        self.begun_at = time.monotonic()

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Note what would be said now."""
        super().progress(name, seed, phase, done, total)
        if not self.notes or time.monotonic() - self.notes[-1][0] > 0.5:
            self.note()

    def finished(self, result: Result) -> None:
        """Note what is said with a result."""
        super().finished(result)
        self.note()

    def note(self) -> None:
        """What is left, as it would be said now."""
        self.notes.append((time.monotonic(), self.pace.left()))

    def closed(self, results: Sequence[Result]) -> None:
        """The clock stops."""
        super().closed(results)
        self.ended_at = time.monotonic()

    def tenths(self) -> list[tuple[float, float | None, float]]:
        """At each tenth: how far, what was said (counted down since), and the truth."""
        total = self.ended_at - self.begun_at
        rows: list[tuple[float, float | None, float]] = []
        for tenth in range(1, 10):
            at = self.begun_at + total * tenth / 10
            earlier = [note for note in self.notes if note[0] <= at]
            when, left = earlier[-1] if earlier else (at, None)
            rows.append((tenth / 10, None if left is None else max(0.0, left - (at - when)), self.ended_at - at))
        return rows


def class_folders(folder: Path) -> Path:
    """Digits as files of class folders."""
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images[:900], digits.target[:900], strict=True)):
        path = folder / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).resize((64, 64)).convert("RGB").save(path)
    return folder


def commands(pictures: Path) -> dict[str, dict[str, Any]]:
    """What is run, by what it is like on the command line."""
    return {
        "run digits": {"names": "digits"},
        "run micro/cifar100": {"names": "micro/cifar100"},
        "run digits faces micro/cifar100": {"names": ["digits", "faces", "micro/cifar100"]},
        "run digits --seed 0 1 2": {"names": "digits", "seeds": (0, 1, 2)},
        "run digits --readout auto": {"names": "digits", "readout": "auto"},
        "run digits@knn --encoder lite:0 --limit 300": {"names": "digits@knn", "encoder": "lite:0", "limit": 300},
        "run digits --encoder lite:0 --limit 300": {"names": "digits", "encoder": "lite:0", "limit": 300},
        "run micro/ade20k --limit 60": {"names": "micro/ade20k", "limit": 60},
        "adapt probe FOLDER --encoder lite:0 --limit 250": {"adapt": "probe", "encoder": "lite:0", "limit": 250},
        "adapt finetune FOLDER --tune last-block --encoder micro-clip --limit 150": {
            "adapt": "finetune",
            "encoder": "micro-clip",
            "tune": "last-block",
            "limit": 150,
        },
    }


def measure(how: dict[str, Any], pictures: Path, folder: Path) -> Noting:
    """Run a command and note."""
    os.environ["GATE_RUNNER_CACHE"] = str(folder / "cache")
    noting, options = Noting(), {**how, "output": folder / "run", "show": False}
    if "adapt" in options:
        gate_runner.adapt(pictures, options.pop("adapt"), observers=[noting], **options)
    else:
        gate_runner.run(options.pop("names"), observers=[noting], **options)
    return noting


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    pictures = options.pictures or class_folders(root / "pictures")
    past = json.loads(RESULTS.read_text())["commands"] if options.only and RESULTS.exists() else {}
    rows: dict[str, Any] = dict(past)
    for number, (name, how) in enumerate(commands(pictures).items()):
        if options.only and name not in options.only:
            continue
        noting = measure(how, pictures, root / str(number))
        tenths = noting.tenths()
        errors = [abs(left - truth) / truth for _, left, truth in tenths if left is not None]
        median = statistics.median(errors) if errors else None
        rows[name] = {"seconds": noting.ended_at - noting.begun_at, "said": len(errors), "median_error": median,
                      "tenths": tenths}  # fmt: skip
        print(f"{name}: {rows[name]['seconds']:.0f} s, median error {median}, said at {len(errors)} of 9", flush=True)
        for at, left, truth in tenths:
            print(f"  {at:.0%}: {'nothing' if left is None else f'{left:.1f} s'}, truth {truth:.1f} s")
        medians = [row["median_error"] for row in rows.values() if row["median_error"] is not None]
        report = {
            "median_error": statistics.median(medians) if medians else None,
            "said": sum(row["said"] for row in rows.values()) / (9 * len(rows)),
            "load": os.getloadavg()[0],
            "commands": rows,
        }
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    error = report["median_error"]
    print(f"median error over {len(rows)} commands: {error}, said at {report['said']:.0%} of tenths")


if __name__ == "__main__":
    main()

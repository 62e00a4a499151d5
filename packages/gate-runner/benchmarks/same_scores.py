"""Whether two versions of gate-runner give the pack `small` the same scores to the last digit, and what each takes.

Runs the pack in turn in both environments, several times. Prints every score that differs in value, interval or
chance, and the ratio of the medians of processor time (of the run and all its processes).

python benchmarks/same_scores.py --before OLD/bin/python [--after NEW/bin/python] [--times 3] [--packs small]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

Scores = dict[str, tuple[float, float, float, float]]


def scores(python: str, packs: list[str], folder: Path) -> tuple[float, Scores]:
    """Processor seconds of one run, and value, interval and chance of every score by benchmark and metric."""
    command = "from gate_runner.cli import main; main()"
    words = [python, "-W", "ignore", "-c", command, "run", *packs, "--output", str(folder)]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, cwd=folder.parent, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{python} failed; see above")
    found: Scores = {}
    for path in sorted((folder / "results").glob("*.json")):
        result = json.loads(path.read_text())
        for score in result["scores"]:
            name = f"{result['benchmark']} {score['metric']}"
            found[name] = tuple(score[key] for key in ("value", "low", "high", "chance"))
    return usage.ru_utime + usage.ru_stime, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", default=sys.executable)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--packs", nargs="+", default=["small"])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "same_scores.json")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"before": [], "after": []}
    first: dict[str, Scores] = {}
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.times):
            for which in ("before", "after"):
                took, found = scores(getattr(options, which), options.packs, Path(place) / f"{which}{number}")
                seconds[which].append(took)
                if found != first.setdefault(which, found):
                    raise SystemExit(f"{which}: two runs of one version differ")
                print(f"{which} {number}: {took:.1f} processor seconds", flush=True)
    names = sorted(first["before"].keys() | first["after"].keys())
    differing = {
        name: {which: first[which].get(name) for which in first}
        for name in names
        if first["before"].get(name) != first["after"].get(name)
    }
    medians = {which: statistics.median(taken) for which, taken in seconds.items()}
    both = [name for name in names if all(name in found for found in first.values())]
    report = {
        "packs": options.packs,
        "scores": len(first["before"]),
        "values that differ": [name for name in both if len({found[name][0] for found in first.values()}) > 1],
        "new scores": [name for name in names if name not in first["before"]],
        "differing": differing,
        "cpu_seconds": seconds,
        "ratio_of_medians": medians["after"] / medians["before"],
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }
    print(json.dumps(report, indent=1))
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

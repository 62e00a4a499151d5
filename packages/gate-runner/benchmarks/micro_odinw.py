"""The dense head on frozen patches over `micro/odinw`: a trained encoder, the same untrained, and chance.

Runs the pack in a fresh process for each encoder, prints the Markdown table of ``docs/odinw.md`` and what the runs
cost, and writes both as ``results/micro_odinw.json``. Chance is a detector that never looks, with its own interval.
Exit code 1 where the trained encoder is not above chance with disjoint intervals on all four sets, or not above the
untrained one on three.

python benchmarks/micro_odinw.py [--encoder micro-clip] [--untrained micro-clip/random] [--keep FOLDER]
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

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()", "run", "micro/odinw"]


def run(encoder: str, folder: Path) -> dict[str, Any]:
    """Wall and processor seconds, and each set's score."""
    start = time.perf_counter()
    process = subprocess.Popen([*COMMAND, "--encoder", encoder, "--output", str(folder)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the run of {encoder} failed")
    scores = {}
    for path in sorted((folder / "results").glob("*.json")):
        result = json.loads(path.read_text())
        score = result["scores"][0]
        scores[result["benchmark"]] = {
            **{name: score[name] for name in ("metric", "value", "low", "high", "chance")},
            "lr": result["training"]["lr"], "seconds": result["seconds"],
        }  # fmt: skip
    seconds = {"wall_seconds": time.perf_counter() - start, "cpu_seconds": usage.ru_utime + usage.ru_stime}
    return {"encoder": encoder, **seconds, "sets": scores}


def chance(name: str) -> dict[str, float]:
    """Boxes of each class's mean shape where training has its objects, scored as a detector is."""
    from gate_runner.benchmarks import DataRequest, find_benchmark
    from gate_runner.detection.scoring import guessed, judge

    data = find_benchmark(name).load("micro", DataRequest())
    truth = data.test.targets
    (score,) = judge(
        truth, guessed(data.train.targets, truth, len(data.classes)), None, data.classes, ("map",), 0
    ).scores
    return {"value": score.value, "low": score.low, "high": score.high}


def table(trained: dict[str, Any], untrained: dict[str, Any], blind: dict[str, dict[str, float]]) -> str:
    """As Markdown."""
    lines = ["| set | trained | untrained | chance |", "|---|---:|---:|---:|"]
    for name, score in trained["sets"].items():
        lines.append(
            f"| `{name}` | {in_words(score)} | {in_words(untrained['sets'][name])} | {in_words(blind[name])} |"
        )
    return "\n".join(lines)


def in_words(score: dict[str, Any]) -> str:
    """A value with its interval."""
    return f"{points(score['value'])} ({points(score['low'])}–{points(score['high'])})"


def points(share: float) -> str:
    """Without the zero before the point."""
    return f"{share:.3f}".removeprefix("0")


def main() -> None:
    """Run both, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="micro-clip")
    parser.add_argument("--untrained", default="micro-clip/random")
    parser.add_argument("--keep", type=Path, help="folder for the runs, for a report of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = options.keep or Path(directory)
        trained, untrained = (
            run(name, folder / str(at)) for at, name in enumerate((options.encoder, options.untrained))
        )
    blind = {name: chance(name) for name in trained["sets"]}
    above_chance = [name for name, score in trained["sets"].items() if score["low"] > blind[name]["high"]]
    above = [name for name, score in trained["sets"].items() if score["value"] > untrained["sets"][name]["value"]]
    apart = [name for name in above if trained["sets"][name]["low"] > untrained["sets"][name]["high"]]
    result = {
        "runs": [trained, untrained],
        "chance": blind, "above_chance": above_chance, "above_untrained": above, "intervals_apart": apart,
        "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
        "threads": os.environ.get("OMP_NUM_THREADS", "torch's own"), "torch": version("torch"),
    }  # fmt: skip
    path = Path(__file__).parent / "results" / "micro_odinw.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(table(trained, untrained, blind))
    for report in (trained, untrained):
        print(f"{report['encoder']}: {report['wall_seconds']:.0f} s, {report['cpu_seconds']:.0f} s of processor time")
    print(f"above chance on {len(above_chance)}, above untrained on {len(above)}, intervals apart on {len(apart)}")
    raise SystemExit(0 if len(above_chance) == 4 and len(above) >= 3 else 1)


if __name__ == "__main__":
    main()

"""Whether a change of gate-runner's shape left every score as it was, to the last digit.

Runs small cases of everything that gives a score: packs, real pictures, detection, ELEVATER's grid, compositional
suites, few-shot episodes, a folder of one's own, `adapt`; with a frozen and with a trained encoder, with three seeds.
Of every score it keeps value, interval, chance and the digest of the outcomes behind them.

python benchmarks/same_scores.py --record            # before a change: writes results/same_scores.json
python benchmarks/same_scores.py                     # after it: prints what differs; ends with 1 if something does
python benchmarks/same_scores.py --only digits grid  # some cases
python benchmarks/same_scores.py --only grid --record --because "folds by content"   # why a case differs, beside it
python benchmarks/same_scores.py --python OLD/bin/python --record   # of another environment

Sums differ in their last digits between processors: record and compare on one machine, with the same packages.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Scores = dict[str, Any]
"""Value, low, high and chance, and a digest of outcomes, by what was scored."""

SEEDS = ["--seed", "0", "--seed", "1", "--seed", "2"]
SHIPPED = ["--encoder", "micro-clip"]
RESULTS = Path(__file__).parent / "results" / "same_scores.json"

RUNS = {
    "small": ["small", *SEEDS, "--limit", "60", "--set", "steps=16", "--set", "validate_every=8"],
    "digits": ["real", *SEEDS, "--limit", "200"],
    "few-shot": ["mini-gate", "omniglot", *SEEDS, "--limit", "60"],
    "odinw": ["micro/odinw", "--limit", "24", "--set", "steps=20", "--set", "validate_every=10"],
    "compositional": ["micro/compositional", "--limit", "60"],
    "tuned-full": [
        *["digits", "acdc", "clevr-math", "--tune", "full", *SEEDS, "--limit", "40"],
        *["--set", "steps=4", "--set", "validate_every=2"],
    ],
    "tuned-lora": [
        *["digits", "acdc", "--tune", "lora", *SEEDS, "--limit", "40"],
        *["--set", "steps=4", "--set", "validate_every=2"],
    ],
    "grid": ["micro/icinw", "--shots", "0,5,full", "--init", "random,language", "--limit", "60"],
    "grid-projections": [
        "icinw-shapes",
        "--shots",
        "5",
        "--setting",
        "projection=1p,2p",
        "--setting",
        "probe=elevater",
        "--limit",
        "60",
    ],
    "grid-tuned": ["icinw-shapes", "--shots", "5", "--tune", "frozen,full", "--limit", "40", "--set", "steps=4"],
}
"""Arguments of ``gate-runner run`` by the case's name."""

OWN = {
    "own-run": ["run", "--data", "FOLDER", *SEEDS],
    "own-probe": ["adapt", "probe", "FOLDER", *SHIPPED],
    "own-probe-shots": ["adapt", "probe", "FOLDER", *SHIPPED, "--shots", "2", "--probe", "logistic"],
    "own-zeroshot": ["adapt", "zeroshot", "FOLDER"],
    "own-finetune": ["adapt", "finetune", "FOLDER", *SHIPPED, "--set", "steps=4", "--set", "batch_size=8"],
}
"""Whole commands on a folder of class folders, which is written first."""


def run_case(python: str, words: list[str], folder: Path) -> None:
    """Run one command of gate-runner to its end, with one compute thread."""
    command = [python, "-W", "ignore", "-c", "from gate_runner.cli import main; main()", *words]
    cache = folder / "caches" / words[-1].replace(os.sep, "-")  # what another case encoded was batched otherwise
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GATE_RUNNER_CACHE": str(cache)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def write_own_folder(folder: Path) -> None:
    """Three classes of 24 pictures: faintly coloured squares on noise, from fixed seeds."""
    import numpy as np
    from PIL import Image

    for label, colour in {"red": (220, 60, 50), "green": (60, 190, 80), "blue": (60, 80, 210)}.items():
        (folder / label).mkdir(parents=True)
        for number in range(24):
            generator = np.random.default_rng([number, *colour])
            pixels = generator.integers(0, 256, (48, 48, 3), dtype=np.uint8)
            top, left = generator.integers(4, 24, 2)
            blend = 0.07 * np.array(colour) + 0.93 * pixels[top : top + 20, left : left + 20]
            pixels[top : top + 20, left : left + 20] = blend.astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")


def stored_scores(folder: Path) -> Scores:
    """Every score of a run folder, by benchmark, variant, seed and metric."""
    scores: Scores = {}
    for path in sorted(folder.glob("results/**/*.json")):
        result = json.loads(path.read_text())
        if result["status"] == "failed":
            raise SystemExit(f"{path.name}: {result['reason']}")
        for score in result["scores"]:
            numbers = [score[key] for key in ("value", "low", "high", "chance")]
            scores[f"{path.stem} {score['metric']}"] = [*numbers, result["samples_sha256"]]
    return scores


def measured(python: str, only: list[str]) -> Iterator[tuple[str, Scores, float]]:
    """Each case with its scores and seconds."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        write_own_folder(path / "photos")
        commands = {case: ["run", *words] for case, words in RUNS.items()} | OWN
        for case, words in commands.items():
            if only and case not in only:
                continue
            started = time.perf_counter()
            target = path / case
            filled = ["photos" if word == "FOLDER" else word for word in words]
            run_case(python, [*filled, "--output", str(target)], path)
            scores, seconds = stored_scores(target), round(time.perf_counter() - started, 1)
            print(f"{case}: {len(scores)} scores, {seconds} s", flush=True)
            yield case, scores, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], choices=[*RUNS, *OWN])
    parser.add_argument("--file", type=Path, default=RESULTS)
    parser.add_argument("--because", help="with --record: why cases differ from what was recorded of them")
    options = parser.parse_args()
    if options.because and not options.record:
        parser.error("--because gives the reason of what is recorded: add --record")
    report: dict[str, Any] = {"scores": {}, "seconds": {}, "reasons": {}}
    if options.file.exists():  # each case stays until it is recorded again
        report |= json.loads(options.file.read_text())
    differing, count = [], 0
    for case, scores, seconds in measured(options.python, options.only):
        if options.record:  # each case at once; others stay as they were recorded
            if options.because and report["scores"].get(case) != json.loads(json.dumps(scores)):
                report["reasons"][case] = options.because
            report["scores"][case], report["seconds"][case] = scores, seconds
            cores, version = os.cpu_count(), platform.python_version()
            report["hardware"] = {"machine": platform.machine(), "cores": cores, "python": version}
            options.file.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
            continue
        recorded = report["scores"].get(case, {})
        count += len(scores)
        differing += [
            f"{case} {name}: {recorded.get(name)} is {scores.get(name)}"
            for name in sorted(recorded.keys() | scores.keys())
            if recorded.get(name) != json.loads(json.dumps(scores.get(name)))
        ]
    if options.record:
        return
    print("\n".join(differing))
    print(f"{count} scores, {len(differing)} differ")
    raise SystemExit(bool(differing))


if __name__ == "__main__":
    main()

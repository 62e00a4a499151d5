"""What `gate-runner run small` costs, and whether it tells a trained encoder from an untrained one.

Runs the pack in fresh processes with micro-clip and with the same architecture untrained, from several seeds; checks
first that a second run of three of them gives the same results; prints a table, and writes it as JSON with versions.

    python packages/gate-runner/benchmarks/small.py [--untrained 3] [--workers 2] [--output small.json]
    python packages/gate-runner/benchmarks/small.py --costs full base  # of whole packs; no scores

With ``--costs`` alone, packs run once, and what they took is kept beside the scores that the file has (of `small`), or
in small_packs.json (of others). The processor's time is of all processes and threads, the peak of the largest process.
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
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gate_runner.benchmarks.registry import PACKS

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()"]


VARYING = {"seconds", "energy", "memory", "digest"}
"""What two runs of the same need not share; the digest is of the file with them."""
AGAIN = ("acdc", "cifar100", "mini")
"""What is run twice: a trained transformer, a linear head and prototypes."""


def pack(
    encoder: str, folder: Path, names: Sequence[str] = ("small",), workers: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one run cost, by the clock and by the processor, and its results; no features are kept from before."""
    how = [] if workers is None else ["--workers", str(workers)]
    command = [*COMMAND, "run", *names, "--encoder", encoder, "--output", str(folder), *how]
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, "GATE_RUNNER_CACHE": cache})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"the run of {encoder} failed")
    results = {}
    for path in sorted((folder / "results").glob("*.json")):
        result = json.loads(path.read_text())
        results[result["benchmark"]] = {key: value for key, value in result.items() if key not in VARYING}
    spent = {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_gb": usage.ru_maxrss / 1e6}
    return spent, results


def costs(names: Sequence[str], workers: int | None) -> None:
    """What whole packs take, and each benchmark's share, into their file."""
    for name in names:
        path = Path(__file__).parent / "results" / ("small.json" if name == "small" else "small_packs.json")
        report, load = json.loads(path.read_text()), os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder:
            spent, results = pack("micro-clip", Path(folder), [name], workers)
            stored = [json.loads(file.read_text()) for file in Path(folder, "results").glob("*.json")]
        lost = [benchmark for benchmark in PACKS[name] if results.get(benchmark, {}).get("status") != "ok"]
        if lost:
            raise SystemExit(f"{name}: without a score: {lost}")
        shares = {result["benchmark"]: round(result["seconds"]["total"], 1) for result in stored}
        spent |= {"workers": workers, "load": load, "seconds_of": shares}
        if name == "small":
            before = {row["benchmark"]: row["value"] for row in report["rows"]}
            spent["same_scores"] = before == {result["name"]: result["scores"][0]["value"] for result in stored}
            report |= spent
        else:
            report["packs"][name] = {"benchmarks": len(results), **spent}
        print(name, json.dumps(spent), flush=True)
        path.write_text(json.dumps(report, indent=2) + "\n")


def ratio_of_help(repeats: int = 9) -> float:
    """Median time of ``--help`` over the median of ``import typer``, taken alternating."""

    def seconds(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return time.perf_counter() - start

    pairs = [(seconds([*COMMAND, "--help"]), seconds([sys.executable, "-c", "import typer"])) for _ in range(repeats)]
    ours, typers = (statistics.median(column) for column in zip(*pairs, strict=True))
    return ours / typers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--untrained", type=int, default=3, help="seeds of untrained weights")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "small.json")
    parser.add_argument("--workers", type=int, help="benchmarks at the same time, of the run that is timed")
    parser.add_argument("--costs", nargs="+", metavar="PACK", help="time these packs, and compute no other scores")
    options = parser.parse_args()
    if options.costs:
        costs(options.costs, options.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        spent, trained = pack("micro-clip", Path(folder) / "trained", workers=options.workers)
        again = pack("micro-clip", Path(folder) / "again", AGAIN)[1]
        if again != {name: trained[name] for name in AGAIN}:
            raise SystemExit("two runs of one seed differ: no figure is worth printing")
        untrained = [
            pack(f"micro-clip/random:{seed}", Path(folder) / str(seed))[1] for seed in range(options.untrained)
        ]
    rows = []
    for name, result in trained.items():
        score = result["scores"][0]
        random_scores = [run[name]["scores"][0]["value"] for run in untrained]
        best = max(random_scores) if score["direction"] == "higher" else min(random_scores)
        sign = 1 if score["direction"] == "higher" else -1
        bound = score["low"] if sign == 1 else score["high"]
        rows.append(
            {"benchmark": f"micro/{name}", **score, "untrained": random_scores, "beats": sign * (bound - best) > 0}
        )
    print(
        f"{'benchmark':<18}{'metric':<10}{'micro-clip':>11}  {'95 % interval':<17}{'untrained':>10}{'chance':>8}  beats"
    )
    for row in rows:
        print(
            f"{row['benchmark']:<18}{row['metric']:<10}{row['value']:>11.3f}  "
            f"({row['low']:.3f}, {row['high']:.3f})   "
            f"{statistics.mean(row['untrained']):>10.3f}{row['chance']:>8.3f}  {'yes' if row['beats'] else 'no'}"
        )
    report = {
        "rows": rows,
        "beats": sum(row["beats"] for row in rows),
        **spent,
        "help_over_import_typer": ratio_of_help(),
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "open_clip_torch", "numpy")},
    }
    print(f"better than every untrained start, interval and all, on {report['beats']} of {len(rows)}")
    cost = f"{spent['seconds']:.0f} s, {spent['cpu_seconds']:.0f} s of the processor, peak {spent['peak_gb']:.2f} GB"
    print(f"{cost}; --help takes {report['help_over_import_typer']:.2f} x import typer")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

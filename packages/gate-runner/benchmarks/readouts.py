"""What choosing the read-out gives and costs: `auto` against the last layer and against the oracle that sees the test.

python benchmarks/readouts.py                                  # shipped encoders, lite:0 to lite:2
python benchmarks/readouts.py --pictures FOLDER --limit 200    # and on a folder of class folders
python benchmarks/readouts.py --encoders micro-clip --only digits --add   # beside the cells that the file has


Of each encoder and benchmark: the plain run, the run that chooses, and every read-out scored on the test split, whose
best is the oracle. Times are this process's processor time, each from an empty feature cache; differences are paired.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gate_runner
from gate_runner.comparison import paired_test
from gate_runner.runs.stored import read_run
from gate_runner.tasks.registry import find_task_type

RESULTS = Path(__file__).parent / "results" / "readouts.json"
ENCODERS = ["micro-clip", "lite:0", "lite:1", "lite:2"]
BENCHMARKS = ["digits", "faces", "micro/cifar100"]
WITHOUT_PROBE = ["digits@knn", "digits@image-retrieval", "digits@clustering"]


def cell(name: str, encoder: str, limit: int, folder: Path) -> dict[str, Any]:
    """One encoder on one benchmark."""
    spent = {}
    for readout in ("last", "auto", "all"):
        if readout != "all":  # what every read-out scores is not timed, and may have what was encoded
            os.environ["GATE_RUNNER_CACHE"] = str(folder / f"cache-{readout}")
        start = time.process_time()
        done = gate_runner.run(
            name, encoder=encoder, readout=readout, limit=limit, output=folder / "run", show=False, isolate="none"
        )
        spent[readout] = time.process_time() - start
        if done.failed:
            return {"benchmark": name, "encoder": encoder, "failed": done.failed[0].reason}
    stored = read_run(folder / "run")
    results = {result.name.partition("readout=")[2] or "last": result for result in stored.results}
    last, auto = results["last"], results["auto"]
    score = last.scores[0]
    sign = 1 if score.direction == "higher" else -1
    test = paired_test(
        score.metric,
        [stored.outcomes(last)],
        [stored.outcomes(auto)],
        permutations=999,
        statistic=find_task_type(last.task).statistic(score.metric),
    )
    tested = [row[score.metric] for row in results["all"].training["readout"]["tested"]]
    ends = sorted((sign * test.low, sign * test.high))
    return {
        "benchmark": name,
        "encoder": encoder,
        "metric": score.metric,
        "last": score.value,
        "auto": auto.scores[0].value,
        "oracle": max(tested) if sign > 0 else min(tested),
        "chosen": auto.training["readout"]["chosen"],
        "gain": sign * test.difference,
        "low": ends[0],
        "high": ends[1],
        "cpu": spent,
        "ratio": spent["auto"] / spent["last"],
    }


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """What the cells say together."""
    scored = [row for row in cells if "failed" not in row]
    plain, chosen = (sum(row["cpu"][readout] for row in scored) for readout in ("last", "auto"))
    return {
        "cells": len(scored),
        "above_by_interval": sum(row["low"] > 0 for row in scored),
        "below_by_interval": sum(row["high"] < 0 for row in scored),
        "mean_gain_points": 100 * statistics.fmean(row["gain"] for row in scored),
        "mean_below_oracle_points": 100 * statistics.fmean(row["oracle"] - row["auto"] for row in scored),
        "median_cpu_ratio": statistics.median(row["ratio"] for row in scored),
        "cpu_ratio_of_all": chosen / plain,
    }


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    parser.add_argument("--only", nargs="+", default=[*BENCHMARKS, *WITHOUT_PROBE])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--add", action="store_true", help="keep the cells of other encoders and benchmarks")
    options = parser.parse_args()
    names = list(options.only)
    root = Path(tempfile.mkdtemp())
    if options.pictures is not None:
        from gate_data.own import guess, values_at, write_benchmark

        file = root / "pictures.toml"
        write_benchmark(values_at(guess(options.pictures).values, options.pictures.resolve(), root), file)
        names.append(str(file))
    cells: list[dict[str, Any]] = json.loads(RESULTS.read_text())["cells"] if options.add and RESULTS.exists() else []
    for encoder in options.encoders:
        warm = {"encoder": encoder, "limit": 20, "output": root / f"warm-{len(cells)}", "show": False}
        gate_runner.run("digits", readout=("last", "auto"), **warm)  # imports and first calls are nobody's
        for number, name in enumerate(names):
            folder = root / f"{encoder.replace(':', '').replace('/', '-')}-{number}"
            row = cell(name, encoder, options.limit, folder)
            if name.endswith(".toml"):
                row["benchmark"] = f"{options.pictures.name} (class folders)" if options.pictures else name
            unit = row["benchmark"], encoder
            cells = [*(past for past in cells if (past["benchmark"], past["encoder"]) != unit), row]
            print(json.dumps(row), flush=True)
            report = {
                "summary": summary(cells),
                "cells": cells,
                "limit": options.limit,
                "machine": {"processor": platform.processor(), "system": platform.platform(), "threads": 1},
            }
            RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary(cells), indent=1))


if __name__ == "__main__":
    main()

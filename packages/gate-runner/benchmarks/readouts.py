"""What choosing the read-out gives and costs: `auto` against the last layer and against the oracle that sees the test.

python benchmarks/readouts.py --pictures FOLDER          # shipped encoders, lite:0 to lite:2; and class folders
python benchmarks/readouts.py --encoders micro-clip --only digits --add    # beside the cells that the file has
python benchmarks/readouts.py --costs                    # processor time of `auto` against the plain run's
python benchmarks/readouts.py --unseen images_background_small1.zip --add  # on data that the rule was not chosen on

Of each encoder and benchmark: the plain run, the run that chooses, and every read-out scored on the test split, whose
best is the oracle; differences are paired. These three share what was encoded (the plain run reads the last output of
encoders without a projection from it, which is the same numbers). Costs are this process's processor time, each from
an empty feature cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import gate_runner
from gate_data.own import guess, values_at, write_benchmark
from gate_runner.runs.stored import read_run
from gate_runner.tasks.registry import find_task_type
from paired_scores.paired import paired_test

RESULTS = Path(__file__).parent / "results" / "readouts.json"
ENCODERS = ["micro-clip", "lite:0", "lite:1", "lite:2"]
BENCHMARKS = ["digits", "faces", "micro/cifar100"]
UNSEEN = ["mnist5000", "micro/imagenet1k"]
"""With Omniglot's characters: the rule of `auto` was chosen on cells of digits, faces, shapes and CIFAR-10 alone."""
WITHOUT_PROBE = ["digits@knn", "digits@image-retrieval", "digits@clustering"]


def omniglot_folders(archive: Path, folder: Path, characters: int = 30) -> Path:
    """Class folders of Omniglot's first characters, twenty drawings of each."""
    target = folder / "omniglot"
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(name for name in opened.namelist() if name.endswith(".png")):
            alphabet, character, file = name.split("/")[1:]
            label = target / f"{alphabet}-{character}"
            if not label.is_dir() and target.is_dir() and len(list(target.iterdir())) == characters:
                break
            label.mkdir(parents=True, exist_ok=True)
            (label / file).write_bytes(opened.read(name))
    return target


def cell(name: str, encoder: str, limit: int, folder: Path) -> dict[str, Any]:
    """One encoder on one benchmark."""
    how: dict[str, Any] = {
        "encoder": encoder,
        "limit": limit,
        "output": folder / "run",
        "show": False,
        "isolate": "none",
    }
    by_projection = encoder == "micro-clip" or name.endswith(".toml") or "@" in name
    done = {
        "last": gate_runner.run(name if by_projection else f"{name}@readout=last", **how),
        "auto": gate_runner.run(name, **how, readout="auto"),
        "all": gate_runner.run(name, **how, readout="all"),
    }
    failed = [run.failed[0].reason for run in done.values() if run.failed]
    if failed:
        return {"benchmark": name, "encoder": encoder, "failed": failed[0]}
    stored = read_run(folder / "run")
    last, auto, every = (done[readout].results[0] for readout in ("last", "auto", "all"))
    score = last.scores[0]
    sign = 1 if score.direction == "higher" else -1
    test = paired_test(
        score.metric,
        [stored.outcomes(last)],
        [stored.outcomes(auto)],
        permutations=999,
        statistic=find_task_type(last.task).statistic(score.metric),
    )
    tested = [row[score.metric] for row in every.training["readout"]["tested"]]
    ends = sorted((sign * test.low, sign * test.high))
    return {
        "benchmark": name,
        "encoder": encoder,
        "metric": score.metric,
        "tested": auto.data["test"],
        "last": score.value,
        "auto": auto.scores[0].value,
        "oracle": max(tested) if sign > 0 else min(tested),
        "chosen": auto.training["readout"]["chosen"],
        "gain": sign * test.difference,
        "low": ends[0],
        "high": ends[1],
    }


def cost(name: str, encoder: str, limit: int, folder: Path) -> dict[str, Any]:
    """Processor seconds of the plain run and of the one that chooses, each from an empty feature cache."""
    spent = {}
    for readout in ("last", "auto"):
        os.environ["GATE_RUNNER_CACHE"] = str(folder / f"cache-{readout}")
        start = time.process_time()
        gate_runner.run(
            name, encoder=encoder, readout=readout, limit=limit, output=folder / "run", show=False, isolate="none"
        )
        spent[readout] = time.process_time() - start
    return {"benchmark": name, "encoder": encoder, "cpu": spent, "ratio": spent["auto"] / spent["last"]}


def summary(cells: list[dict[str, Any]], costs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the cells say together, with a head and without one."""
    scored = [row for row in cells if "failed" not in row]
    report: dict[str, Any] = {}
    for kind, rows in (
        ("probes", [row for row in scored if "@" not in row["benchmark"] and not row.get("unseen")]),
        ("unseen", [row for row in scored if row.get("unseen")]),
        ("without_probe", [row for row in scored if "@" in row["benchmark"]]),
    ):
        if rows:
            report[kind] = {
                "cells": len(rows),
                "above_by_interval": sum(row["low"] > 0 for row in rows),
                "below_by_interval": sum(row["high"] < 0 for row in rows),
                "mean_gain_points": 100 * statistics.fmean(row["gain"] for row in rows),
                "mean_below_oracle_points": 100 * statistics.fmean(abs(row["oracle"] - row["auto"]) for row in rows),
            }
    if costs:
        plain, chosen = (sum(row["cpu"][readout] for row in costs) for readout in ("last", "auto"))
        report["costs"] = {
            "cells": len(costs),
            "median_cpu_ratio": statistics.median(row["ratio"] for row in costs),
            "cpu_ratio_of_all": chosen / plain,
        }
    return report


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    parser.add_argument("--only", nargs="+", default=[*BENCHMARKS, *WITHOUT_PROBE])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument(
        "--unseen", type=Path, metavar="ZIP", help="data that chose nothing, and Omniglot's of this file"
    )
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--add", action="store_true", help="keep the cells of other encoders and benchmarks")
    parser.add_argument("--costs", action="store_true", help="processor time in place of scores")
    options = parser.parse_args()
    names = list(options.only) if options.unseen is None else UNSEEN
    root = Path(tempfile.mkdtemp())
    folders = [] if options.pictures is None else [options.pictures]
    folders += [] if options.unseen is None else [omniglot_folders(options.unseen, root)]
    for folder in folders:
        file = root / f"{folder.name}.toml"
        write_benchmark(values_at(guess(folder).values, folder.resolve(), root), file)
        names = [*names, str(file)]
    past = json.loads(RESULTS.read_text()) if options.add and RESULTS.exists() else {}
    kinds: dict[str, list[dict[str, Any]]] = {kind: list(past.get(kind, [])) for kind in ("cells", "costs")}
    measure, kind = (cost, "costs") if options.costs else (cell, "cells")
    for encoder in options.encoders:
        if options.costs:  # imports and first calls are nobody's
            gate_runner.run("digits", encoder=encoder, readout="last,auto", limit=20, output=root / encoder, show=False)
        for number, name in enumerate(names):
            folder = root / f"{encoder.replace(':', '').replace('/', '-')}-{number}"
            row = measure(name, encoder, options.limit, folder)
            if name.endswith(".toml"):
                row["benchmark"] = f"{Path(name).stem} (class folders)"
            row |= {"limit": options.limit, **({} if options.unseen is None else {"unseen": True})}
            unit = row["benchmark"], encoder
            kinds[kind] = [
                *(old for old in kinds[kind] if (old["benchmark"], old["encoder"]) != unit),
                row,
            ]
            print(json.dumps(row), flush=True)
            machine = {"processor": platform.processor(), "system": platform.platform(), "threads": 1}
            report = {"summary": summary(**kinds), **kinds, "machine": machine}
            RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary(**kinds), indent=1))


if __name__ == "__main__":
    main()

"""Scores of the encoders that can be had without a model hub, on real data sets, for the page of results.

    python experiments/real_sets.py [FOLDER] [--encoder SPEC …] [--limit 1000]

scikit-learn's digits, its MNIST sample and faces come with the packages. FOLDER adds sets of its own, each a subfolder
with the `benchmark.toml` that `gate-runner new` writes, and `omniglot/` with the two files of Lake et al.'s small
background sets. The rows of the encoders that are named replace those of the same name; the others stay, so that a
reader with weights and a GPU adds rows: `--encoder open_clip:ViT-B-32/FILE`. Each set's test split is scored by a head
on frozen features, trained and chosen on its own training and validation splits. At most `--limit` samples of each
split count; intervals are 95 %. Runs lie in runs-real/ and continue where they ended. Writes results/real_sets.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import gate_runner

RESULTS = Path(__file__).parent / "results" / "real_sets.json"
BUILT_IN = ("digits", "mnist5000", "faces")
ENCODERS = ("micro-clip/random", "micro-clip", "lite:0/random", "lite:0", "lite:1", "lite:2")


def sets_of(folder: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name or path of each benchmark, and what its run needs beside it."""
    for name in BUILT_IN:
        yield name, {}
    if folder is not None:
        if (folder / "omniglot").is_dir():
            yield "omniglot", {"data_root": folder}
        for table in sorted(folder.glob("*/benchmark.toml")):
            yield str(table), {}


def rows_of(spec: str, folder: Path | None, limit: int) -> Iterator[dict[str, Any]]:
    """One row for each set: its headline metric with interval and chance, or why there is none."""
    for name, options in sets_of(folder):
        output = Path("runs-real") / f"{spec}-{Path(name).parent.name or name}".replace(":", "-").replace("/", "-")
        done = gate_runner.run(name, encoder=spec, output=output, limit=limit, **options)
        for result in done:
            row: dict[str, Any] = {"set": result.benchmark, "task": result.task, "encoder": spec, "limit": limit}
            row["gpu"] = torch.cuda.is_available()
            if result.status == "ok":
                score = result.scores[0]
                row |= {key: result.data[key] for key in ("train", "test") if key in result.data}
                row |= {"metric": score.metric, "direction": score.direction, "score": round(score.value, 4)}
                row |= {"low": score.low, "high": score.high, "chance": score.chance}
                row = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
            else:
                row["reason"] = result.reason
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--encoder", action="append", dest="encoders")
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    for spec in options.encoders or ENCODERS:
        before = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
        rows = list(rows_of(spec, options.folder, options.limit))
        done = {(row["set"], row["encoder"]) for row in rows}
        rows = [row for row in before if (row["set"], row["encoder"]) not in done] + rows
        machine = {"processor": platform.machine(), "torch": torch.__version__}
        RESULTS.write_text(json.dumps({"last run": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

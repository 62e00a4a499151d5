"""Whether three encoders keep their order from one seed to the next, on real digits and real Omniglot.

micro-clip and two untrained timm models are scored on scikit-learn's digits and on Omniglot's own zip files. A seed
stands for the heads, the batches and the episodes, and for the weights of the untrained models. An order is said to be
firm where a paired test over all seeds tells each encoder from the next.

    python packages/gate-runner/benchmarks/ranking.py FOLDER_WITH_OMNIGLOT [--limit 300] [--output ranking.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gate_runner import run
from gate_runner.runs.folder import RunFolder, read_samples
from paired_scores.paired import paired_test

ENCODERS = ("micro-clip", "timm:resnet10t/random", "timm:vit_tiny_patch16_224/random")
BENCHMARKS = ("digits", "omniglot")
SEEDS = (0, 1, 2)


def scored(encoder: str, root: Path, limit: int, folder: Path) -> dict[str, list[tuple[float, np.ndarray]]]:
    """Of each benchmark, for each seed: the headline and the outcomes of the test samples."""
    collected: dict[str, list[tuple[float, np.ndarray]]] = {name: [] for name in BENCHMARKS}
    for seed in SEEDS:
        spec = f"{encoder}:{seed}" if encoder.endswith("random") else encoder
        output = folder / f"{encoder.replace('/', '-').replace(':', '-')}-{seed}"
        done = run(
            list(BENCHMARKS), encoder=spec, output=output, data_root=root, limit=limit, seeds=(seed,), show=False
        )
        for result in done:
            if result.headline is None:
                raise SystemExit(f"{spec} on {result.name}: {result.reason}")
            outcomes = read_samples(RunFolder(output).samples_file(result.name, seed))
            print(f"{spec} on {result.name}: {result.headline.value:.3f}", flush=True)
            collected[result.name].append((result.headline.value, outcomes))
    return collected


def main() -> None:
    """Print and keep the orders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Under which omniglot/ holds the original zip files.")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        by_encoder = {encoder: scored(encoder, args.folder, args.limit, Path(folder)) for encoder in ENCODERS}
    report: dict[str, Any] = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "timm")},
        "limit": args.limit,
        "seeds": list(SEEDS),
        "benchmarks": {},
    }
    means = {encoder: [float(np.mean([by_benchmark[name][at][0] for name in BENCHMARKS])) for at, _ in enumerate(SEEDS)]
             for encoder, by_benchmark in by_encoder.items()}  # fmt: skip
    for name in (*BENCHMARKS, "mean"):
        values = (
            means
            if name == "mean"
            else {encoder: [v for v, _ in by_benchmark[name]] for encoder, by_benchmark in by_encoder.items()}
        )
        orders = [sorted(ENCODERS, key=lambda encoder, at=at: -values[encoder][at]) for at, _ in enumerate(SEEDS)]  # type: ignore[misc]
        row: dict[str, Any] = {
            "values": {encoder: [round(value, 4) for value in own] for encoder, own in values.items()},
            "orders": orders,
            "same": all(order == orders[0] for order in orders),
        }
        if name != "mean":
            row["p"] = {
                f"{first} above {second}": paired_test(
                    "accuracy" if name == "omniglot" else "acc@1",
                    *([outcomes for _, outcomes in by_encoder[encoder][name]] for encoder in (second, first)),
                ).p
                for first, second in pairwise(orders[0])
            }
        report["benchmarks"][name] = row
        print(f"{name}: {'the same order' if row['same'] else 'ORDERS DIFFER'} on {len(SEEDS)} seeds")
        for encoder in orders[0]:
            print(f"  {encoder:36}", " ".join(f"{value:.3f}" for value in values[encoder]))
        for pair, p in row.get("p", {}).items():
            print(f"  {pair}: p {p:.3g}")
    if args.output:
        args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Train the encoder or only a head? GATE's small pack, stand-ins, by mode: scores, intervals and time.

    python experiments/tuning_table.py --output FOLDER
    python experiments/tuning_table.py --output FOLDER --columns frozen full --seeds 0 2
    python experiments/tuning_table.py --output FOLDER --columns        # nothing is run: the table of what is there

micro-clip frozen, with low-rank updates, with its last block trained, and trained whole; and trained whole from the
start: its own shape with random weights, and an untrained ResNet-18 of timm's at 64 pixels. The recipe is `quick`.
FOLDER holds a run folder for each column, so that what was broken off goes on, and columns and seeds may be run at the
same time.

A cell is the mean over its seeds. Its interval is the mean of the seeds' bootstrap intervals over test samples. `full`
is set beside `frozen` by `gate-runner compare`, on the same test samples and seeds, with Holm's correction over the
benchmarks. Writes results/tuning_table.json and results/tuning_table.md, where each seed's figures are kept: seeds and
columns of another folder, or machine, are added to those that are there, and FOLDER's own replace them. Cells that were
not run are empty, and each says of how many seeds it is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from gate_runner.api import run
from gate_runner.comparison import compare
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.loading import load_encoder

RESULTS = Path(__file__).parent / "results"
SIDE = 64
SMALL = ("imagenet1k", "cifar100", "clevr-math", "iwildcam", "mini", "cubirds", "ade20k", "acdc")
"""GATE's small pack, in the order in which it is run here."""


def resnet18() -> Encoder:
    """Timm's ResNet-18 with random weights, which takes the stand-ins' 64 pixels as they are."""
    return replace(load_encoder("timm:resnet18/random:0"), spec="timm:resnet18/random:0 at 64 px", image_size=SIDE)


COLUMNS: dict[str, tuple[str | Any, str]] = {
    "frozen": ("micro-clip", "frozen"),
    "full": ("micro-clip", "full"),
    "lora": ("micro-clip", "lora"),
    "last-block": ("micro-clip", "last-block"),
    "untrained-full": ("micro-clip/random:0", "full"),
    "resnet18-full": (resnet18, "full"),
}


def finished(folder: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Results by column and benchmark, each with its seeds in order."""
    collected: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for column in COLUMNS:
        for path in sorted((folder / column / "results").glob("*.json")):
            result = json.loads(path.read_text())
            if result["status"] == "ok":
                collected.setdefault((column, result["name"]), []).append(result)
    return collected


def row(result: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one seed."""
    head, training = result["scores"][0], result["training"]
    return {
        "seed": result["seed"], "metric": head["metric"], **{key: head[key] for key in ("value", "low", "high")},
        "seconds": result["seconds"]["total"], "validation": training.get("validation", []),
    }  # fmt: skip


def earlier_table(path: Path) -> tuple[dict[str, dict[int, dict[str, Any]]], dict[str, Any]]:
    """What an earlier table holds: rows by column and stand-in, and seed; and its comparisons."""
    if not path.is_file():
        return {}, {}
    record = json.loads(path.read_text())
    return {name: {row["seed"]: row for row in rows} for name, rows in record["rows"].items()}, record[
        "full against frozen"
    ]


def contrasts(folder: Path, runs: dict[tuple[str, str], list[dict[str, Any]]]) -> dict[str, Any]:
    """Full against frozen where both have the same seeds, by the runner's own comparison."""
    same = [
        name
        for column, name in runs
        if column == "full"
        and [contrast["seed"] for contrast in runs["full", name]]
        == [contrast["seed"] for contrast in runs.get(("frozen", name), [])]
    ]
    if not same:
        return {}
    compared = compare(folder / "frozen", folder / "full", only=same)
    return {
        contrast.name: {"gain": contrast.gain, "low": contrast.test.low, "high": contrast.test.high,
                   "p": contrast.p_adjusted,
                   "verdict": contrast.verdict, "seeds": list(contrast.seeds)}
        for contrast in compared.contrasts
    }  # fmt: skip


def write(folder: Path, limit: int | None) -> None:
    path = RESULTS / "tuning_table.json"
    rows, against = earlier_table(path)
    runs = finished(folder)
    for (column, name), results in runs.items():
        rows.setdefault(f"{column} {name}", {}).update({result["seed"]: row(result) for result in results})
    against |= contrasts(folder, runs)
    ordered = {key: [result for _, result in sorted(seeds.items())] for key, seeds in sorted(rows.items())}
    report = {
        "recipe": "quick", "limit": limit, "full against frozen": against, "cores": os.cpu_count(), "rows": ordered,
    }  # fmt: skip
    path.write_text(json.dumps(report, indent=1) + "\n")
    columns = [column for column in COLUMNS if any(key.split()[0] == column for key in rows)]
    lines = [
        "| stand-in | metric | " + " | ".join(columns) + " | full less frozen |",
        "|---" * (len(columns) + 3) + "|",
    ]
    for name in sorted({key.split()[1] for key in rows}):
        cells = {column: list(rows.get(f"{column} {name}", {}).values()) for column in columns}
        metric = next(own[0]["metric"] for own in cells.values() if own)
        fields = [name, metric + (", lower is better" if metric == "mae" else "")]
        for own in cells.values():
            if not own:
                fields.append("")
                continue
            value, low, high, seconds = (
                statistics.fmean(result[key] for result in own) for key in ("value", "low", "high", "seconds")
            )
            fields.append(f"{value:.3f} ({low:.3f}-{high:.3f}), {seconds:.0f} s, n={len(own)}")
        contrast = against.get(name)
        fields.append(f"{contrast['verdict']} by {contrast['gain']:+.3f}, p {contrast['p']:.4f}" if contrast else "")
        lines.append("| " + " | ".join(fields) + " |")
    (RESULTS / "tuning_table.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of the run folders")
    parser.add_argument("--columns", nargs="*", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--benchmarks", nargs="+", choices=SMALL, default=list(SMALL))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=int, help="at most so many samples of each split")
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.benchmarks:
            for column in options.columns:
                encoder, tune = COLUMNS[column]
                run(f"micro/{name}", encoder=encoder() if callable(encoder) else encoder, tune=tune, seeds=[seed],
                    output=options.output / column, limit=options.limit, device="cpu")  # fmt: skip
                write(options.output, options.limit)
    write(options.output, options.limit)


if __name__ == "__main__":
    main()

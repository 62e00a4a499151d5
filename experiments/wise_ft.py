"""What fine-tuning on a shifted set gains and forgets, and what mixing with the start gives back (WiSE-FT).

    python experiments/wise_ft.py --output FOLDER
    python experiments/wise_ft.py --output FOLDER --seeds 1

micro-clip is trained whole, by 150 steps of the recipe `quick`, on the pictures of micro/cifar100 as grey pictures: the
same 32 materials and shapes without their colours. Its head starts at the class prompts. Before, after, and at ten
shares of the trained weights, class prompts are scored on what micro-clip knew: the same pictures in colour, and
micro/imagenet1k. Each seed is trained twice, to the same weights: once the share that validates best is tested, once
the middle. Writes results/wise_ft.json, .md and .svg, means over the seeds with the smallest and the largest; FOLDER
holds the run folders, so that what was broken off goes on.
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

import torch

from gate_data.data import Data, Split
from gate_data.request import DataRequest
from gate_runner.api import run
from gate_runner.benchmarks import BENCHMARKS

RESULTS = Path(__file__).parent / "results"
KEPT = ("cifar100", "imagenet1k")
_GREY = torch.tensor([0.299, 0.587, 0.114])


def greys(request: DataRequest) -> Data:
    """The pictures of micro/cifar100 without their colours."""
    data = BENCHMARKS["cifar100"].load("micro", request)

    def shifted(split: Split) -> Split:
        assert isinstance(split.images, torch.Tensor)
        grey = (split.images.float() * _GREY[:, None, None]).sum(1, keepdim=True)
        return replace(split, images=grey.round().byte().expand(-1, 3, -1, -1).contiguous())

    return replace(data, train=shifted(data.train), validation=shifted(data.validation), test=shifted(data.test))


GREYS = replace(
    BENCHMARKS["cifar100"], id="greys", title="Grey pictures of the stand-in of CIFAR-100",
    sources={"micro": f"{__name__}:greys"},
)  # fmt: skip


def trained(folder: Path, seeds: int, limit: int | None) -> dict[str, list[dict[str, Any]]]:
    """Results' ``training`` and scores, by what was tested, one for each seed."""
    collected: dict[str, list[dict[str, Any]]] = {"best": [], "half": []}
    for seed in range(seeds):
        for name, share in (("best", "best"), ("half", 0.5)):
            run(GREYS, encoder="micro-clip", tune="full", seeds=[seed], output=folder / name, limit=limit,
                recipe_fields={"steps": 150}, device="cpu", keep_zero_shot=KEPT, wise_ft=share)  # fmt: skip
            path = next((folder / name / "results").glob(f"*greys.seed{seed}.json"))
            result = json.loads(path.read_text())
            if result["status"] != "ok":
                raise SystemExit(result["reason"])
            collected[name].append(result)
    return collected


def spread(values: list[float]) -> dict[str, float]:
    return {"mean": statistics.fmean(values), "low": min(values), "high": max(values)}


def curve_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each share: validation on the grey pictures, and zero-shot on what was kept, over the seeds."""
    curves = [result["training"]["wise_ft"]["curve"] for result in results]
    return [
        {
            "share": rows[0]["share"],
            "validation": spread([row["validation"] for row in rows]),
            "kept": {name: spread([row["zero_shot"][name] for row in rows]) for name in rows[0]["zero_shot"]},
            "mean of kept": spread([statistics.fmean(row["zero_shot"].values()) for row in rows]),
        }
        for rows in zip(*curves, strict=True)
    ]


def table(runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Gain and loss by seed: paired changes against the class prompts before, with 95 % intervals."""
    lines = ["| seed | tested | share | scored on | before | after | change | 95 % interval |", "|---" * 8 + "|"]
    for name, results in runs.items():
        for result in results:
            share = result["training"]["wise_ft"]["share"]
            for on, row in (
                ("the grey pictures", result["training"]["gained"]),
                *((row["benchmark"], row) for row in result["training"]["zero_shot"]),
            ):
                interval = f"{row['low']:+.3f} to {row['high']:+.3f}"
                lines.append(
                    f"| {result['seed']} | {name} | {share:g} | {on} | {row['before']:.3f} | {row['after']:.3f} "
                    f"| {row['change']:+.3f} | {interval} |"
                )
    return [line.replace("-0.", "−0.") for line in lines]


def draw(curve: list[dict[str, Any]], chosen: float, path: Path) -> None:
    """Validation on the grey pictures over zero-shot on the others, a point for each share; bars span the seeds."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "wise_ft"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.2, 3.6), layout="constrained")
    x, y = [row["mean of kept"] for row in curve], [row["validation"] for row in curve]
    bars = {
        f"{axis}err": [[p["mean"] - p["low"] for p in points], [p["high"] - p["mean"] for p in points]]
        for axis, points in (("x", x), ("y", y))
    }
    axes.errorbar(
        [p["mean"] for p in x], [p["mean"] for p in y], **bars, marker="o", markersize=4, linewidth=1, capsize=2
    )
    for row, across, up in zip(curve, x, y, strict=True):
        if row["share"] in (0.0, 0.5, 1.0, chosen):
            axes.annotate(
                f"{row['share']:g}", (across["mean"], up["mean"]), textcoords="offset points", xytext=(6, -12)
            )
    axes.set_xlabel("class prompts on what was known: mean accuracy of two sets")
    axes.set_ylabel("grey pictures: validation accuracy")
    axes.set_title("Share of the trained weights, 0 to 1", fontsize=10)
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of the run folders")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="at most so many samples of each split")
    options = parser.parse_args()
    runs = trained(options.output, options.seeds, options.limit)
    curve = curve_of(runs["best"])
    shares = [result["training"]["wise_ft"]["share"] for result in runs["best"]]
    report = {
        "recipe": runs["best"][0]["training"]["recipe"],
        "limit": options.limit,
        "seeds": options.seeds,
        "chosen": shares,
        "curve": curve,
        "tested": {
            name: [{"seed": result["seed"], "gained": result["training"]["gained"],
                    "zero_shot": result["training"]["zero_shot"],
                    "score": result["scores"][0]} for result in results]
            for name, results in runs.items()
        },
    }  # fmt: skip
    (RESULTS / "wise_ft.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "wise_ft.md").write_text("\n".join(table(runs)) + "\n")
    draw(curve, statistics.median(shares), RESULTS / "wise_ft.svg")
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()

"""Slices and clusters on simulated outcomes: family-wise error, coverage of the worst slice, coverage with cameras.

Each draw has six slices of 250 to 500 right or wrong answers. Null draws have one accuracy in all slices; an error is
any slice whose adjusted p is at most 0.05. The worst slice's interval should cover its accuracy in 95 % of draws,
however the accuracies differ; "own" is the slice's interval as if nobody had chosen it. Cameras have accuracies of
their own (log-odds with the named standard deviation around 1.2): intervals should cover the mean over all cameras.

    python packages/gate-runner/benchmarks/slices.py [--draws 1000]
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

from paired_scores.clusters import cluster_interval
from paired_scores.metrics import wilson
from paired_scores.slices import slice_scores

RESULTS = Path(__file__).parent / "results" / "slices.json"
SIZES = (250, 300, 350, 400, 450, 500)
TRUTHS = {
    "equal": (0.8,) * 6,
    "one is worse": (0.75, *(0.8,) * 5),
    "one is much worse": (0.6, *(0.8,) * 5),
    "spread": (0.6, 0.66, 0.72, 0.78, 0.84, 0.9),
}


def of_slices(truths: tuple[float, ...], draws: int, rng: np.random.Generator) -> dict[str, float]:
    """How often the worst slice's interval and its own cover, and how often a slice differs significantly."""
    true = np.array(truths)
    labels = np.repeat([str(at) for at in range(len(SIZES))], SIZES)
    covered = own = significant = 0
    for draw in range(draws):
        right = (rng.random(len(labels)) < np.repeat(true, SIZES)).astype(float)
        parts = slice_scores("acc@1", right, labels, permutations=999 if len(set(truths)) == 1 else 1, seed=draw)
        row = parts.rows[int(parts.worst)]
        worst = true[int(parts.worst)]
        assert None not in (parts.low, parts.high, row.low, row.high)
        covered += parts.low <= worst <= parts.high
        own += row.low <= worst <= row.high
        significant += min(row.p_adjusted or 1.0 for row in parts.rows) <= 0.05
    result = {"worst_slice_covers": covered / draws, "own_interval_covers": own / draws}
    return {**result, "family_wise_error": significant / draws} if len(set(truths)) == 1 else result


def of_cameras(cameras: int, images: int, spread: float, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """How often intervals cover the mean over cameras."""

    def accuracy(count: int) -> np.ndarray:
        shares: np.ndarray = 1 / (1 + np.exp(-(1.2 + spread * rng.normal(size=count))))
        return shares

    true, clustered, plain = accuracy(1_000_000).mean(), 0, 0
    for draw in range(draws):
        sizes = rng.poisson(images, cameras) + 1
        right = (rng.random(sizes.sum()) < np.repeat(accuracy(cameras), sizes)).astype(float)
        labels = np.repeat(np.arange(cameras), sizes).tolist()
        value, low, high = cluster_interval("acc@1", right, labels, resamples=1000, seed=draw)
        clustered += low <= true <= high
        low, high = wilson(value, len(right))
        plain += low <= true <= high
    return {"cluster_interval_covers": clustered / draws, "plain_interval_covers": plain / draws}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    rng = np.random.default_rng(0)
    result: dict[str, Any] = {"draws": draws, "slices": {}, "cameras": {}}
    for cameras, images, spread in ((12, 40, 0.5), (20, 25, 0.6), (40, 50, 0.5)):
        name = f"{cameras} cameras, {images} images each, spread {spread}"
        result["cameras"][name] = of_cameras(cameras, images, spread, draws, rng)
        print(name, result["cameras"][name], flush=True)
    for name, truths in TRUTHS.items():
        result["slices"][name] = of_slices(truths, draws, rng)
        print(name, result["slices"][name], flush=True)
    result["machine"] = {"python": platform.python_version(), "numpy": np.__version__}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

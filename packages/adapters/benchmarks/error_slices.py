"""Exploratory slices on 1,000 null draws and on planted ones: how often one is called worse.

Null: features say nothing of right and wrong (accuracy 0.7). Planted: a fifth of the samples lies apart, and is right
in 0.4 instead of 0.85. A slice holds if it scores worse on the half that was not searched, at 5 % after Holm.

    python packages/adapters/benchmarks/error_slices.py
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np

from vision_adapters.error_slices import error_slices

RESULTS = Path(__file__).parent / "results" / "error_slices.json"
DRAWS, PLANTED, SAMPLES, WIDTH = 1_000, 200, 200, 16


def main() -> None:
    rng = np.random.default_rng(0)
    null = [
        any(
            part.holds for part in error_slices(rng.normal(size=(SAMPLES, WIDTH)), rng.random(SAMPLES) < 0.7, seed=draw)
        )
        for draw in range(DRAWS)
    ]
    recovered = []
    for draw in range(PLANTED):
        rows, apart = rng.normal(size=(2 * SAMPLES, WIDTH)), np.arange(2 * SAMPLES) < 2 * SAMPLES // 5
        rows[apart] += 4 * np.eye(WIDTH)[0]
        hits = rng.random(2 * SAMPLES) < np.where(apart, 0.4, 0.85)
        worse = [part for part in error_slices(rows, hits, seed=draw) if part.holds]
        recovered.append(any(apart[list(part.members)].mean() > 0.5 for part in worse))
    result = {
        "null draws": DRAWS,
        "samples": SAMPLES,
        "family_wise_error": float(np.mean(null)),
        "planted draws": PLANTED,
        "planted samples": 2 * SAMPLES,
        "found": float(np.mean(recovered)),
        "machine": {"python": platform.python_version(), "numpy": np.__version__},
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

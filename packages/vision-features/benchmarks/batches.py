"""What a batch takes on a CPU when a model is given all of it, or parts of it, and whether the features are the same.

The control is the whole batch, of 128 images. Times are of the processor, over all threads, taken alternating in one
process; what is written is the median of the ratios to the control of the same round, and their range.

    python packages/vision-features/benchmarks/batches.py [--rounds 7] [--threads 1] [--output batches.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vision_features import load_encoder
from vision_features.features import at_once

ENCODERS = ("micro-clip", "lite:0")
BATCH, PARTS = 128, (8, 16, 32, 64)


def spent(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Seconds of the processor, and what came out."""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def row(spec: str, threads: int, rounds: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    encoder = load_encoder(spec)
    side = encoder.image_size
    pixels = torch.randint(
        0, 256, (BATCH, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )

    def features(size: int) -> Tensor:
        return torch.cat([encoder.encode_image(part) for part in torch.split(pixels, size)])

    features(PARTS[0])
    ratios: dict[int, list[float]] = {size: [] for size in PARTS}
    equal, whole_seconds = dict.fromkeys(PARTS, True), []
    for _ in range(rounds):
        whole, expected = spent(lambda: features(BATCH))
        whole_seconds.append(whole)
        for size in PARTS:
            seconds, result = spent(lambda size=size: features(size))  # type: ignore[misc]
            ratios[size].append(seconds / whole)
            equal[size] &= torch.equal(result, expected)
    parts = [
        {
            "images": size, "ratio": round(statistics.median(ratios[size]), 3), "low": round(min(ratios[size]), 3),
            "high": round(max(ratios[size]), 3), "equal": equal[size],
        }
        for size in PARTS
    ]  # fmt: skip
    record = {
        "encoder": spec, "threads": threads, "at_once": at_once(BATCH, "cpu"),
        "whole_ms_an_image": round(1e3 * statistics.median(whole_seconds) / BATCH, 3), "parts": parts,
    }  # fmt: skip
    print(json.dumps(record), flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows = [row(spec, threads, options.rounds) for threads in options.threads for spec in ENCODERS]
    record = {
        "batch": BATCH, "rounds": options.rounds, "rows": rows,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {name: version(name) for name in ("vision-features", "torch", "timm")},
    }  # fmt: skip
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

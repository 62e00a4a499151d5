"""Memory and time of a frozen run on features larger than what is held in memory: 20,000 images x 256 patches x 384.

Images and encoder are made up, and cheap, so that what is measured is the runner's own handling of features: files of
rows, the scale in parts, batches from the memory map. Checks first that a training on stored rows gives the very
validations of one in memory. The ratio of times is taken on as many images as fit into memory both ways.

python benchmarks/features.py [--images 20000] [--fit 3000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIDE, WIDTH = 16, 384


def run(images: int, text: str, steps: int) -> dict[str, object]:
    import torch

    from gate_data.data import Data, Split
    from gate_runner.benchmarks import BENCHMARKS, Benchmark
    from gate_runner.machine.resources import PeakMemory
    from gate_runner.tasks import Job, run_task
    from vision_features.encoders.encoder import Encoder, PatchFeatures
    from vision_features.features import FeatureCache

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    project = torch.randn(3, WIDTH, generator=generator)

    def places(pixels: torch.Tensor) -> PatchFeatures:
        return PatchFeatures(pixels.flatten(2).transpose(1, 2) @ project, (SIDE, SIDE))

    encoder = Encoder("made-up", SIDE, lambda pixels: places(pixels).tokens.mean(1), patches=places)

    def split(count: int) -> Split:
        pixels = torch.randint(0, 256, (count, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)
        return Split(pixels, (pixels[:, 0] > 127).to(torch.int16))

    base = BENCHMARKS["ade20k"]
    training = {**base.training, "steps": steps, "validate_every": steps}
    benchmark = Benchmark("made-up", "made up", base.task, base.metrics, {}, training)
    data = Data(split(images), split(64), split(64), ("dark", "light"))
    with tempfile.TemporaryDirectory() as folder:
        store = FeatureCache(None) if text == "memory" else FeatureCache(Path(folder), in_memory=0)
        memory, start, cpu = PeakMemory(), time.perf_counter(), time.process_time()
        outcome = run_task(Job(encoder, benchmark, data, features=store))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "images": images, "kept": store.placed["train"], "steps": steps, "seconds": seconds, "cpu_seconds": cpu,
        "peak_bytes": memory.read().get("peak_bytes"), "validation": list(outcome.training["validation"]),
    }  # fmt: skip


def in_a_process(*words: object) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    print({name: value for name, value in record.items() if name != "validation"}, flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--fit", type=int, default=3_000)
    parser.add_argument("--one", nargs=3)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(int(args.one[0]), args.one[1], int(args.one[2]))))
        return
    in_memory, from_disk = in_a_process(200, "memory", 10), in_a_process(200, "disk", 10)
    close = [
        abs(a["miou"] - b["miou"]) < 0.02 for a, b in zip(in_memory["validation"], from_disk["validation"], strict=True)
    ]
    assert all(close), (in_memory, from_disk)
    pairs = [(in_a_process(args.fit, "memory", 40), in_a_process(args.fit, "disk", 40)) for _ in range(2)]
    ratios = sorted(b["cpu_seconds"] / a["cpu_seconds"] for a, b in pairs)
    whole = in_a_process(args.images, "disk", 40)
    result = {
        "hardware": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "whole": whole, "pairs": pairs, "cpu_ratio_disk_to_memory": ratios,
        "peak_gigabytes": whole["peak_bytes"] / 1e9, "feature_gigabytes": args.images * SIDE * SIDE * WIDTH * 4 / 1e9,
    }  # fmt: skip
    path = Path(__file__).parent / "results" / "features.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print({name: result[name] for name in ("cpu_ratio_disk_to_memory", "peak_gigabytes", "feature_gigabytes")})


if __name__ == "__main__":
    main()

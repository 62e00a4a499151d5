"""How long a training step waits for its batch: JPEGs decoded and augmented by two workers, ResNet-18 at 224 px.

Checks first that the batches are those of no workers. Prints where the time of a step goes.

python benchmarks/workers.py [--steps 12] [--batch-size 16]   (needs timm and Pillow)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vision_adapters.rows import Draw, SampleRows
from vision_adapters.training.step import batch_indices


class Augmented:
    """RandAugment as GATE's code has it, on 500 x 375 JPEGs cut to 224 px."""

    def __init__(self, files: list[Path]) -> None:
        from timm.data.auto_augment import rand_augment_transform

        self.files = files
        self.augment = rand_augment_transform("rand-m9-n3-mstd0.5-inc1", {"translate_const": 100})

    def __call__(self, index: int, generator: torch.Generator | None) -> torch.Tensor:
        """One sample."""
        with Image.open(self.files[index]) as opened:
            opened.draft("RGB", (448, 448))
            image: Any = opened.convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
        if generator is not None:
            seed = int(torch.randint(2**31, (1,), generator=generator))
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - timm draws from the global generators
            image = self.augment(image)
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def main() -> None:
    import timm

    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in range(64):
            coarse = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8))
            path = Path(folder) / f"{number}.jpg"
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
            files.append(path)
        make = Augmented(files)
        draws = [Draw(0, step, batch_indices(64, args.batch_size, step, 0)) for step in range(1, args.steps + 1)]
        start = time.process_time()
        alone = list(SampleRows(make, 64).stream(draws[:2]))
        decoding = (time.process_time() - start) / 2
        for expected, actual in zip(alone, SampleRows(make, 64, workers=2).stream(draws[:2]), strict=True):
            assert torch.equal(expected, actual)
        model = timm.create_model("resnet18", num_classes=10)
        optimiser = torch.optim.AdamW(model.parameters())
        targets = torch.arange(args.batch_size) % 10
        waits, steps = [], []
        stream = SampleRows(make, 64, workers=2).stream(draws)
        now = time.perf_counter()
        for batch in stream:
            arrived = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(batch.float() / 255), targets)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            waits.append(arrived - now)
            now = time.perf_counter()
            steps.append(now - arrived)
    share = sum(waits[1:]) / (sum(waits[1:]) + sum(steps[1:]))  # the first wait is the workers' start
    result = {
        "hardware": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
        "batch_size": args.batch_size, "decode_and_augment_cpu_seconds_per_batch": decoding,
        "median_step_seconds": statistics.median(steps[1:]), "median_wait_seconds": statistics.median(waits[1:]),
        "first_wait_seconds": waits[0], "waiting_share": share,
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    (Path(__file__).parent / "results" / "workers.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Whether `adapt predict` over a folder costs more than the encoder itself.

Writes JPEG pictures, and fits a head. Then, alternating over parts of the pictures: the encoder and the head on batches
whose pixels are in memory, and `Head.predict` over the files, which reads them while the encoder works. Predictions of
both are compared first. Prints the ratio of the parts' medians, and that of processor time; more than 1.15 is more than
was wanted of the first.

    python packages/gate-runner/benchmarks/predicting.py [--pictures 10000] [--side 224] [--parts 10]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import gate_runner
from gate_data.pictures import Pictures
from vision_features.heads import Head, load_head

BATCH = 64


def pictures(folder: Path, count: int, side: int) -> list[str]:
    """JPEG files of smooth noise, which compresses like photographs."""
    draw, files = np.random.default_rng(0), []
    folder.mkdir()
    for number in range(count):
        small = draw.integers(0, 255, (side // 8, side // 8, 3), np.uint8)
        files.append(str(folder / f"{number}.jpg"))
        Image.fromarray(small).resize((side, side)).save(files[-1], quality=90)
    return files


def adapted(folder: Path, side: int) -> Head:
    """A head of ten classes on a few pictures."""
    for name in range(10):
        pictures(folder / str(name), 4, side)
    gate_runner.adapt(folder, encoder="micro-clip", save=folder.parent / "head", output=folder.parent / "run")
    return load_head(folder.parent / "head", device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "predicting.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "train").mkdir()
        head = adapted(Path(name) / "train", options.side)
        files = pictures(Path(name) / "new", options.pictures, options.side)
        pixels = Pictures.of(files[:BATCH], head.encoder.image_size)[:]
        expected = head.scores(pixels).softmax(dim=1).max(dim=1)
        prediction = list(head.predict(files[:BATCH], batch_size=BATCH))
        assert [row.classes[0] for row in prediction] == [head.classes[index] for index in expected.indices.tolist()]
        probabilities = torch.tensor([row.probabilities[0] for row in prediction])
        torch.testing.assert_close(probabilities, expected.values.cpu(), atol=1e-5, rtol=0)
        seconds: dict[str, list[float]] = {"encoder": [], "predict": []}
        processor: dict[str, list[float]] = {"encoder": [], "predict": []}

        def timed(name: str, work: Callable[[], object]) -> None:
            start, used = time.perf_counter(), time.process_time()
            work()
            seconds[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - used)

        size = -(-len(files) // options.parts)
        for first in range(0, len(files), size):
            part = files[first : first + size]
            batches = [min(BATCH, len(part) - at) for at in range(0, len(part), BATCH)]
            timed("encoder", lambda batches=batches: [head.scores(pixels[:count]) for count in batches])
            failed: list[str] = []
            timed(
                "predict",
                lambda part=part, failed=failed: failed.extend(
                    filter(None, (row.error for row in head.predict(part, batch_size=BATCH)))
                ),
            )
            assert not failed
    medians = {name: statistics.median(second) for name, second in seconds.items()}
    ratio = medians["predict"] / medians["encoder"]
    of_processor = sum(processor["predict"]) / sum(processor["encoder"])
    print(
        f"{options.pictures:,} pictures of {options.side} px in {options.parts} parts: "
        f"encoder {medians['encoder']:.2f} s a part, predict {medians['predict']:.2f} s, "
        f"ratio {ratio:.2f} (at most 1.15 was wanted); of processor time {of_processor:.2f}"
    )
    report = {
        "pictures": options.pictures,
        "side": options.side,
        "seconds": seconds,
        "ratio": ratio,
        "processor_seconds": processor,
        "processor_ratio": of_processor,
        "hardware": {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "load": os.getloadavg()[0],
        },
        "versions": {package: version(package) for package in ("gate-runner", "torch", "pillow", "numpy")},
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Red and blue squares in noise, none to four in each image: where they are is the question."""

from __future__ import annotations

import numpy as np
import torch

from gate_data.data import Data, Split
from gate_data.ragged import Ragged
from gate_runner.benchmarks import Benchmark, DataRequest

_CLASSES = ("red", "blue")
_SIDE = 32
_EMPTY = {"boxes": np.zeros((0, 4), np.float32), "label": np.zeros(0, np.int64)}

SQUARES = Benchmark(
    id="squares",
    title="Where the squares are",
    task="quarters",
    metrics=("ap50",),
    sources={"micro": "gate_stripes.squares:load"},
    training={"lr": 1e-2, "steps": 200, "batch_size": 64, "validate_every": 100},
    cost=4.0,
)


def load(request: DataRequest) -> Data[Ragged]:
    """Three splits, the same on every machine."""
    train, validation, test = (_split(request.cap(count), seed) for seed, count in enumerate((400, 80, 120)))
    return Data(train, validation, test, _CLASSES, "synthetic stand-in")


def _split(count: int, seed: int) -> Split[Ragged]:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(90, 150, (count, 3, _SIDE, _SIDE), dtype=np.uint8)
    samples = []
    for image in pixels:
        boxes, labels = [], []
        for quarter in range(4):
            if rng.random() < 0.4:
                side, label = int(rng.integers(12, 15)), int(rng.integers(2))
                left, top = (int(rng.integers(0, 17 - side)) + 16 * cell for cell in (quarter % 2, quarter // 2))
                image[:, top : top + side, left : left + side] //= 4
                image[2 * label, top : top + side, left : left + side] = 240
                boxes.append((left, top, left + side, top + side))
                labels.append(label)
        samples.append({"boxes": np.array(boxes, np.float32).reshape(-1, 4), "label": np.array(labels, np.int64)})
    return Split(torch.from_numpy(pixels), Ragged.of(samples, _EMPTY))

"""Stripes that run across, down or along a diagonal, in noise."""

from __future__ import annotations

import torch

from gate_data.data import Data, Split
from gate_runner.benchmarks import Benchmark, DataRequest

_CLASSES = ("across", "down", "diagonal")

STRIPES = Benchmark(
    id="stripes",
    title="Direction of stripes",
    task="image-classification",
    metrics=("acc@1",),
    sources={"micro": "gate_stripes.benchmark:load"},
    training={"lr": 1e-2, "steps": 40, "batch_size": 32, "validate_every": 20},
    cost=2.0,
)


def load(request: DataRequest) -> Data:
    """Three splits, the same on every machine."""
    splits = [_split(request.cap(count), seed) for seed, count in enumerate((120, 60, 90))]
    return Data(*splits, _CLASSES, "synthetic stand-in")


def _split(count: int, seed: int) -> Split:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(count) % len(_CLASSES)
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    coordinate = torch.stack([rows, columns, (rows + columns) / 2])[targets]
    phase = 6.3 * torch.rand(count, 1, 1, generator=generator)
    grey = 0.5 + 0.3 * torch.sin(coordinate * 1.2 + phase) + 0.1 * torch.randn(count, 32, 32, generator=generator)
    pixels = grey.clamp(0, 1).mul(255).round().byte()
    return Split(pixels[:, None].expand(-1, 3, -1, -1), targets)

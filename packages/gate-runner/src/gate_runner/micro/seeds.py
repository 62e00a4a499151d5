"""Which seeds the stand-ins use. All lie below 100,000; micro-clip was trained on seeds from 1,000,000 on."""

from __future__ import annotations

from typing import Literal

SplitName = Literal["train", "validation", "test"]

SEEDS = {
    "acdc": 1000,
    "ade20k": 2000,
    "cifar100": 3000,
    "clevr-math": 4000,
    "cubirds": 5000,
    "imagenet1k": 6000,
    "iwildcam": 7000,
    "mini": 8000,
    "pairs": 10_000,
    "oven": 11_000,
}
"""First seed of each stand-in; its three splits use this one and the next two."""

NOTE = "synthetic stand-in"


def split_seed(benchmark: str, split: SplitName) -> int:
    """The seed of one split of one stand-in.

    Example:
        >>> split_seed("mini", "test")
        8002
    """
    return SEEDS[benchmark] + ("train", "validation", "test").index(split)

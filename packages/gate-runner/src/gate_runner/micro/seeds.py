"""Which seeds the stand-ins use. All lie below 100,000; micro-clip was trained on seeds from 1,000,000 on."""

from __future__ import annotations

from gate_data.request import SplitName

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
    "food101": 12_000,
    "happy": 13_000,
    "places365": 14_000,
    "aircraft": 15_000,
    "dtextures": 16_000,
    "fungi": 17_000,
    "omniglot": 18_000,
    "vgg": 19_000,
    "cityscapes": 20_000,
    "coco-10k": 21_000,
    "coco-164k": 22_000,
    "nyu": 23_000,
    "pascal": 24_000,
    "chexpert": 25_000,
    "diabetic": 26_000,
    "ham10k": 27_000,
    "clevr": 28_000,
    "flickr30k": 29_000,
    "nycc": 30_000,
    "winoground": 31_000,
    "hmdb51": 32_000,
    "kinetics": 33_000,
    "ucf": 34_000,
    "compositional": 35_000,
    "odinw-shapes": 60_000,
    "odinw-colours": 61_000,
    "odinw-lot": 62_000,
    "odinw-stars": 63_000,
    "icinw-makers": 50_000,
    "icinw-things": 51_000,
    "icinw-textures": 52_000,
    "icinw-counting": 53_000,
    "icinw-colours": 54_000,
    "icinw-shapes": 55_000,
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

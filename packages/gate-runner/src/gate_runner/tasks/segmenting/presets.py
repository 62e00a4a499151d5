"""The settings under which zero-shot segmentation is scored, by name: each published method's own, and the encoder's.

Papers that print one table differ in side, window, stride, scale, words and threshold. A variant of patch features is
compared with others under one preset, a paper under its own. Figures are those of the published code, by its commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gate_runner.errors import unknown

SETS = ("voc21", "context60", "coco-object", "voc20", "pascal", "coco-164k", "cityscapes", "ade20k")
"""The eight sets of the published tables; the first three have a background."""
LONGEST = 2048
"""Pixels of an image's longer side, at most, in every published code."""


@dataclass(frozen=True)
class Preset:
    """How images are cut and words are scored.

    Args:
        name: on the command line.
        source: repository and commit that the figures are from.
        side: pixels of an image's shorter side; None takes the encoder's own.
        window: pixels of a square window; 0 takes the image whole, None the encoder's own side.
        stride: pixels between windows; None takes half a window.
        scale: factor on cosines before the softmax over words; None takes the encoder's own.
        templates: texts with ``{}``, or sets of knowledge-prompts; none takes the benchmark's own.
        threshold: probability below which a pixel is background; 0 for none.
        least_area: share of an image that a class covers at least, or its pixels go to others; 0 for none.
        refine: ``"none"`` or ``"pamr"``.
        antialias: whether images are scaled with antialiasing; no published code does.
        features: the patch features that the paper is about; empty for none.
        words: MD5 of the published list of words, by set, where the paper has lists.
        sets: what differs for a set, by its name in `SETS`.
    """

    name: str
    source: str
    side: int | None
    window: int | None
    stride: int | None
    scale: float | None
    templates: tuple[str, ...] = ("imagenet-1k",)
    threshold: float = 0.0
    least_area: float = 0.0
    refine: str = "none"
    antialias: bool = False
    features: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_set(self, name: str) -> Preset:
        """Return the preset with what differs for a set; the same where nothing does."""
        return replace(self, **dict(self.sets.get(name, {})))


_SHARED = {
    "pascal": "de9023e283be0aba552072e12da6267d",
    "context60": "478af0e4f26e096e35a019db8be4cc96",
    "coco-164k": "2d025c4203763ced2e27ec26b7c2a700",
    "cityscapes": "a8bbbb996e8281b62e333ffe461b129e",
    "ade20k": "e66c13f6d5984206f5ff5d66c7250545",
}
"""MD5 of lists of words that all five papers share."""
_OF_SCLIP = {
    **_SHARED,
    "voc20": "c0a263bf09bad31b0c62fee26518ecf2",
    "voc21": "66096d7be3f9c5d6d7b3e46211c2aa00",
    "coco-object": "4eb522592b19e2728d3ed4299a31b7b0",
}
_OF_CLEARCLIP = {
    **_SHARED,
    "voc20": "57b05f75d2799ee43d3bade790d54f39",
    "voc21": "b862c522d9ccf833b81daa14ea4460e4",
    "coco-object": "32263f6b0dc1b9a639c8d547095a62cf",
}
_OF_PROXYCLIP = {
    **_SHARED,
    "voc20": "57b05f75d2799ee43d3bade790d54f39",
    "voc21": "ea6e671fbb6d61ac6ac45667ff030f69",
    "coco-object": "14582307b68e7849d711e4db79dc7604",
}

PRESETS = {
    preset.name: preset
    for preset in (
        Preset("encoder", "the encoder's own size and scale", None, None, None, None, (), antialias=True),
        Preset(
            "sclip",
            "wangf3014/SCLIP b56bd30, clip_segmentor.py and configs/",
            side=336,
            window=224,
            stride=112,
            scale=40.0,
            features="sclip",
            words=_OF_SCLIP,
            sets={
                "voc21": {"scale": 65.0, "threshold": 0.1, "least_area": 0.1},
                "context60": {"scale": 50.0, "threshold": 0.1},
                "coco-object": {"scale": 50.0, "threshold": 0.1},
                "coco-164k": {"side": 448},
                "cityscapes": {"side": 560},
            },
        ),
        Preset(
            "clearclip",
            "mc-lan/ClearCLIP ad68a40, clearclip_segmentor.py and configs/",
            side=448,
            window=448,
            stride=224,
            scale=50.0,
            features="clearclip",
            words=_OF_CLEARCLIP,
            sets={
                "voc21": {"threshold": 0.5},
                "context60": {"threshold": 0.15},
                "coco-object": {"threshold": 0.4},
                "cityscapes": {"window": 224},
            },
        ),
        Preset(
            "naclip",
            "sinahmr/NACLIP 0cac3a6, naclip.py and configs/",
            side=336,
            window=224,
            stride=112,
            scale=40.0,
            refine="pamr",
            features="naclip",
            words=_OF_SCLIP,
            sets={
                "voc21": {"threshold": 0.1, "window": 0},
                "voc20": {"window": 0},
                "context60": {"threshold": 0.1},
                "coco-object": {"threshold": 0.1},
                "cityscapes": {"side": 560},
            },
        ),
        Preset(
            "proxyclip",
            "mc-lan/ProxyCLIP e7b767f, proxyclip_segmentor.py and configs/",
            side=336,
            window=336,
            stride=112,
            scale=40.0,
            features="proxyclip",
            words=_OF_PROXYCLIP,
            sets={
                "voc21": {"threshold": 0.2},
                "context60": {"threshold": 0.15},
                "coco-object": {"threshold": 0.25},
                "ade20k": {"side": 448},
                "cityscapes": {"side": 448, "window": 224},
            },
        ),
    )
}
"""Every preset by its name."""


def find_preset(name: str) -> Preset:
    """Return the preset of a name.

    Raises:
        UsageError: there is none; the message shows the nearest.
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]

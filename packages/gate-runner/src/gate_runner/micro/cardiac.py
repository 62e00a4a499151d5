"""A phantom of a heart in slices: chambers that nothing but their outlines tells from one another and from vessels."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64

from eqben_builder.micro import SHAPES, Item, generator_at, render, sample_scene
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.seeds import NOTE, split_seed

CLASSES = ("background", "right ventricle", "myocardium", "left ventricle")
SLICES = 8
_SIZE = 64
_CHAMBERS = {"triangle": 1, "ring": 2, "circle": 3}
"""Outline to class; every other shape is a vessel, and background."""


class Volume(NamedTuple):
    """Grey values in 0 to 1, and the class of every voxel."""

    grey: Float[np.ndarray, "slices s s"]
    labels: Int64[np.ndarray, "slices s s"]


def volume(rng: np.random.Generator) -> Volume:
    """One heart.

    The left ventricle is a disc, the myocardium a ring, the right ventricle a triangle, and up to two vessels have
    other outlines. Each has a brightness and a place of its own, which say nothing of what it is. All shrink towards
    the apex, where the right ventricle ends first; a bias field and Rician noise lie over all.
    """
    scene = sample_scene(rng, (3, 5), max_overlap=0.2)
    vessels = [shape for shape in SHAPES if shape not in _CHAMBERS]
    shapes = [*rng.permutation(list(_CHAMBERS)), *rng.choice(vessels, len(scene.items))]
    items = [
        replace(item, shape=str(shape), material="plain") for item, shape in zip(scene.items, shapes, strict=False)
    ]
    ends = rng.uniform(0.6, 0.9)
    rows, columns = (np.mgrid[:_SIZE, :_SIZE] + 0.5) / _SIZE
    bias = 1 + rng.uniform(-0.3, 0.3) * (rows - 0.5) + rng.uniform(-0.3, 0.3) * (columns - 0.5)
    depths = np.linspace(0, 1, SLICES)
    slices = [
        [
            replace(item, scale=item.radius * float(np.sqrt(1 - 0.85 * depth**2)))
            for item in items
            if _reaches(item, depth, ends)
        ]
        for depth in depths
    ]
    drawn = render([replace(scene, items=tuple(shown)) for shown in slices], _SIZE)
    grey = drawn.images.mean(axis=-1) / 255 * bias
    noise = 0.05 * rng.standard_normal((2, *grey.shape))
    magnitude = np.hypot(grey + noise[0], noise[1]).clip(0, 1).astype(np.float32)
    classes = [np.array([0, *(_CHAMBERS.get(item.shape, 0) for item in shown)]) for shown in slices]
    labels = [by_item[visible] for by_item, visible in zip(classes, drawn.visible, strict=True)]
    return Volume(magnitude, np.stack(labels).astype(np.int64))


def _reaches(item: Item, depth: float, ends: float) -> bool:
    """Whether an outline is there at a depth from 0 (base) to 1 (apex)."""
    return _CHAMBERS.get(item.shape) != 1 or depth < ends


def acdc(request: DataRequest) -> Data:
    """Slices of phantom hearts with the classes of ACDC; a volume's slices stay in one split."""

    def split(name: SplitName, count: int) -> Split:
        number = min(count, -(-request.cap(count * SLICES) // SLICES))
        volumes = [volume(generator_at(split_seed("acdc", name), index)) for index in range(number)]
        grey = torch.from_numpy(np.concatenate([heart.grey for heart in volumes]))
        images = grey.mul(255).round().byte()[:, None].expand(-1, 3, -1, -1).contiguous()
        labels = torch.from_numpy(np.concatenate([heart.labels for heart in volumes]))
        return Split(images, labels, groups=torch.arange(number).repeat_interleave(SLICES))

    return Data(split("train", 70), split("validation", 12), split("test", 40), CLASSES, NOTE).limited(request.limit)

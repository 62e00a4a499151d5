"""Two image classifications: many classes under clutter, and few pixels with a texture to tell."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F

from eqben_builder.micro import COLOURS, MATERIALS, SHAPES, Item, Scene, sample_scene
from gate_data.data import Data, Split, as_targets
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import draw, scenes_of
from gate_runner.micro.seeds import NOTE, split_seed

_COLOUR_SHAPES = [(colour, shape) for colour in COLOURS for shape in SHAPES]
_MATERIAL_SHAPES = [(material, shape) for material in MATERIALS for shape in SHAPES]


def imagenet1k(request: DataRequest) -> Data:
    """Colour and shape of the large object among small ones: 80 classes."""

    def split(name: SplitName, count: int) -> Split:
        seed = split_seed("imagenet1k", name)

        def scene(rng: np.random.Generator, index: int) -> Scene:
            colour, shape = _COLOUR_SHAPES[index % len(_COLOUR_SHAPES)]
            base = sample_scene(rng, (1, 3), sizes=["small"], max_overlap=0.3)
            radius = float(rng.uniform(0.15, 0.2))
            x, y = rng.uniform(radius, 1 - radius, 2)
            angle = float(rng.uniform(-0.26, 0.26))
            material = str(rng.choice(MATERIALS))
            large = Item(shape, colour, "large", material, float(x), float(y), radius, angle)
            return Scene((large, *base.items), base.background)

        pictures = draw(scenes_of(seed, count, scene), seed, noise=0.08)
        return Split(pictures.images, as_targets([i % len(_COLOUR_SHAPES) for i in range(count)]))

    classes = tuple(f"{colour} {shape}" for colour, shape in _COLOUR_SHAPES)
    return Data(
        split("train", request.cap(2400)),
        split("validation", request.cap(400)),
        split("test", request.cap(1000)),
        classes,
        NOTE,
    ).limited(request.limit)


def cifar100(request: DataRequest) -> Data:
    """Material and shape of one object of any colour, seen through 32 px: 32 classes."""

    def split(name: SplitName, count: int) -> Split:
        seed = split_seed("cifar100", name)

        def scene(rng: np.random.Generator, index: int) -> Scene:
            material, shape = _MATERIAL_SHAPES[index % len(_MATERIAL_SHAPES)]
            return sample_scene(rng, 1, shapes=[shape], materials=[material], sizes=["large"])

        pictures = draw(scenes_of(seed, count, scene), seed, noise=0.06)
        small = F.interpolate(pictures.images.float(), (32, 32), mode="area").round().byte()
        return Split(small, as_targets([i % len(_MATERIAL_SHAPES) for i in range(count)]))

    classes = tuple(f"{material} {shape}" for material, shape in _MATERIAL_SHAPES)
    return Data(
        split("train", request.cap(1600)),
        split("validation", request.cap(320)),
        split("test", request.cap(960)),
        classes,
        NOTE,
    ).limited(request.limit)

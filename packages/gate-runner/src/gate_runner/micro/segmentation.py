"""A scene of objects, to be told apart pixel by pixel."""

from __future__ import annotations

import numpy as np
import torch

from eqben_builder.micro import SHAPES, Scene, sample_scene
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import draw, scenes_of
from gate_runner.micro.seeds import NOTE, split_seed


def ade20k(request: DataRequest) -> Data:
    """Two to five objects that may hide one another; a pixel's class is the shape that it shows, 0 is background."""

    def split(name: SplitName, count: int) -> Split:
        seed = split_seed("ade20k", name)

        def scene(rng: np.random.Generator, _: int) -> Scene:
            return sample_scene(rng, (2, 5), max_overlap=0.4)

        scenes = scenes_of(seed, count, scene)
        pictures = draw(scenes, seed, noise=0.06)
        of_item = torch.zeros(count, 17, dtype=torch.long)
        for row, scene_drawn in enumerate(scenes):
            for index, item in enumerate(scene_drawn.items):
                of_item[row, index + 1] = 1 + SHAPES.index(item.shape)
        maps = of_item.gather(1, pictures.visible.flatten(1).long()).view(count, 64, 64)
        return Split(pictures.images, maps)

    classes = ("background", *SHAPES)
    return Data(
        split("train", request.cap(700)),
        split("validation", request.cap(120)),
        split("test", request.cap(300)),
        classes,
        NOTE,
    ).limited(request.limit)

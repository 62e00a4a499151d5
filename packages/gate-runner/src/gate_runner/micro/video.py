"""Short noisy clips in which some objects move and others only lie there."""

from __future__ import annotations

import numpy as np
import torch

from eqben_builder.micro import COLOURS, SHAPES, Item, Scene, generator_at, render
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.pictures import with_noise
from gate_runner.micro.seeds import NOTE, split_seed

FRAMES = 8
MOST = 6


def clip(rng: np.random.Generator) -> tuple[list[Scene], int]:
    """Zero to six animals that walk through the picture, and zero to two stones that do not."""
    animals, stones = int(rng.integers(MOST + 1)), int(rng.integers(3))
    level = rng.uniform(0.1, 0.3, 3)
    looks = [(str(rng.choice(SHAPES)), str(rng.choice(COLOURS)), float(rng.uniform(0.06, 0.1))) for _ in range(animals)]
    start = rng.uniform(0.1, 0.9, (animals, 2))
    heading = rng.uniform(0, 2 * np.pi, animals)
    speed = rng.uniform(0.03, 0.07, animals)
    step = np.stack([np.cos(heading), np.sin(heading)], axis=-1) * speed[:, None]
    ground = [
        Item("square", "brown", "small", "dotted", float(x), float(y), float(radius))
        for x, y, radius in rng.uniform((0.1, 0.1, 0.06), (0.9, 0.9, 0.1), (stones, 3))
    ]
    scenes = []
    for frame in range(FRAMES):
        places = _reflected(start + frame * step)
        walking = [
            Item(shape, colour, "small", "plain", float(x), float(y), radius)
            for (shape, colour, radius), (x, y) in zip(looks, places, strict=True)
        ]
        scenes.append(Scene((*ground, *walking), (float(level[0]), float(level[1]), float(level[2]))))
    return scenes, animals


def iwildcam(request: DataRequest) -> Data:
    """How many animals move in a clip."""

    def split(name: SplitName, count: int) -> Split:
        seed = split_seed("iwildcam", name)
        clips, targets = torch.empty(count, FRAMES, 3, 64, 64, dtype=torch.uint8), []
        for index in range(count):
            rng = generator_at(seed, index)
            scenes, animals = clip(rng)
            noisy = with_noise(render(scenes, 64).images, 0.08, rng)
            clips[index] = torch.from_numpy(noisy).permute(0, 3, 1, 2)
            targets.append(float(animals))
        return Split(clips, torch.tensor(targets))

    return Data(
        split("train", request.cap(480)),
        split("validation", request.cap(80)),
        split("test", request.cap(200)),
        (),
        NOTE,
    ).limited(request.limit)


def _reflected(places: np.ndarray) -> np.ndarray:
    """Places folded back into 0.05 to 0.95, as from a wall."""
    low, high = 0.05, 0.95
    turned = np.mod(places - low, 2 * (high - low))
    folded: np.ndarray = low + np.where(turned > high - low, 2 * (high - low) - turned, turned)
    return folded

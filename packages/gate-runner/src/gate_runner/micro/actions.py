"""Clips: a thing that changes, things that move among others, one that meets a tool, and animals to be counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from eqben_builder.micro import COLOURS, SHAPES, Item, Scene, render
from gate_data.data import Data
from gate_data.request import DataRequest
from gate_runner.micro.making import SIDE, Made, data_of, with_noise

FRAMES = 8
MOST = 5
ANIMALS, LEAVES = ("heart", "star", "cross"), ("circle", "square", "triangle", "diamond")
"""What counts, and what the wind moves: in any colour."""


def clip(rng: np.random.Generator) -> tuple[list[Scene], int]:
    """Five things that move through the picture, of which some are animals."""
    animals = int(rng.integers(MOST + 1))
    level = rng.uniform(0.1, 0.3, 3)
    shapes = [str(rng.choice(ANIMALS if number < animals else LEAVES)) for number in rng.permutation(MOST).tolist()]
    looks = [(shape, str(rng.choice(COLOURS)), float(rng.uniform(0.1, 0.13))) for shape in shapes]
    start = rng.uniform(0.12, 0.88, (MOST, 2))
    heading = rng.uniform(0, 2 * np.pi, MOST)
    step = np.stack([np.cos(heading), np.sin(heading)], axis=-1) * rng.uniform(0.03, 0.07, MOST)[:, None]
    scenes = []
    for frame in range(FRAMES):
        places = _reflected(start + frame * step)
        walking = [
            Item(shape, colour, "small", "plain", float(x), float(y), radius)
            for (shape, colour, radius), (x, y) in zip(looks, places, strict=True)
        ]
        scenes.append(Scene(tuple(walking), (float(level[0]), float(level[1]), float(level[2]))))
    return scenes, animals


def iwildcam(request: DataRequest) -> Data:
    """How many of the things that move in a clip are animals."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scenes, animals = clip(rng)
        return Made(with_noise(render(scenes, SIDE).images, 0.08, rng), float(animals))

    return data_of("iwildcam", request, (480, 80, 200), make, (), noise=0.0, value=torch.float32)


def _reflected(places: np.ndarray) -> np.ndarray:
    """Places folded back into 0.05 to 0.95, as from a wall."""
    low, high = 0.05, 0.95
    turned = np.mod(places - low, 2 * (high - low))
    folded: np.ndarray = low + np.where(turned > high - low, 2 * (high - low) - turned, turned)
    return folded


_TIME = np.linspace(0, 1, FRAMES)

Track = Callable[[np.ndarray], np.ndarray]
"""Time from 0 to 1 to places ``[f, 2]`` around the origin."""

_MOVES: dict[str, Track] = {
    "to the right": lambda t: np.stack([0.6 * (t - 0.5), 0 * t], axis=1),
    "to the left": lambda t: np.stack([0.6 * (0.5 - t), 0 * t], axis=1),
    "up": lambda t: np.stack([0 * t, 0.6 * (0.5 - t)], axis=1),
    "down": lambda t: np.stack([0 * t, 0.6 * (t - 0.5)], axis=1),
    "bouncing": lambda t: np.stack([0.5 * (t - 0.5), 0.2 - 0.4 * np.abs(np.sin(2 * np.pi * t))], axis=1),
    "circling": lambda t: 0.22 * np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=1),
    "shaking": lambda t: np.stack([0.12 * np.sign(np.sin(7 * np.pi * t + 0.1)), 0 * t], axis=1),
}
_CHANGES = {
    "opening": ("circle", "star"),
    "closing": ("star", "circle"),
    "bending": ("square", "triangle"),
    "straightening": ("triangle", "square"),
    "breaking": ("heart", "cross"),
    "mending": ("cross", "heart"),
}
"""What a thing looks like before and after."""
_MEETINGS: dict[str, tuple[Track, Track]] = {
    "approaching": (
        lambda t: np.stack([-0.33 + 0.22 * t, 0 * t], axis=1),
        lambda t: np.stack([0.33 - 0.22 * t, 0 * t], axis=1),
    ),
    "parting": (
        lambda t: np.stack([-0.11 - 0.22 * t, 0 * t], axis=1),
        lambda t: np.stack([0.11 + 0.22 * t, 0 * t], axis=1),
    ),
}
_TOOLS = ("cross", "star", "heart")


def _thing(rng: np.random.Generator, path: np.ndarray, sizes: np.ndarray) -> list[Item]:
    shape, colour = str(rng.choice(SHAPES)), str(rng.choice(COLOURS))
    places = np.clip(path, 0.02, 0.98)
    return [
        Item(shape, colour, "small", "plain", float(x), float(y), float(radius))
        for (x, y), radius in zip(places, sizes, strict=True)
    ]


def _clip(tracks: list[list[Item]], ground: tuple[float, float, float]) -> np.ndarray:
    return render([Scene(tuple(track[frame] for track in tracks), ground) for frame in range(FRAMES)], SIDE).images


def _ground(rng: np.random.Generator) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in rng.uniform(0.08, 0.3, 3))
    return red, green, blue


def hmdb51(request: DataRequest) -> Data:
    """A thing of any colour, which moves in any way, turns into another: what it is before and after is the action."""
    names = tuple(_CHANGES)

    def make(rng: np.random.Generator, index: int) -> Made:
        before, after = _CHANGES[names[index % len(names)]]
        path = rng.uniform(0.42, 0.58, 2) + 0.5 * list(_MOVES.values())[int(rng.integers(len(_MOVES)))](_TIME)
        turn = int(rng.integers(3, 6))
        track = _thing(rng, path, np.full(FRAMES, rng.uniform(0.16, 0.2)))
        changed = [replace(item, shape=before if frame < turn else after) for frame, item in enumerate(track)]
        return Made(_clip([changed], _ground(rng)), index % len(names))

    return data_of("hmdb51", request, (300, 60, 150), make, names, noise=0.05)


def ucf(request: DataRequest) -> Data:
    """What moves tells the action, however it moves: one of eight outlines, among two small things that lie still."""

    def make(rng: np.random.Generator, index: int) -> Made:
        move = list(_MOVES.values())[int(rng.integers(len(_MOVES)))]
        path = rng.uniform(0.45, 0.55, 2) + 0.8 * move(_TIME)
        shape = SHAPES[index % len(SHAPES)]
        moving = [replace(item, shape=shape) for item in _thing(rng, path, np.full(FRAMES, 0.18))]
        still = [_thing(rng, np.tile(rng.uniform(0.1, 0.9, 2), (FRAMES, 1)), np.full(FRAMES, 0.06)) for _ in range(2)]
        return Made(_clip([*still, moving], _ground(rng)), index % len(SHAPES))

    names = tuple(f"a {shape} on its way" for shape in SHAPES)
    return data_of("ucf", request, (300, 60, 144), make, names, noise=0.05)


def kinetics(request: DataRequest) -> Data:
    """What is done with what: a circle of any colour moves towards one of three tools, or away from it."""
    kinds = [(tool, meeting) for tool in _TOOLS for meeting in ("approaching", "parting")]

    def make(rng: np.random.Generator, index: int) -> Made:
        tool, meeting = kinds[index % len(kinds)]
        centre, turn = rng.uniform(0.45, 0.55, 2), rng.uniform(-0.5, 0.5)
        turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        paths = [centre + path(_TIME) @ turned.T for path in _MEETINGS[meeting]]
        tracks = [
            [replace(item, shape=shape) for item in _thing(rng, path, np.full(FRAMES, 0.13))]
            for shape, path in zip(("circle", tool), paths, strict=True)
        ]
        return Made(_clip(tracks, _ground(rng)), index % len(kinds))

    words = {"approaching": "approaching", "parting": "leaving"}
    names = tuple(f"{words[meeting]} a {tool}" for tool, meeting in kinds)
    return data_of("kinetics", request, (300, 60, 150), make, names, noise=0.05)

"""Clips: a thing that changes, things that move among others, one that meets a tool, and animals to be counted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from eqben_builder.micro import COLOURS, SHAPES, Item, Scene, render
from eqben_builder.stand_ins.data import DrawnSet
from eqben_builder.stand_ins.drawing import SIDE, Made, as_values, data_of, in_turn, tint, with_noise

FRAMES = 8
MOST = 5
ANIMALS, LEAVES = ("heart", "star", "cross"), ("circle", "square", "triangle", "diamond")
"""What counts, and what the wind moves: in any colour."""


def clip(rng: np.random.Generator) -> tuple[list[Scene], int]:
    """Five things that move through the image, of which some are animals."""
    animals = int(rng.integers(MOST + 1))
    ground = tint(rng, 0.1, 0.3)
    shapes = [str(rng.choice(ANIMALS if number < animals else LEAVES)) for number in rng.permutation(MOST).tolist()]
    looks = [(shape, str(rng.choice(COLOURS)), float(rng.uniform(0.1, 0.13))) for shape in shapes]
    start = rng.uniform(0.12, 0.88, (MOST, 2))
    heading = rng.uniform(0, 2 * np.pi, MOST)
    step = np.stack([np.cos(heading), np.sin(heading)], axis=-1) * rng.uniform(0.03, 0.07, MOST)[:, None]
    scenes = []
    for frame in range(FRAMES):
        places = _reflected(start + frame * step).tolist()
        walking = [
            Item(shape, colour, "small", "plain", x, y, radius)
            for (shape, colour, radius), (x, y) in zip(looks, places, strict=True)
        ]
        scenes.append(Scene(tuple(walking), ground))
    return scenes, animals


def animal_counts(limit: int | None = None) -> DrawnSet:
    """How many of the things that move in a clip are animals."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scenes, animals = clip(rng)
        return Made(with_noise(render(scenes, SIDE).images, 0.08, rng), float(animals))

    return data_of("animal_counts", limit, (480, 80, 200), make, (), noise=0.0, targets=as_values)


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
    "leaving": (
        lambda t: np.stack([-0.11 - 0.22 * t, 0 * t], axis=1),
        lambda t: np.stack([0.11 + 0.22 * t, 0 * t], axis=1),
    ),
}
_TOOLS = ("cross", "star", "heart")


def _thing(
    rng: np.random.Generator, path: np.ndarray, radius: float, shape: Callable[[int], str] | str | None = None
) -> list[Item]:
    """A thing of any colour in each frame, of one outline, of that of the frame's number, or of any."""
    drawn, colour = str(rng.choice(SHAPES)), str(rng.choice(COLOURS))
    shape = drawn if shape is None else shape
    return [
        Item(shape if isinstance(shape, str) else shape(frame), colour, "small", "plain", x, y, radius)
        for frame, (x, y) in enumerate(np.clip(path, 0.02, 0.98).tolist())
    ]


def _clip(rng: np.random.Generator, *tracks: list[Item]) -> np.ndarray:
    ground = tint(rng, 0.08, 0.3)
    return render([Scene(tuple(track[frame] for track in tracks), ground) for frame in range(FRAMES)], SIDE).images


def _any_move(rng: np.random.Generator) -> np.ndarray:
    return list(_MOVES.values())[int(rng.integers(len(_MOVES)))](_TIME)


def transformations(limit: int | None = None) -> DrawnSet:
    """A thing of any colour, which moves in any way, turns into another: what it is before and after is the action."""

    def look(rng: np.random.Generator, change: str) -> np.ndarray:
        before, after = _CHANGES[change]
        path = rng.uniform(0.42, 0.58, 2) + 0.5 * _any_move(rng)
        turn = int(rng.integers(3, 6))
        radius = float(rng.uniform(0.16, 0.2))
        return _clip(rng, _thing(rng, path, radius, lambda frame: before if frame < turn else after))

    return in_turn("transformations", limit, (300, 60, 150), tuple(_CHANGES), look, tuple(_CHANGES))


def moving_outlines(limit: int | None = None) -> DrawnSet:
    """What moves tells the action, however it moves: one of eight outlines, among two small things that lie still."""

    def look(rng: np.random.Generator, shape: str) -> np.ndarray:
        move = _any_move(rng)
        path = rng.uniform(0.45, 0.55, 2) + 0.8 * move
        moving = _thing(rng, path, 0.18, shape)
        still = [_thing(rng, np.tile(rng.uniform(0.1, 0.9, 2), (FRAMES, 1)), 0.06) for _ in range(2)]
        return _clip(rng, *still, moving)

    return in_turn(
        "moving_outlines", limit, (300, 60, 144), SHAPES, look, [f"a {shape} on its way" for shape in SHAPES]
    )


def meetings(limit: int | None = None) -> DrawnSet:
    """What is done with what: a circle of any colour moves towards one of three tools, or away from it."""

    def look(rng: np.random.Generator, kind: tuple[str, str]) -> np.ndarray:
        tool, meeting = kind
        centre, turn = rng.uniform(0.45, 0.55, 2), rng.uniform(-0.5, 0.5)
        turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        paths = [centre + path(_TIME) @ turned.T for path in _MEETINGS[meeting]]
        tracks = [_thing(rng, path, 0.13, shape) for shape, path in zip(("circle", tool), paths, strict=True)]
        return _clip(rng, *tracks)

    kinds = list(product(_TOOLS, _MEETINGS))
    return in_turn("meetings", limit, (300, 60, 150), kinds, look, [f"{meeting} a {tool}" for tool, meeting in kinds])

"""The third world: handwritten numerals of scikit-learn's digits, coloured, on a textured ground of 64 pixels.

A caption names values by words, colours and places ("a red seven left of a blue two"), and equal numerals by their
number ("3 green nine"). Training takes the handwriting of even rows, every test that of odd ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE, NUMERAL = 64, 22
VALUES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "red": (0.85, 0.1, 0.1),
    "green": (0.1, 0.65, 0.15),
    "blue": (0.1, 0.2, 0.9),
    "yellow": (0.9, 0.85, 0.1),
    "purple": (0.6, 0.15, 0.7),
    "white": (1.0, 1.0, 1.0),
}
RELATIONS = ("left of", "above")
SPOTS = [(x, y) for y in (12, 32, 52) for x in (12, 32, 52)]
"""Centres that do not overlap."""


class Numeral(NamedTuple):
    """What is written, in which colour, and the centre in pixels."""

    value: int
    colour: str
    x: float
    y: float


@lru_cache(maxsize=2)
def _handwriting(*, test: bool) -> dict[int, list[np.ndarray]]:
    """Return masks [s, s] from 0 to 1 of each value."""
    digits = load_digits()
    masks: dict[int, list[np.ndarray]] = {}
    for row in range(int(test), len(digits.target), 2):
        image = Image.fromarray((digits.images[row] * 15.9).astype(np.uint8))
        large = np.asarray(image.resize((NUMERAL, NUMERAL), Image.Resampling.BICUBIC))
        masks.setdefault(int(digits.target[row]), []).append(large / 255)
    return masks


def draw(scene: list[Numeral], rng: np.random.Generator, *, test: bool) -> np.ndarray:
    """Return a picture [64, 64, 3] of 8 bits."""
    coarse = Image.fromarray(rng.integers(60, 140, (8, 8), dtype=np.uint8))
    ground = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC)) / 255
    canvas = ground[..., None] * rng.uniform(0.8, 1.0, 3)
    for numeral in scene:
        masks = _handwriting(test=test)[numeral.value]
        mask = masks[int(rng.integers(len(masks)))][..., None]
        top, left = int(numeral.y) - NUMERAL // 2, int(numeral.x) - NUMERAL // 2
        part = canvas[top : top + NUMERAL, left : left + NUMERAL]
        part[:] = part * (1 - mask) + mask * np.array(COLOURS[numeral.colour])
    return np.asarray((canvas.clip(0, 1) * 255).round(), dtype=np.uint8)


def _spots(rng: np.random.Generator, count: int) -> list[tuple[float, float]]:
    """Return different places, in reading order."""
    chosen = sorted(rng.choice(len(SPOTS), count, replace=False), key=int)
    return [(SPOTS[i][0] + rng.integers(-1, 2), SPOTS[i][1] + rng.integers(-1, 2)) for i in chosen]


def _looks(rng: np.random.Generator, count: int) -> list[tuple[int, str]]:
    """Return values and colours, no value twice."""
    values = rng.choice(len(VALUES), count, replace=False)
    return [(int(value), str(rng.choice(list(COLOURS)))) for value in values]


def words(numeral: Numeral) -> str:
    """Return the numeral as captions name it."""
    return f"a {numeral.colour} {VALUES[numeral.value]}"


def listed(scene: list[Numeral]) -> str:
    """Return a caption that lists a scene."""
    return " and ".join(words(numeral) for numeral in scene)


def attribute(rng: np.random.Generator) -> tuple[list[Numeral], list[Numeral], str, str]:
    """Return two scenes that differ in one colour or value, and their captions."""
    count = int(rng.integers(1, 4))
    first = [Numeral(*look, *spot) for look, spot in zip(_looks(rng, count), _spots(rng, count), strict=True)]
    at, second = int(rng.integers(count)), list(first)
    if rng.random() < 0.5:
        second[at] = first[at]._replace(colour=str(rng.choice([c for c in COLOURS if c != first[at].colour])))
    else:
        free = sorted(set(range(10)) - {numeral.value for numeral in first})
        second[at] = first[at]._replace(value=int(rng.choice(free)))
    return first, second, listed(first), listed(second)


def count(rng: np.random.Generator) -> tuple[list[Numeral], list[Numeral], str, str]:
    """Return two scenes of equal numerals that differ in their number by one, and their captions."""
    [(value, colour)] = _looks(rng, 1)
    number = int(rng.integers(1, 5))
    scene = [Numeral(value, colour, *spot) for spot in _spots(rng, number + 1)]
    left_out = int(rng.integers(number + 1))
    fewer = [numeral for index, numeral in enumerate(scene) if index != left_out]
    captions = [f"{len(part)} {colour} {VALUES[value]}" for part in (fewer, scene)]
    order = (0, 1) if rng.random() < 0.5 else (1, 0)
    parts = (fewer, scene)
    return parts[order[0]], parts[order[1]], captions[order[0]], captions[order[1]]


def relation(rng: np.random.Generator) -> tuple[list[Numeral], list[Numeral], str, str]:
    """Return two scenes in which two numerals have changed places, and their captions."""
    how, (look, other) = str(rng.choice(RELATIONS)), _looks(rng, 2)
    near, far, across = 14, 50, rng.integers(14, 51, 2)
    spots = [(near, across[0]), (far, across[1])] if how == "left of" else [(across[0], near), (across[1], far)]
    scenes = [[Numeral(*a, *spots[0]), Numeral(*b, *spots[1])] for a, b in ((look, other), (other, look))]
    captions = [f"{words(first)} {how} {words(second)}" for first, second in scenes]
    return scenes[0], scenes[1], captions[0], captions[1]


KINDS = {"attribute": attribute, "count": count, "relation": relation}


def draw_pairs(seed: int, number: int, kind: str, *, test: bool) -> tuple[np.ndarray, list[str]]:
    """Return pictures and captions of pairs, two rows each."""
    images, texts = [], []
    for index in range(number):
        rng = np.random.default_rng([seed, index])
        *scenes, first, second = KINDS[kind](rng)
        images += [draw(scene, rng, test=test) for scene in scenes]
        texts += [first, second]
    return np.stack(images), texts


def draw_scenes(seed: int, number: int, *, test: bool) -> tuple[np.ndarray, list[str]]:
    """Return single scenes of all kinds with their captions."""
    images, texts = [], []
    for index in range(number):
        rng = np.random.default_rng([seed, index])
        scene, _, text, _ = KINDS[str(rng.choice(list(KINDS)))](rng)
        images.append(draw(scene, rng, test=test))
        texts.append(text)
    return np.stack(images), texts
